"""The vocabulary of Hugging Face's Marian models: source.spm, target.spm, vocab.json and back."""

import re
from pathlib import Path

from transformer.data import piece_table, tokenizer
from transformer.data.tokenizer import END, PAD, START, UNKNOWN
from transformer.errors import UserError
from transformer.interop.foreign import Renumbering, renumber
from transformer.storage import json_files

SIDES = ("source", "target")


def read(
    folder: Path, config: dict, shared: bool
) -> tuple[tuple[Renumbering, Renumbering], dict[str, bytes]]:
    """Returns the orders of source and target, and the files of our vocabulary."""
    files = {f"{side}.model": folder / f"{side}.spm" for side in SIDES}
    contents = {}
    for name, file in files.items():
        if not file.is_file():
            raise UserError(f"{file} is missing")
        contents[name] = file.read_bytes()
        tokenizer.load_processor(contents[name], str(file))
    source = _renumbering(folder / "vocab.json", config)
    if shared:
        return (source, source), {**contents, "shared.pieces": piece_table.dumps(source.pieces)}
    separate = json_files.read_object(folder / "tokenizer_config.json").get(
        "separate_vocabs", False
    )
    target = _renumbering(folder / ("target_vocab.json" if separate else "vocab.json"), config)
    tables = {"source.pieces": source, "target.pieces": target}
    tables = {name: piece_table.dumps(order.pieces) for name, order in tables.items()}
    return (source, target), {**contents, **tables}


def languages(folder: Path) -> tuple[str, str]:
    """Returns the codes that tokenizer_config.json has for source and target, "" for none."""
    file = folder / "tokenizer_config.json"
    options = json_files.read_object(file) if file.is_file() else {}
    codes = (options.get(f"{side}_lang") or "" for side in SIDES)
    return tuple(str(code) if re.fullmatch(r"[\w-]+", str(code)) else "" for code in codes)


def _renumbering(file: Path, config: dict) -> Renumbering:
    """Returns our order of the pieces in a vocab.json, {piece: id}."""
    ids = json_files.read(file)
    are_ids = isinstance(ids, dict) and sorted(map(repr, ids.values())) == sorted(
        map(repr, range(len(ids)))
    )
    if not are_ids:
        raise UserError(f"{file} is not a table of pieces with the ids 0, 1, 2, ... once each")
    pieces = sorted(ids, key=ids.get)
    special = {"unknown": ids.get("<unk>")}
    names = {"pad": "pad_token_id", "end": "eos_token_id", "start": "decoder_start_token_id"}
    for ours, theirs in names.items():
        special[ours] = config.get(theirs)
    for name, number in special.items():
        if not isinstance(number, int) or not 0 <= number < len(pieces):
            raise UserError(f"{file}: the id of {names.get(name, '<unk>')} is {number!r}")
    return renumber(pieces, **special)


def order_there(vocabulary: tokenizer.Vocabulary) -> tuple[list[int], list[int]]:
    """Returns our ids in Marian's order, of source and target: </s> <unk> ... <pad>.

    Our start symbol is left out: an output begins with <pad> there. Of two vocabularies <pad> is
    the first piece, because both have the same id of it.
    """
    ids = [[END, UNKNOWN, *range(START + 1, len(side))] for side in vocabulary]
    tables = [side.pieces(range(len(side))) for side in vocabulary]
    if tables[0] == tables[1]:
        return tuple([*others, PAD] for others in ids)
    return tuple([PAD, *others] for others in ids)


def write(
    folder: Path,
    vocabulary: tokenizer.Vocabulary,
    max_length: int,
    languages: tuple[str, str] = ("", ""),
) -> None:
    """Writes source.spm, target.spm, vocab.json and tokenizer_config.json."""
    for name, side in vocabulary.sides.items():
        model = side.processor.serialized_model_proto()
        (folder / f"{name}.spm").write_bytes(model)
    sides = zip(vocabulary, order_there(vocabulary), strict=True)
    tables = [side.pieces(ids) for side, ids in sides]
    separate = tables[0] != tables[1]
    for name, table in zip(("vocab.json", "target_vocab.json"), tables, strict=True):
        if name == "vocab.json" or separate:
            json_files.write(folder / name, {piece: i for i, piece in enumerate(table)})
    special = {"pad_token": PAD, "eos_token": END, "unk_token": UNKNOWN}
    json_files.write(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "MarianTokenizer",
            "model_max_length": max_length,
            "separate_vocabs": separate,
            **{f"{side}_lang": x for side, x in zip(SIDES, languages, strict=True) if x},
            "split_special_tokens": True,  # the text "</s>" is none of the special ids
            **dict(zip(special, vocabulary.source.pieces(special.values()), strict=True)),
        },
    )
