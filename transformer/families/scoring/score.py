"""--mode=score: log P(target | source) of given sentence pairs, by forced decoding."""

import functools
import logging
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import flax.linen as nn
import jax
import numpy as np
from ml_collections import ConfigDict

from transformer.data import pairs, tokenizer
from transformer.decoding import batch_sizes, beam_search
from transformer.decoding.translator import Translator
from transformer.distributed import layout
from transformer.modes import lines
from transformer.runtime import progress
from transformer.tasks import losses, translation
from transformer.tasks.saved_model import SavedModel


class Score(NamedTuple):
    """The score of a target as the translation of its source."""

    score: float  # log_prob divided by the length penalty
    log_prob: float  # natural log P(target | source), with the end symbol
    length: int  # of the target in pieces, with the end symbol


def score(config: ConfigDict, workdir: Path) -> None:
    """Reads lines SOURCE<tab>TARGET (or JSON objects) and writes one score per line.

    A score is beam search's score of the target, with the length penalty of `config.decode`.
    """
    form = config.translate.format
    read = lines.columns(lines.read(sys.stdin.buffer), ("source", "target"), needed=2, form=form)
    run = translation.load(config, workdir)
    Translator(run.model, run.vocabulary, **config.decode)  # checks config.decode
    scored = forced(run, enumerate(read, start=1), config.decode)
    for pair, result in progress.progress(scored, "score", total=lines.count(sys.stdin.buffer)):
        text = f"{result.score:.6f}"
        if form == "json":
            text = lines.to_json({**pair, **result._asdict()})
        lines.write(sys.stdout.buffer, text)


def forced(
    run: SavedModel, numbered_pairs: Iterable[tuple[int, dict]], options: ConfigDict
) -> Iterator[tuple[dict, Score]]:
    """Yields each {"source", "target"} with its score, in order; `options` is config.decode.

    A pair comes with the number of its line. If it is too long (see `over_long`), it gets -inf, and
    a warning names the line.
    """
    # Chunks bound the memory, and yield the first scores before the last line is read.
    for chunk in batch_sizes.chunks(numbered_pairs, options.chunk_lines):
        texts = [tokenizer.tagged(options.tag, pair["source"]) for _, pair in chunk]
        sources = run.vocabulary.source.encode(texts)
        targets = run.vocabulary.target.encode([pair["target"] for _, pair in chunk])
        ids = list(zip(sources, targets, strict=True))
        short = [i for i, (n, _) in enumerate(chunk) if not over_long(n, *ids[i], options)]
        values = [-np.inf] * len(chunk)
        log_probs = token_log_probs(run, [ids[i] for i in short], options)
        for i, log_probs_T in zip(short, log_probs, strict=True):
            values[i] = log_probs_T.sum(dtype=np.float64).item()
        kind, alpha = options.length_penalty, options.length_alpha
        for (_, pair), value, target in zip(chunk, values, targets, strict=True):
            penalty = float(beam_search.length_penalty(len(target), kind, alpha))
            yield pair, Score(value / penalty, value, len(target))


def fits(source: list[int], target: list[int], options: ConfigDict) -> bool:
    """Returns whether the ids of a pair are as short as `config.decode` demands."""
    return max(len(source), len(target) - options.extra_length) <= options.max_length


def over_long(number: int, source: list[int], target: list[int], options: ConfigDict) -> bool:
    """Returns whether the ids of a pair exceed `config.decode`'s lengths; warns if they do."""
    if fits(source, target, options):
        return False
    longest = options.max_length, options.max_length + options.extra_length
    logging.warning(
        "line %d: %d and %d pieces, config.decode.max_length (and extra_length) allow %d and %d: "
        "skipped",
        *(number, len(source), len(target), *longest),
    )
    return True


def token_log_probs(
    run: SavedModel, ids: list[tuple[list[int], list[int]]], options: ConfigDict
) -> list[np.ndarray]:
    """Returns log P of each target id [T] given source and earlier ids, of each pair, in order.

    `options` is config.decode.
    """
    devices = layout.num_devices(run.params)
    longest = [max(map(len, both)) for both in ids]
    # Batches of similar length, longest first, each padded to a power of two. values[i] undoes the
    # permutation `order`, which is 1 2 0 for lengths 3 9 5.
    order = sorted(range(len(ids)), key=lambda i: -longest[i])
    values = [np.empty(0)] * len(ids)
    while order:
        length = batch_sizes.next_power_of_two(longest[order[0]])
        most = max(1, options.batch_tokens // length)
        # For few static shapes, a device has 4^n rows, within the batch size.
        rows = devices * batch_sizes.next_power(4, -(-len(order) // devices), most=most)
        batch, order = order[:rows], order[rows:]
        # The arrays of both sides, [rows, length]; rows beyond the batch are padding.
        sides = zip(*(ids[i] for i in batch), strict=True)
        padded = tuple(tokenizer.padded(side, rows, length) for side in sides)
        source_BS, target_BT = layout.shard_rows(padded, run.params)
        log_probs_BT = np.asarray(_log_probs(run.params, source_BS, target_BT, model=run.model))
        for i, log_probs_T in zip(batch, log_probs_BT, strict=False):
            values[i] = log_probs_T[: len(ids[i][1])]
    return values


@functools.partial(jax.jit, static_argnames="model")
def _log_probs(
    params: dict, source_BS: jax.Array, target_BT: jax.Array, *, model: nn.Module
) -> jax.Array:
    """Returns log P of each target id [B, T], undefined at padding."""
    # Forced decoding: the decoder reads the target, shifted right, in one forward pass.
    inputs = pairs.inputs_of_single_pairs(source_BS, target_BT)
    logits_BTV = model.apply({"params": params}, **inputs, train=False)
    return -losses.token_nats(logits_BTV, target_BT)
