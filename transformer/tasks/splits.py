"""The splits of a config's corpus -> sentence pairs, and their ids."""

import functools
import logging
import math
from pathlib import Path

import flax.linen as nn
import ml_collections

from transformer.data import builders, corpora, tokenizer
from transformer.data.tokens import Tokens, tokenise
from transformer.errors import UserError
from transformer.monitoring import progress


def final(config: ml_collections.ConfigDict) -> str:
    """The split that the final score is of: `evaluate.split`, or 'validation' without a test set.

    There is none where `evaluate.split` is empty, or the key of `config.data` that it names.
    """
    split = config.evaluate.split
    key = f"data.{split}" if split in builders.SPLITS else "evaluate.split"
    if config.data[split] if split in builders.SPLITS else split:
        return split
    logging.info("config.%s is empty, no test set: the final score is of validation", key)
    return "validation"


def pairs(config: ml_collections.ConfigDict, split: str) -> corpora.Corpus:
    """A split of the config's corpus: 'train', 'validation', 'test', or a name it knows itself."""
    data, has_key = config.data, split in builders.SPLITS
    return corpora.load(
        data.corpus,
        data[split] if has_key else split,
        key=f"config.data.{split}" if has_key else "config.evaluate.split",
        source_language=data.source_language,
        target_language=data.target_language,
        directory=data.directory,
        data_dir=data.data_dir,
    )


def tokens(
    config: ml_collections.ConfigDict,
    pairs: corpora.Corpus,
    vocabulary: tokenizer.Vocabulary,
    what: str,
) -> Tokens:
    """A corpus's ids, cached under `data.data_dir`."""
    cache = Path(config.data.data_dir).expanduser() / "tokens"
    counter = functools.partial(progress.counter, what)
    return tokenise(pairs, vocabulary, cache, counter=counter)


def whole_tokens(
    config: ml_collections.ConfigDict,
    pairs: corpora.Corpus,
    vocabulary: tokenizer.Vocabulary,
    split: str,
    model: nn.Module,
) -> Tokens:
    """The ids of a split that a model is scored on: no sentence is left out, so each has to fit."""
    found = tokens(config, pairs, vocabulary, f"tokenise {split}")
    longest = int(max(found.source_lengths.max(), found.target_lengths.max()))
    limit = getattr(model, "position_limit", math.inf)
    if longest > limit:
        raise UserError(
            f"config.model.max_positions={limit} positions are learned, but the split {split!r} "
            f"has a sentence of {longest} pieces"
        )
    return found
