"""Pairs of text -> how likely the second is as a translation of the first (forced decoding)."""

import functools
import itertools
import logging
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

from transformer.data import pairs, tokenizer
from transformer.decoding import beam_search, shapes
from transformer.decoding.translator import Translator
from transformer.distributed import inference, step
from transformer.modes import lines
from transformer.monitoring import progress
from transformer.tasks import translation

Tree = dict


class Score(NamedTuple):
    """log P(target | source), natural, its end symbol included; `score` is over the penalty."""

    score: float
    log_prob: float
    length: int  # pieces, the end symbol included


def score(config: ml_collections.ConfigDict, workdir: Path) -> None:
    """--mode=score: lines SOURCE<tab>TARGET (or JSON objects) in, a score a line out.

    It is what a beam search would give the target, by `config.decode`'s length penalty.
    """
    form = config.translate.format
    texts = lines.read(sys.stdin.buffer)
    pairs = lines.columns(texts, ("source", "target"), needed=2, form=form)
    run = translation.load(workdir, config)
    Translator(run.model, run.vocabulary, **config.decode)  # refuses wrong values
    total = lines.count(sys.stdin.buffer)
    waiting, pairs = itertools.tee(pairs)
    scores = forced(run, ((p["source"], p["target"]) for p in pairs), config.decode)
    for asked, found in zip(waiting, progress.progress(scores, "score", total=total), strict=True):
        if form == "json":
            lines.write(sys.stdout.buffer, lines.to_json({**asked, **found._asdict()}))
        else:
            lines.write(sys.stdout.buffer, f"{found.score:.6f}")


def forced(
    run: translation.Run, pairs: Iterable[tuple[str, str]], options: ml_collections.ConfigDict
) -> Iterator[Score]:
    """The score of each (source, target); `options` are config.decode."""
    numbers = itertools.count(1)
    pairs = iter(pairs)
    while chunk := list(itertools.islice(pairs, options.chunk_lines)):
        sources = tokenizer.encode(run.vocabulary.source, [source for source, _ in chunk])
        targets = tokenizer.encode(run.vocabulary.target, [target for _, target in chunk])
        ids = list(zip(sources, targets, strict=True))
        over = [
            over_long(number, *map(len, pair), options)
            for pair, number in zip(ids, numbers, strict=False)
        ]
        found = [-np.inf] * len(ids)
        longest = [max(map(len, pair)) for pair in ids]
        order = sorted(range(len(ids)), key=longest.__getitem__, reverse=True)
        order = [i for i in order if not over[i]]
        devices = inference.num_devices(run.params)
        while order:
            length = shapes.next_power_of_two(longest[order[0]])
            full = max(1, options.batch_tokens // length)
            rows = devices * shapes.power(4, -(-len(order) // devices), most=full)
            batch, order = order[:rows], order[rows:]
            log_probs = log_prob(run, [ids[i] for i in batch], rows=rows, length=length)
            for i, value in zip(batch, log_probs, strict=True):
                found[i] = value
        for value, target in zip(found, targets, strict=True):
            penalty = beam_search.length_penalty(
                len(target), options.length_penalty, options.length_alpha
            )
            yield Score(value / float(penalty), value, len(target))


def over_long(number: int, source: int, target: int, options: ml_collections.ConfigDict) -> bool:
    """Whether a pair is longer than what can be translated and can come of it; said so if it is.

    `number` is its line's, `source` and `target` are in pieces.
    """
    most = (options.max_length, options.max_length + options.extra_length)
    if source <= most[0] and target <= most[1]:
        return False
    logging.warning(
        "line %d: %d and %d pieces, config.decode.max_length (and extra_length) allow %d and %d: "
        "not computed",
        *(number, source, target, *most),
    )
    return True


def log_prob(
    run: translation.Run, pairs: list[tuple[list[int], list[int]]], *, rows: int, length: int
) -> list[float]:
    """log P of each pair's target ids given its source's, in one batch of static shape.

    It has as many rows more as it takes for all devices to get as many.
    """
    rows = step.rows_for_devices(rows, inference.num_devices(run.params))
    sides = tuple(tokenizer.padded(ids, rows, length) for ids in zip(*pairs, strict=True))
    source, target = inference.shard_rows(sides, run.params)
    found = _log_prob(run.params, source, target, model=run.model)
    return np.asarray(found).tolist()[: len(pairs)]


@functools.partial(jax.jit, static_argnames="model")
def _log_prob(
    parameters: Tree, source_BS: jax.Array, target_BT: jax.Array, *, model: nn.Module
) -> jax.Array:
    logits_BTV = model.apply(
        {"params": parameters}, **pairs.inputs(source_BS, target_BT), train=False
    )
    log_probs_BTV = jax.nn.log_softmax(logits_BTV.astype(jnp.float32))
    chosen_BT1 = jnp.take_along_axis(log_probs_BTV, target_BT[:, :, None], axis=2)
    return jnp.where(target_BT != tokenizer.PAD, chosen_BT1[:, :, 0], 0.0).sum(axis=1)
