"""The vocabulary of Hugging Face's Marian models: source.spm, target.spm, vocab.json and back."""

import functools
import re
from pathlib import Path

from transformer.data import piece_table, tokenizer
from transformer.data.tokenizer import END, PAD, START, UNKNOWN
from transformer.errors import UserError
from transformer.runtime import json_files
from transformer.tools.convert.foreign import Renumbering, renumber

SIDES = ("source", "target")
MOST_PIECES = 1 << 24


def read(
    folder: Path, config: dict, shared: bool
) -> tuple[tuple[Renumbering, Renumbering], dict[str, bytes]]:
    """Returns the orders of source and target, and the files of our vocabulary.

    `shared` says if their tables of embeddings are as large.
    """
    contents = {}
    for side in SIDES:
        file = folder / f"{side}.spm"
        if not file.is_file():
            raise UserError(f"{file} is missing")
        contents[f"{side}.model"] = file.read_bytes()
        tokenizer.load_processor(contents[f"{side}.model"], str(file))
    file = folder / "tokenizer_config.json"
    options = json_files.read_object(file) if file.is_file() or not shared else {}
    separate = json_files.field(options, file, "separate_vocabs", bool, False)
    source = _renumbering(folder / "vocab.json", config, "vocab_size")
    added = [*json_files.field(options, file, "added_tokens_decoder", dict, {})]
    if (file_of_added := folder / "added_tokens.json").is_file():
        added += map(str, json_files.read_object(file_of_added).values())
    if beyond := sorted({*added} - {*map(str, source.old)}):
        raise UserError(f"{folder} has the added token {beyond[0]}, which vocab.json lacks")
    target = _renumbering(
        folder / ("target_vocab.json" if separate else "vocab.json"),
        *(config, "vocab_size" if shared else "decoder_vocab_size"),
    )
    named = {"source": source, "target": target}
    if source.pieces == target.pieces:
        named = {"shared": source}
    elif shared:
        raise UserError(
            f"{file}: separate_vocabs is true, but share_encoder_decoder_embeddings is, too"
        )
    tables = {f"{name}.pieces": piece_table.dumps(order.pieces) for name, order in named.items()}
    return (source, target), {**contents, **tables}


def normalisation(contents: dict[str, bytes]) -> str:
    """Returns `vocabulary.normalisation` for the files of `read`: "nfc" where SentencePiece has no
    normalisation of its own, as in what --mode=export writes, otherwise ""."""
    processors = (tokenizer.load_processor(contents[f"{x}.model"], x) for x in SIDES)
    has_own = any(tokenizer.proto(x).normalizer_spec.precompiled_charsmap for x in processors)
    return "" if has_own else "nfc"


def languages(folder: Path) -> tuple[str, str]:
    """Returns the codes that tokenizer_config.json has for source and target, "" for none."""
    file = folder / "tokenizer_config.json"
    options = json_files.read_object(file) if file.is_file() else {}
    codes = (options.get(f"{side}_lang") or "" for side in SIDES)
    return tuple(str(code) if re.fullmatch(r"[\w-]+", str(code)) else "" for code in codes)


def _renumbering(file: Path, config: dict, size: str) -> Renumbering:
    """Returns our order of the pieces in a table, {piece: id}; `size` is the config's key of it.

    The model may have rows for more ids, as for a multiple of 8: no text has them.
    """
    ids = json_files.read(file)
    are_ids = isinstance(ids, dict) and sorted(map(repr, ids.values())) == sorted(
        map(repr, range(len(ids)))
    )
    if not are_ids:
        raise UserError(f"{file} is not a table of pieces with the ids 0, 1, 2, ... once each")
    if "<unk>" not in ids:
        raise UserError(f"{file} lacks <unk>")
    get = functools.partial(json_files.field, config, file.with_name("config.json"))
    special = {
        ours: get(f"{theirs}_token_id", int, least=0, most=len(ids) - 1)
        for ours, theirs in (("pad", "pad"), ("end", "eos"), ("start", "decoder_start"))
    }
    if special["end"] == ids["<unk>"]:
        raise UserError(f"{file}: <unk> and the end of a text, eos_token_id, are one piece")
    count = get(size, int, config.get("vocab_size"), least=len(ids), most=MOST_PIECES)
    return renumber(sorted(ids, key=ids.get), unknown=ids["<unk>"], count=count, **special)


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
