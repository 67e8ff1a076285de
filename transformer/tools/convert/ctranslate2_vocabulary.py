"""The vocabulary of CTranslate2's models, and the SentencePiece models beside it.

The pieces by id are in shared_vocabulary, or source_vocabulary and target_vocabulary: .json, or
.txt with one a line. Beside them are source.spm and target.spm, unless each piece is a character.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from transformer.data import piece_table, tokenizer
from transformer.data.piece_table import FIRST
from transformer.errors import UserError
from transformer.runtime import json_files
from transformer.tools.convert.foreign import Renumbering, renumber


def read_order(
    folder: Path, side: str, rows: int, get: Callable[..., str], starts_from_zeros: bool
) -> Renumbering:
    """Returns our order of the pieces of one side, of which the model has `rows` embeddings.

    `get(name, str, default)` is a field of config.json. What starts from zeros has any start
    symbol: ours is a copy of the end.
    """
    files = [
        folder / f"{name}_vocabulary.{suffix}"
        for name in (side, "shared")
        for suffix in ("json", "txt")
    ]
    file = next((file for file in files if file.is_file()), None)
    if file is None:
        raise UserError(f"{folder} holds no {side}_vocabulary.json or .txt")
    pieces = _pieces(file)
    unknown, end = get("unk_token", str, "<unk>"), get("eos_token", str, "</s>")
    start = end if starts_from_zeros else get("decoder_start_token", str, "<s>")
    if rows == len(pieces) + 1 and unknown not in pieces:  # old files leave it out
        pieces = [*pieces, unknown]
    if rows != len(pieces):
        raise UserError(f"{file} has {len(pieces):,} pieces, the model {rows:,} rows for them")

    def number(*names: str) -> int:
        known = [name for name in names if name in pieces]
        return pieces.index((known or [unknown])[0])

    if unknown not in pieces:
        raise UserError(f"{file} lacks the unknown token {unknown!r}")
    if side == "target" and not {end, start} <= {*pieces}:
        raise UserError(f"{file} lacks the end token {end!r} or the start token {start!r}")
    pad = number("<blank>", "<pad>")
    return renumber(pieces, pad=pad, end=number(end), unknown=number(unknown), start=number(start))


def _pieces(file: Path) -> list[str]:
    """Returns the pieces of a vocabulary's file, a JSON list or one a line."""
    if file.suffix == ".json":
        pieces = json_files.read(file)
        if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
            raise UserError(f"{file} is not a list of pieces")
        return pieces
    try:
        pieces = file.read_bytes().decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{file} is not UTF-8: {error.reason} at byte {error.start}") from error
    return pieces[:-1] if pieces[-1] == "" else pieces


def read_files(folder: Path, orders: Sequence[Renumbering]) -> tuple[str, dict[str, bytes]]:
    """Returns the kind of our vocabulary, and its files."""
    shared = orders[0].pieces == orders[1].pieces
    named = (
        {"shared": orders[0]} if shared else dict(zip(("source", "target"), orders, strict=True))
    )
    models = {f"{side}.model": folder / f"{side}.spm" for side in ("source", "target")}
    if all(file.is_file() for file in models.values()):
        contents = {name: file.read_bytes() for name, file in models.items()}
        for name, file in models.items():
            tokenizer.load_processor(contents[name], str(file))
        tables = {f"{x}.pieces": piece_table.dumps(order.pieces) for x, order in named.items()}
        return "table", {**contents, **tables}
    if all(len(piece) == 1 for order in orders for piece in order.pieces[FIRST:]):
        characters = {
            f"{x}.characters": "".join(order.pieces[FIRST:]).encode() for x, order in named.items()
        }
        return "characters", characters
    raise UserError(
        f"{folder}: the pieces are no characters, and the SentencePiece models source.spm and "
        "target.spm are missing: copy them there"
    )
