"""--mode=score: log P(target | source) of given sentence pairs, by forced decoding."""

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
from transformer.decoding import beam_search, parts
from transformer.decoding.translator import Translator
from transformer.distributed import layout, parallel_step
from transformer.modes import lines
from transformer.runtime import progress
from transformer.tasks import losses, translation

Tree = dict


class Score(NamedTuple):
    """How likely a target is as the translation of its source."""

    score: float  # log_prob divided by the length penalty
    log_prob: float  # natural log P(target | source), with the end symbol
    length: int  # of the target in pieces, with the end symbol


def score(config: ml_collections.ConfigDict, workdir: Path) -> None:
    """Reads lines SOURCE<tab>TARGET (or JSON objects) and writes one score per line.

    A score is what beam search would give the target, with the length penalty of `config.decode`.
    """
    form = config.translate.format
    texts = lines.read(sys.stdin.buffer)
    sentence_pairs = lines.columns(texts, ("source", "target"), needed=2, form=form)
    run = translation.load(config, workdir)
    Translator(run.model, run.vocabulary, **config.decode)  # checks config.decode
    total = lines.count(sys.stdin.buffer)
    # Two readers of one stream: tee keeps the pairs of a chunk until their scores are written.
    to_write, to_score = itertools.tee(sentence_pairs)
    scores = forced(run, ((p["source"], p["target"]) for p in to_score), config.decode)
    scores = progress.progress(scores, "score", total=total)
    for pair, result in zip(to_write, scores, strict=True):
        if form == "json":
            lines.write(sys.stdout.buffer, lines.to_json({**pair, **result._asdict()}))
        else:
            lines.write(sys.stdout.buffer, f"{result.score:.6f}")


def forced(
    run: translation.TrainedTranslator,
    sentence_pairs: Iterable[tuple[str, str]],
    options: ml_collections.ConfigDict,
) -> Iterator[Score]:
    """Yields the score of each (source, target), in order; `options` is config.decode.

    A pair that is too long (see `over_long`) gets -inf.
    """
    numbers = itertools.count(1)
    sentence_pairs = iter(sentence_pairs)
    # Chunks bound the memory, and let the first scores out before the last line is read.
    while chunk := list(itertools.islice(sentence_pairs, options.chunk_lines)):
        sources = run.vocabulary.source.encode([source for source, _ in chunk])
        targets = run.vocabulary.target.encode([target for _, target in chunk])
        ids = list(zip(sources, targets, strict=True))
        # `ids` first: zip ends before it takes a number that belongs to the next chunk.
        over = [
            over_long(number, *map(len, pair), options)
            for pair, number in zip(ids, numbers, strict=False)
        ]
        values = [-np.inf] * len(ids)
        # Batches of similar length, the longest first: each is padded to a power of two. `order`
        # is a permutation, undone by values[i]: with lengths 3 9 5, order is 1 2 0.
        longest = [max(map(len, pair)) for pair in ids]
        order = sorted(range(len(ids)), key=longest.__getitem__, reverse=True)
        order = [i for i in order if not over[i]]
        devices = layout.num_devices(run.params)
        while order:
            length = parts.next_power_of_two(longest[order[0]])
            most = max(1, options.batch_tokens // length)
            # Few static shapes: the rows of a device are 4^n, or the most that fit into a batch.
            rows = devices * parts.next_power(4, -(-len(order) // devices), most=most)
            batch, order = order[:rows], order[rows:]
            log_probs = log_prob(run, [ids[i] for i in batch], rows=rows, length=length)
            for i, value in zip(batch, log_probs, strict=True):
                values[i] = value
        for value, target in zip(values, targets, strict=True):
            penalty = beam_search.length_penalty(
                len(target), options.length_penalty, options.length_alpha
            )
            yield Score(value / float(penalty), value, len(target))


def over_long(number: int, source: int, target: int, options: ml_collections.ConfigDict) -> bool:
    """Returns whether a pair exceeds `config.decode`'s lengths, and logs a warning if it does.

    `source` and `target` are lengths in pieces, with the end symbol; `number` is that of the line.
    """
    most = (options.max_length, options.max_length + options.extra_length)
    if source <= most[0] and target <= most[1]:
        return False
    logging.warning(
        "line %d: %d and %d pieces, config.decode.max_length (and extra_length) allow %d and %d: "
        "skipped",
        *(number, source, target, *most),
    )
    return True


def log_prob(
    run: translation.TrainedTranslator,
    id_pairs: list[tuple[list[int], list[int]]],
    *,
    rows: int,
    length: int,
) -> list[float]:
    """Returns log P(target | source) of each pair of ids, from one batch [rows, length].

    `rows` is rounded up to a multiple of the devices; the rows added are padding.
    """
    rows = parallel_step.rows_for_devices(rows, layout.num_devices(run.params))
    sides = tuple(tokenizer.padded(ids, rows, length) for ids in zip(*id_pairs, strict=True))
    source, target = layout.shard_rows(sides, run.params)
    log_probs_B = _log_prob(run.params, source, target, model=run.model)
    return np.asarray(log_probs_B).tolist()[: len(id_pairs)]


@functools.partial(jax.jit, static_argnames="model")
def _log_prob(
    params: Tree, source_BS: jax.Array, target_BT: jax.Array, *, model: nn.Module
) -> jax.Array:
    """Returns log P(target | source) [B], the sum over the target's pieces and end symbol."""
    inputs = pairs.inputs_of_single_pairs(source_BS, target_BT)
    logits_BTV = model.apply({"params": params}, **inputs, train=False)
    nats_BT = losses.token_nats(logits_BTV, target_BT)
    return -jnp.where(target_BT != tokenizer.PAD, nats_BT, 0.0).sum(axis=1)  # without padding
