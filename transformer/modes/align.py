"""A pair of text -> the attention weights of every layer and head, and word alignments."""

import bisect
import functools
import io
import logging
import re
import sys
from pathlib import Path

import flax.linen as nn
import jax
import ml_collections
import numpy as np
import sentencepiece

from transformer.data import pairs, tokenizer
from transformer.decoding import shapes
from transformer.errors import UserError
from transformer.modes import lines, score
from transformer.storage import paths
from transformer.tasks import translation

Tree = dict


def align(config: ml_collections.ConfigDict, workdir: Path) -> None:
    """--mode=align: lines SOURCE<tab>TARGET (or JSON objects) in, alignments out.

    They are in Pharaoh format, 0-0 1-2: source word, target word. WORKDIR/attention.npz has the
    weights of the first `config.attention.pairs` pairs, n from 0: n/encoder [L, H, S, S],
    n/decoder [L, H, T, T], n/cross [L, H, T, S], and their pieces, n/source [S], n/target [T]. Row
    t of the decoder's are those with which target piece t was predicted, from the pieces before it.
    A pair over the limits of a translation has an empty line and no arrays, with a warning.
    """
    if config.evaluate.ensemble:
        raise UserError("--mode=align shows one model: leave config.evaluate.ensemble empty")
    form, options = config.translate.format, config.attention
    layers, heads = config.model.num_layers, config.model.num_heads
    for key, found, most in (("layer", options.layer, layers), ("head", options.head, heads)):
        if not 0 <= found <= most:
            raise UserError(f"config.attention.{key} is from 0 (all) to {most}, found {found}")
    texts = lines.read(sys.stdin.buffer)
    pairs = lines.columns(texts, ("source", "target"), needed=2, form=form)
    run = translation.load(workdir, config)
    kept = {}
    for number, pair in enumerate(pairs):
        texts = (pair["source"], pair["target"])
        lengths = map(len, _ids(run.vocabulary, *texts))
        found, aligned = {}, []
        if not score.over_long(number + 1, *lengths, config.decode):
            found = weights(run, *texts)
            aligned = alignment(run.vocabulary, *texts, found["cross"], options)
        text = " ".join(f"{s}-{t}" for s, t in aligned)
        if form == "json":
            text = lines.to_json({**pair, "alignment": text})
        lines.write(sys.stdout.buffer, text)
        if number < options.pairs:
            kept |= {f"{number}/{name}": array for name, array in found.items()}
    file = io.BytesIO()
    np.savez_compressed(file, **kept)
    paths.write_file(workdir / "attention.npz", file.getvalue())
    logging.info("%s", workdir / "attention.npz")


def weights(run: translation.Run, source: str, target: str) -> dict[str, np.ndarray]:
    """One pair's arrays, named as in attention.npz."""
    ids = _ids(run.vocabulary, source, target)
    shaped = [tokenizer.padded([side], 1, shapes.next_power_of_two(len(side))) for side in ids]
    S, T = map(len, ids)
    found = _weights(run.params, *shaped, model=run.model)
    sizes = {"encoder": (S, S), "decoder": (T, T), "cross": (T, S)}
    named = {
        name: np.asarray(array[:, 0, :, : sizes[name][0], : sizes[name][1]])
        for name, array in found.items()
    }
    for name, pieces, side in zip(("source", "target"), run.vocabulary, ids, strict=True):
        named[name] = np.array([pieces.id_to_piece(i) for i in side])
    return named


def _ids(vocabulary: tokenizer.Vocabulary, *texts: str) -> list[list[int]]:
    return [
        tokenizer.encode(pieces, [text])[0] for pieces, text in zip(vocabulary, texts, strict=True)
    ]


def alignment(
    vocabulary: tokenizer.Vocabulary,
    source: str,
    target: str,
    cross_LHTS: np.ndarray,
    options: ml_collections.ConfigDict,
) -> list[tuple[int, int]]:
    """For each target word the source word that its pieces attend to most, (source, target).

    By the weights of `options.layer` and `options.head`, from 1; 0 is the mean of all. Words are
    what white space separates.
    """
    layer, head = options.layer, options.head
    weights_HTS = cross_LHTS[layer - 1] if layer else cross_LHTS.mean(axis=0)
    weights_TS = weights_HTS[head - 1] if head else weights_HTS.mean(axis=0)
    source_words, target_words = words(vocabulary.source, source), words(vocabulary.target, target)
    if not source_words or not target_words:
        return []
    # The end symbols, last, belong to no word.
    by_word = np.zeros((target_words[-1] + 1, source_words[-1] + 1))
    np.add.at(by_word, np.ix_(target_words, source_words), weights_TS[:-1, :-1])
    return [(int(by_word[t].argmax()), t) for t in sorted(set(target_words))]


def words(pieces: sentencepiece.SentencePieceProcessor, text: str) -> list[int]:
    """Which word of a text each of its pieces belongs to."""
    starts = [word.start() for word in re.finditer(r"\S+", text)]
    found, begin = [], len(text) - len(text.lstrip(" "))  # leading spaces are in no piece
    for piece in pieces.encode(text, return_type="proto").pieces:
        end = begin + len(piece.surface)
        # A space alone belongs to the word after it; the first bytes of a character, which have no
        # surface, where it comes.
        last = end + 1 if piece.piece == "▁" else max(end, begin + 1)
        found.append(max(0, bisect.bisect_left(starts, last) - 1))
        begin = end
    return found


@functools.partial(jax.jit, static_argnames="model")
def _weights(
    parameters: Tree, source_BS: jax.Array, target_BT: jax.Array, *, model: nn.Module
) -> dict[str, jax.Array]:
    _, sown = model.apply(
        {"params": parameters},
        **pairs.inputs(source_BS, target_BT),
        train=False,
        mutable=["intermediates"],
    )
    sown, found = sown["intermediates"], {}
    for name, stack, part in (
        ("encoder", "encoder", "self_attention"),
        ("decoder", "decoder", "self_attention"),
        ("cross", "decoder", "cross_attention"),
    ):
        layers = [sown[f"{stack}_{i}"][part]["attention"][0] for i in range(model.num_layers)]
        found[name] = jax.numpy.stack(layers)
    return found
