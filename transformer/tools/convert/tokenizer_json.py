"""The vocabulary of plain text as tokenizer.json, which `tokenizers` and AutoTokenizer load.

SentencePiece's steps are spelt out there: spaces are normalised and become ▁, pieces are merged
(BPE) or the likeliest ones chosen (unigram), and what is no piece becomes bytes.
"""

import re
from pathlib import Path

from sentencepiece.sentencepiece_model_pb2 import ModelProto

from transformer.data import tokenizer
from transformer.data.characters import FIRST, Characters
from transformer.data.tokenizer import END, PAD, START, UNKNOWN
from transformer.errors import UserError
from transformer.runtime import json_files

UNIGRAM, BPE = 1, 2  # SentencePiece's model types; others are words and characters
NORMAL, BYTE = 1, 6  # its types of pieces
LINE_BREAK = "\n"
SPACE = "▁"

Vocabulary = tokenizer.Pieces | Characters


def write(
    folder: Path,
    vocabulary: Vocabulary,
    *,
    max_length: int,
    lines: bool = False,
    mask: bool = False,
) -> None:
    """Writes tokenizer.json and tokenizer_config.json.

    A text gets START in front, and no END. With `lines`, as in a language model's stream, END
    stands for a line break, and is in front, too. With `mask` the text "<unk>" is read as the id of
    a masked token; without it, AutoTokenizer reads no text as a special id.
    """
    pieces, first = vocabulary.pieces(range(len(vocabulary))), START
    if lines:
        if LINE_BREAK in pieces:
            raise UserError("the vocabulary has a line break as a piece, which END stands for")
        pieces[END], first = LINE_BREAK, END
    special = {"pad_token": pieces[PAD], "unk_token": pieces[UNKNOWN]}
    added = {PAD: True, UNKNOWN: True, first: not lines}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    is_characters = isinstance(vocabulary, Characters)
    json_files.write(
        folder / "tokenizer.json",
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [
                {"id": i, "content": pieces[i], **flags, "special": is_special}
                for i, is_special in sorted(added.items())
            ],
            "normalizer": _normalizer(vocabulary),
            "pre_tokenizer": _apart(pieces) if _is_unigram(vocabulary) else None,
            "post_processor": _in_front(first, pieces[first]),
            "decoder": {"type": "Fuse"} if is_characters else _decoder(lines),
            "model": _characters(pieces) if is_characters else _sentencepiece(vocabulary, pieces),
        },
    )
    json_files.write(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": max_length,
            "model_input_names": ["input_ids", "attention_mask"],
            "clean_up_tokenization_spaces": False,
            "split_special_tokens": not mask,
            **special,
            **({"mask_token": pieces[UNKNOWN]} if mask else {}),
        },
    )


def _normalizer(vocabulary: Vocabulary) -> dict:
    """Returns the vocabulary's normalisation, then SentencePiece's: no space at either end, one
    between words, then ▁.

    Example: " a  cat" becomes "▁a▁cat". A ▁ of the text's own is kept, but for the last ones.
    """
    steps = [{"type": vocabulary.normalisation.upper()}] if vocabulary.normalisation else []
    if not isinstance(vocabulary, Characters):
        steps += [
            _replace({"Regex": " +"}, " "),
            _replace({"Regex": rf"\A |[ {SPACE}]+\z"}, ""),
            {"type": "Prepend", "prepend": SPACE},
            _replace({"String": " "}, SPACE),
        ]
    return {"type": "Sequence", "normalizers": steps}


def _apart(pieces: list[str]) -> dict:
    """Returns a cut within texts such as "<s>" and "<0x41>", which are no pieces of a text.

    In a unigram model of that program they would be.
    """
    special = [piece for piece in pieces[:FIRST] if len(piece) > 1]
    cuts = [f"(?<={re.escape(piece[0])})(?={re.escape(piece[1:])})" for piece in special]
    pattern = {"Regex": "|".join([*cuts, "(?<=<)(?=0x[0-9A-F]{2}>)"])}
    return {"type": "Split", "pattern": pattern, "behavior": "Removed", "invert": False}


def _replace(pattern: dict[str, str], content: str) -> dict:
    return {"type": "Replace", "pattern": pattern, "content": content}


def _in_front(i: int, piece: str) -> dict:
    """Returns the template of a text, and of a pair of texts one behind the other."""
    symbol = {"SpecialToken": {"id": piece, "type_id": 0}}
    first, second = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    return {
        "type": "TemplateProcessing",
        "single": [symbol, first],
        "pair": [symbol, first, second],
        "special_tokens": {piece: {"id": piece, "ids": [i], "tokens": [piece]}},
    }


def _decoder(lines: bool) -> dict:
    """Returns SentencePiece's detokenisation: bytes become characters, ▁ becomes a space.

    A text, or with `lines` each of its lines, begins without a space.
    """
    steps = [
        _replace({"String": SPACE}, " "),
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        _replace({"Regex": r"(?<![^\n]) +" if lines else r"\A +"}, ""),
    ]
    return {"type": "Sequence", "decoders": steps}


def _characters(pieces: list[str]) -> dict:
    """Returns a model without merges: a text is its characters."""
    return _bpe(pieces, [], byte_fallback=False)


def _bpe(pieces: list[str], merges: list[tuple[str, str]], *, byte_fallback: bool) -> dict:
    vocab = {piece: i for i, piece in enumerate(pieces)}
    options = {"unk_token": pieces[UNKNOWN], "fuse_unk": False, "byte_fallback": byte_fallback}
    return {"type": "BPE", **options, "vocab": vocab, "merges": merges}


def _is_unigram(vocabulary: Vocabulary) -> bool:
    if isinstance(vocabulary, Characters):
        return False
    return tokenizer.proto(vocabulary.processor).trainer_spec.model_type == UNIGRAM


def _sentencepiece(vocabulary: tokenizer.Pieces, pieces: list[str]) -> dict:
    """Returns a model of SentencePiece's pieces; UserError unless it is like one that we learn."""
    model = tokenizer.proto(vocabulary.processor)
    types = [piece.type for piece in model.pieces]
    learnt = [{"model_type": kind, "byte_fallback": True} for kind in (UNIGRAM, BPE)]
    kinds = [tokenizer.settings(ModelProto(trainer_spec=options)) for options in learnt]
    if tokenizer.settings(model) not in kinds or {*types[FIRST:]} - {NORMAL, BYTE}:
        raise UserError(
            "Hugging Face's tokenizer.json is written for SentencePiece models as they are learnt "
            "here, and config.vocabulary.model has other settings (kind, normalisation, bytes, "
            "user-defined symbols): use --config.export.format=safetensors"
        )
    scores = [vocabulary.processor.get_score(i) for i in range(len(pieces))]
    if _is_unigram(vocabulary):
        scored = [list(pair) for pair in zip(pieces, scores, strict=True)]
        return {"type": "Unigram", "unk_id": UNKNOWN, "vocab": scored, "byte_fallback": True}
    normal = {piece for piece, kind in zip(pieces, types, strict=True) if kind == NORMAL}
    merges = []
    # A merge is any cut of a piece into two; those of better pieces come first.
    for i in sorted(range(len(pieces)), key=lambda i: -scores[i]):
        if (piece := pieces[i]) in normal:
            cuts = ((piece[:at], piece[at:]) for at in range(1, len(piece)))
            merges += [(left, right) for left, right in cuts if {left, right} <= normal]
    return _bpe(pieces, merges, byte_fallback=True)
