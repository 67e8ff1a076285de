"""--mode=align: word alignments of sentence pairs, by attention weights."""

import bisect
import re
import sys
from pathlib import Path

import numpy as np
from ml_collections import ConfigDict

from transformer.data import pairs, tokenizer
from transformer.data.tokenizer import Pieces
from transformer.decoding.translator import Translator
from transformer.errors import UserError, check_value
from transformer.families.scoring import score
from transformer.modes import lines
from transformer.runtime import progress
from transformer.tasks import attention_weights, translation
from transformer.tasks.saved_model import SavedModel


def align(config: ConfigDict, workdir: Path) -> None:
    """Reads lines SOURCE<tab>TARGET (or JSON objects) and writes their word alignments.

    An alignment is in Pharaoh format, '0-0 1-2': pairs of source word and target word, from 0. A
    pair that is too long for `config.decode` gets an empty line and a warning.
    """
    form = config.translate.format
    run = translation.load(config, workdir)
    Translator(run.model, run.vocabulary, **config.decode)  # checks config.decode
    check_choice(config.attention, *cross_shape(run, config.architecture))
    read = lines.columns(lines.read(sys.stdin.buffer), ("source", "target"), needed=2, form=form)
    shown = progress.progress(read, "align", total=lines.count(sys.stdin.buffer))
    for number, pair in enumerate(shown, start=1):
        source, target = pair["source"], pair["target"]
        tagged = tokenizer.tagged(config.decode.tag, source)
        ids = attention_weights.ids(run.vocabulary, tagged, target)
        aligned = []
        # A pair that is too long gets an empty line, so that output line n answers input line n.
        if not score.over_long(number, *ids, config.decode):
            cross_LHTS = attention_weights.pair_weights(run, tagged, target)["cross"]
            options = config.attention, config.decode.tag
            aligned = alignment(run.vocabulary, source, target, cross_LHTS, *options)
        text = " ".join(f"{s}-{t}" for s, t in aligned)
        if form == "json":
            text = lines.to_json({**pair, "alignment": text})
        lines.write(sys.stdout.buffer, text)


def check_choice(options: ConfigDict, layers: int, heads: int) -> None:
    """Raises UserError for a layer above `layers` or a head above `heads`."""
    check_value("attention.layer", options.layer, f"at least 0 and at most {layers}")
    check_value("attention.head", options.head, f"at least 0 and at most {heads}")


def cross_shape(run: SavedModel, architecture: str) -> tuple[int, int]:
    """Returns [L, H] of the cross-attention's weights; UserError without cross-attention."""
    # A pair of one piece each, because L and H do not depend on the lengths.
    side = np.ones((1, 1), np.int32)
    inputs = pairs.inputs_of_single_pairs(side, side)
    # eval_shape traces the shapes, and allocates nothing.
    shapes_of = attention_weights.batch_weights.eval_shape(run.params, inputs, model=run.model)
    if "cross" not in shapes_of:
        raise UserError(
            "attention weights need one model with cross-attention: config.architecture="
            f"{architecture!r} with these values of config.model has none, nor has an ensemble "
            "(config.evaluate.ensemble)"
        )
    L, _, H, _, _ = shapes_of["cross"].shape
    return L, H


def alignment(
    vocabulary: tokenizer.Vocabulary,
    source: str,
    target: str,
    cross_LHTS: np.ndarray,
    options: ConfigDict,
    tag: str = "",
) -> list[tuple[int, int]]:
    """Aligns each target word with the source word to which its pieces attend most.

    Returns (source word, target word) as numbers from 0. White space separates words. If there is a
    `tag`, it comes first in the weights of the source, and is aligned with no word. `options.layer`
    and `options.head` select the weights, from 1; 0 is the mean over all.
    """
    layer, head = options.layer, options.head
    weights_HTS = cross_LHTS[layer - 1] if layer else cross_LHTS.mean(axis=0)
    weights_TS = weights_HTS[head - 1] if head else weights_HTS.mean(axis=0)
    source_words = words(vocabulary.source, tokenizer.tagged(tag, source))
    target_words = words(vocabulary.target, target)
    if not source_words or not target_words:
        return []
    # Add up the weights by pairs of words: with source words [0, 0, 1], column 0 is the sum of the
    # first two columns. The end symbols, last on both sides, belong to no word.
    by_word = np.zeros((target_words[-1] + 1, source_words[-1] + 1))
    np.add.at(by_word, np.ix_(target_words, source_words), weights_TS[:-1, :-1])
    return [(int(by_word[t, bool(tag) :].argmax()), t) for t in sorted(set(target_words))]


def words(vocabulary: Pieces, text: str) -> list[int]:
    """Returns the word's number of each piece of a text.

    Example: the pieces '▁the', '▁c', 'at' of "the cat" give [0, 1, 1].
    """
    cut = vocabulary.surfaces(text)
    normalised = "".join(surface for _, surface in cut)  # without leading spaces
    starts = [word.start() for word in re.finditer(r"\S+", normalised)]
    numbers, begin = [], 0
    for piece, surface in cut:
        end = begin + len(surface)
        # A piece belongs to the last word that starts before its end, a lone space to the next
        # word. The first byte pieces of a character have an empty surface, and belong to the
        # character's word.
        last = end + 1 if piece == "▁" else max(end, begin + 1)
        numbers.append(max(0, bisect.bisect_left(starts, last) - 1))
        begin = end
    return numbers
