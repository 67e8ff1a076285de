"""Reads and writes vocabularies of Hugging Face's Marian: source.spm, target.spm, vocab.json."""

import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from transformer.data import tokenizer
from transformer.data.tokenizer import END, FIRST_PIECE, PAD, START, UNKNOWN
from transformer.errors import UserError
from transformer.runtime import paths
from transformer.tools.convert import marian_config, piece_table

SIDES = ("source", "target")
# {field of tokenizer_config.json: its default}
TOKENIZER = {"separate_vocabs": False, "added_tokens_decoder": {}}


class Renumbering(NamedTuple):
    """The order in which a vocabulary's pieces get our ids, the special ids first.

    `old[i]` is Marian's id of our piece i, so that table[old] has a table's rows in our order.
    START may be a copy of another piece, because Marian starts an output with the padding, which no
    output may contain. PAD may be a copy, too.
    """

    old: np.ndarray
    pieces: list[str]
    count: int  # rows of Marian's tables; rows beyond its ids are not read
    silent: tuple[int, ...]  # our ids without a share of the probability, such as copies


def renumber(
    pieces: list[str], *, pad: int, end: int, unknown: int, start: int, count: int = 0
) -> Renumbering:
    """Returns the order in which our special ids are PAD, END, UNKNOWN, START = 0, 1, 2, 3.

    `count` is the number of rows of Marian's tables, 0 for that of pieces. Example: for pieces
    </s> <unk> a b <pad>, with outputs that start with <pad>, `old` is 4 0 1 4 2 3. START is a copy
    of <pad>'s row, and is called <s>.
    """
    special = dict(zip((PAD, END, UNKNOWN, START), (pad, end, unknown, start), strict=True))
    taken = set(special.values())
    old = [special[i] for i in range(4)] + [i for i in range(len(pieces)) if i not in taken]
    names = [pieces[i] for i in old]
    copies = []
    # A special id that shares its row with another needs its own name, and counts as a copy.
    for special_id, name in ((START, "<s>"), (PAD, "<pad>"), (END, "</s>")):
        if names.count(names[special_id]) > 1:
            names[special_id] = name if name not in names else f"<{name}>"
            copies.append(special_id)
    return Renumbering(np.array(old), names, count or len(pieces), tuple(copies))


def read(
    folder: Path, config: dict[str, Any]
) -> tuple[tuple[Renumbering, Renumbering], dict[str, bytes]]:
    """Returns the orders of source and target, and the files of our vocabulary, {name: content}.

    UserError for files that are missing, damaged, or contradict each other.
    """
    # Embeddings that are shared or have one size have one vocabulary.
    shared = config["share_encoder_decoder_embeddings"]
    contents = {}
    for side in SIDES:
        file = folder / f"{side}.spm"
        if not file.is_file():
            raise UserError(f"{file} is missing")
        contents[f"{side}.model"] = file.read_bytes()
        tokenizer.load_processor(contents[f"{side}.model"], str(file))
    # Two vocabularies need tokenizer_config.json with `separate_vocabs`, and reading a missing file
    # raises the error. One vocabulary can do without.
    file = folder / "tokenizer_config.json"
    options = TOKENIZER if shared and not file.is_file() else marian_config.read(file, TOKENIZER)
    separate = options["separate_vocabs"]
    source = _renumbering(folder / "vocab.json", config, config["vocab_size"])
    added = [*options["added_tokens_decoder"]]
    if (file_of_added := folder / "added_tokens.json").is_file():
        added += map(str, paths.read_json_object(file_of_added).values())
    # Compare ids as text, because the keys of a JSON object are strings.
    if beyond := sorted({*added} - {*map(str, source.old)}):
        raise UserError(f"{folder} has the added token {beyond[0]}, which vocab.json lacks")
    file_of_target = folder / ("target_vocab.json" if separate else "vocab.json")
    count = (0 if shared else config["decoder_vocab_size"]) or config["vocab_size"]
    target = _renumbering(file_of_target, config, count)
    # One table if the pieces and their order are equal, even in two files.
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
    """Returns the value of `vocabulary.normalisation` for the files of `read`.

    "nfc" if the SentencePiece models do not normalise text, such as those that --mode=export
    writes; otherwise "".
    """
    processors = (tokenizer.load_processor(contents[f"{x}.model"], x) for x in SIDES)
    has_own = any(tokenizer.proto(x).normalizer_spec.precompiled_charsmap for x in processors)
    return "" if has_own else "nfc"


def languages(folder: Path) -> tuple[str, str]:
    """Returns the codes of source and target in tokenizer_config.json, "" for a missing code."""
    file = folder / "tokenizer_config.json"
    options = paths.read_json_object(file) if file.is_file() else {}
    # A code becomes the suffix of a file, so it has no slash and no dot.
    codes = (options.get(f"{side}_lang") or "" for side in SIDES)
    return tuple(str(code) if re.fullmatch(r"[\w-]+", str(code)) else "" for code in codes)


def _renumbering(file: Path, config: dict[str, Any], count: int) -> Renumbering:
    """Returns our order of the pieces in a file {piece: id}.

    `count` is the number of rows of the model's tables. It may exceed the number of pieces, to be a
    multiple of 8; no text has the ids of these rows.
    """
    ids = paths.read_json_object(file)
    numbers = list(ids.values())
    # `repr` compares types, too: 1 == 1.0 == True, but neither 1.0 nor True is an id.
    if not numbers or {*map(repr, numbers)} != {*map(repr, range(len(numbers)))}:
        raise UserError(f"{file} is not a table of pieces with the ids 0, 1, 2, ... once each")
    if len(ids) > count:
        raise UserError(f"{file} has {len(ids)} pieces, and the model's table {count} rows")
    names = ("pad_token_id", "eos_token_id", "decoder_start_token_id")
    pad, end, start = (config[name] for name in names)
    if "<unk>" not in ids or end == ids["<unk>"] or not {pad, end, start} <= {*numbers}:
        raise UserError(
            f"{file} must have <unk>, and other pieces for {', '.join(names)} of config.json, "
            f"{pad}, {end} and {start}"
        )
    pieces = sorted(ids, key=ids.get)
    return renumber(pieces, pad=pad, end=end, unknown=ids["<unk>"], start=start, count=count)


def marian_orders(vocabulary: tokenizer.Vocabulary) -> tuple[list[int], list[int]]:
    """Returns our ids in Marian's order, for source and target: </s> <unk> ... <pad>.

    Our start symbol is left out, because Marian's outputs start with <pad>. Two vocabularies have
    <pad> first, because Marian has one id of <pad> for both, and their sizes differ.
    """
    # Six pieces: [1, 2, 4, 5, 0] in one vocabulary, [0, 1, 2, 4, 5] in each of two.
    ids = [[END, UNKNOWN, *range(FIRST_PIECE, len(side))] for side in vocabulary]
    tables = [side.pieces(range(len(side))) for side in vocabulary]
    if tables[0] == tables[1]:
        return tuple([*side_ids, PAD] for side_ids in ids)
    return tuple([PAD, *side_ids] for side_ids in ids)


def write(
    folder: Path, vocabulary: tokenizer.Vocabulary, max_length: int, languages: tuple[str, str]
) -> None:
    """Writes source.spm, target.spm, vocab.json and tokenizer_config.json."""
    for name, side in vocabulary.sides.items():
        (folder / f"{name}.spm").write_bytes(side.processor.serialized_model_proto())
    sides = zip(vocabulary, marian_orders(vocabulary), strict=True)
    source, target = ({x: i for i, x in enumerate(side.pieces(ids))} for side, ids in sides)
    paths.write_json(folder / "vocab.json", source)
    if separate := source != target:
        paths.write_json(folder / "target_vocab.json", target)
    special = {"pad_token": PAD, "eos_token": END, "unk_token": UNKNOWN}
    paths.write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "MarianTokenizer",
            "model_max_length": max_length,
            "separate_vocabs": separate,
            **{f"{side}_lang": x for side, x in zip(SIDES, languages, strict=True) if x},
            "split_special_tokens": True,  # "</s>" in a text is split into pieces, as here
            **dict(zip(special, vocabulary.source.pieces(special.values()), strict=True)),
        },
    )
