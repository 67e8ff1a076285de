"""Masked language modelling (Devlin et al. 2019): predict tokens from those on both sides of them.

Its params can initialise a classifier of texts (train.init_from). Not as in BERT: the task of
predicting the next sentence is left out, because Liu et al. (2019, RoBERTa) found that it does not
help.
"""

import functools
from collections.abc import Callable
from pathlib import Path

import flax.linen as nn
import numpy as np
from ml_collections import ConfigDict

from transformer.data import packing
from transformer.data.batches import Batches, example_of
from transformer.data.corpora import Corpus
from transformer.data.tokenizer import Pieces
from transformer.data.tokens import NO_SIDE, Tokens
from transformer.errors import UserError, quantity
from transformer.families.texts import classification, labelled_text, texts
from transformer.tasks import losses, splits, vocabularies
from transformer.tasks.evaluation import Evaluation, SplitSums
from transformer.tasks.task import Task, build_model, make_task

FREE = ()
SCORE = {"best_by": "nats_per_token", "best_is": "lowest", "unit": "masked_token"}
identity = vocabularies.identity
model = build_model
summarise = losses.summarise


def check(config: ConfigDict) -> None:
    """Raises UserError for invalid values, before anything is written or compiled."""
    classification.check_texts(config, model(config, sizes(config, None)), example(config, 1))


def load(config: ConfigDict, split: str) -> Corpus | labelled_text.LabelledText:
    """Returns a split with one text per line; with `data.labelled`, LABEL<tab>TEXT lines."""
    if config.data.labelled:
        return classification.load(config, split)
    return splits.text(config, split)


def prepare(config: ConfigDict, workdir: Path, saved_config: ConfigDict | None) -> ConfigDict:
    """Builds missing corpora, vocabulary and token ids; returns the config with fingerprints."""
    corpora = splits.load_all(config, load)
    vocab = vocabularies.prepare(config, workdir, saved_config, corpora["train"])
    for split, corpus in corpora.items():
        tokens = splits.tokens(config, corpus, vocab, f"tokenise {split}")
        # MASK is the unknown piece, so a text must not have it.
        if (tokens.sides["text"].ids == texts.MASK).any():
            raise UserError(
                f"config.vocabulary.model={config.vocabulary.model!r} has no piece for some "
                f"characters of {' and '.join(corpus.files)}, which masked tokens would look like: "
                "give one that falls back to bytes (--byte_fallback of SentencePiece)"
            )
    return config


def sizes(config: ConfigDict, workdir: Path | None) -> dict[str, int | float]:
    """Returns {'vocab_size', 'mask_share'}; if `workdir` is None, the size is the config's."""
    return {**vocabularies.text_sizes(config, workdir), "mask_share": config.data.mask_share}


def example(config: ConfigDict, rows: int) -> dict:
    """Returns a batch of jax.ShapeDtypeStruct, of the longest rows; `rows` 0 for a full batch."""
    data = config.data
    assemble = functools.partial(texts.masked, NO_SIDE, share=data.mask_share, vocab_size=0)
    return example_of(assemble, rows or data.batch_tokens // data.max_length, data.max_length)


def loss(config: ConfigDict, model: nn.Module) -> Callable:
    """Returns the training loss, (params, batch, *, rng) -> {name: sum over the masked tokens}."""
    tokens = functools.partial(losses.token_loss, model=model, **config.loss)
    return functools.partial(losses.with_filled, tokens)


def batches_of(config: ConfigDict, vocab: Pieces, tokens: Tokens, seed: int | None) -> Batches:
    """Returns a split's texts, truncated to `data.max_length`, with tokens masked at random.

    With seed None, for validation, a text always has the same masks.
    """
    data = config.data
    side = texts.shorten(tokens.sides["text"], data.max_length)
    items = packing.select_trainable((side.lengths,), data.max_length)
    # A packed row holds as many texts as fit; a token sees its own text only.
    if data.pack:
        # Not `seed`, which is None in validation; packing may always be the same.
        pack_seed = config.train.seed
        rows = [packing.pack((side.lengths,), items, data.max_length, pack_seed, tokens.directory)]
    else:
        rows = packing.one_per_row((side.lengths,), items, data.max_length)
    masked = functools.partial(texts.masked, side, share=data.mask_share, vocab_size=len(vocab))
    # With the key (seed, t) = (0, 0) in all batches, a text has the same masks in any batch.
    fixed = lambda items, row_of_item, shape, key: masked(items, row_of_item, shape, (0, 0))
    return Batches(rows, data.batch_tokens, seed, fixed if seed is None else masked)


def evaluator(config: ConfigDict, workdir: Path, model: nn.Module, split: str) -> Evaluation:
    """Returns the evaluator of a split.

    It always masks the same tokens. Scores are means per masked token: 'loss', 'nats_per_token',
    'perplexity', 'accuracy'.
    """
    corpus, vocab = load(config, split), vocabularies.read(workdir, config)
    tokens = splits.tokens(config, corpus, vocab, f"tokenise {split}")
    (lines,) = corpus.read()
    loss = SplitSums(
        batches_of(config, vocab, tokens, None),
        functools.partial(losses.only_sums, model=model, options=tuple(config.loss.items())),
        what=f"score {split}",
        remedy="lower config.data.batch_tokens",
    )

    def score(params: dict) -> tuple[dict, dict]:
        sums, _ = loss.score(params)
        return losses.per_token(sums), {"text": lines}

    return Evaluation(
        split=split,
        files=list(corpus.files),
        dataset={"text": lines},
        settings={"texts": len(lines), "mask_share": config.data.mask_share},
        columns={"input": "text"},
        score=score,
        rehearse=loss.rehearse,
        rows=rows,
    )


def rows(scores: dict) -> dict[str, str]:
    """Formats scores as a table, {name: text}, with the main score first."""
    nats = f"{scores['nats_per_token']:.4f} per masked token"
    return {"nats": nats, **losses.rows(scores, "masked tokens")}


def reader(config: ConfigDict, workdir: Path) -> Callable:
    """Returns read(line, number) -> the inputs for one text, truncated, without masks."""
    vocab = vocabularies.read(workdir, config)

    def read(line: str, number: int) -> dict[str, np.ndarray]:
        ids = vocab.encode([line])[0][: config.data.max_length]
        # The model predicts at least one column, here START's, whose logits are not read.
        return texts.one_row([ids], len(ids)) | {"masked": np.zeros(1, int)}

    return read


def build(config: ConfigDict, workdir: Path) -> Task:
    """Builds the `Task` of a prepared workdir."""
    vocab = vocabularies.read(workdir, config)
    tokens = splits.prepared_tokens(config, vocab)
    batches = batches_of(config, vocab, tokens, config.train.seed)
    about = (
        f"{quantity(len(batches.items), 'training text')} in batches of "
        f"{config.data.batch_tokens:,} positions, {config.data.mask_share:.0%} of them masked"
    )
    return make_task(config, workdir, sizes(config, workdir), batches, about)
