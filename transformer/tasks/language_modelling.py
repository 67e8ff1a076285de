"""The language modelling task: predict each token of a text from those before it.

The lines of a split are one stream of tokens, in which END stands for the line break; a row is a
window of it (data/streams.py). The score is the nats per token, of which the perplexity is e^nats.
"""

import functools
from collections.abc import Callable
from pathlib import Path

import flax.linen as nn
import ml_collections
import numpy as np

from transformer import models
from transformer.checkpoints import workdir
from transformer.data import streams, tokenizer
from transformer.data.batches import Batches
from transformer.decoding import continuations
from transformer.errors import UserError
from transformer.monitoring import progress
from transformer.tasks import losses, splits, trained, vocabularies
from transformer.tasks.language_evaluator import Evaluator
from transformer.tasks.task import Task, abstract_params, init_params

MODES = ("generate",)
FREE = (
    *("data.data_dir", "data.directory", "data.train", "data.validation", "data.test"),
    *("loss.blocks", "model.dtype", "model.remat", "vocabulary.model", "generate."),
)
KINDS = (*tokenizer.KINDS, "characters")


def check(config: ml_collections.ConfigDict) -> None:
    """Raises UserError for invalid values, before anything is written or compiled."""
    data, kind = config.data, config.vocabulary.kind
    if kind not in KINDS:
        raise UserError(f"config.vocabulary.kind is one of {', '.join(KINDS)}, found {kind!r}")
    if kind == "characters" and config.vocabulary.model:
        raise UserError(
            f"config.vocabulary.model={config.vocabulary.model!r} is a SentencePiece model, but "
            "config.vocabulary.kind is 'characters'"
        )
    losses.check(**config.loss)
    if data.context_length < 1:
        raise UserError(f"config.data.context_length is at least 1, found {data.context_length}")
    for key, tokens in (("data", data), ("evaluate", config.evaluate)):
        if tokens.batch_tokens < data.context_length:
            raise UserError(
                f"config.{key}.batch_tokens={tokens.batch_tokens} is less than one row, "
                f"config.data.context_length={data.context_length}"
            )
    checked = model(config, {"vocab_size": 8})
    for scored in (checked, *(member for _, _, member in trained.ensemble(config))):
        if getattr(scored, "position_limit", np.inf) < data.context_length:
            raise UserError(
                f"config.model.max_positions={scored.position_limit} learned positions are fewer "
                f"than config.data.context_length={data.context_length}"
            )
    if config.loss.blocks > 1 and not hasattr(checked, "hidden"):
        raise UserError(
            f"config.loss.blocks={config.loss.blocks}: {type(checked).__name__} has no methods "
            "`hidden` and `logits`, which blocks of logits need; set it to 1"
        )
    abstract_params(checked, example(config, 1))
    continuations.check(config.generate.to_dict())


def prepare(
    config: ml_collections.ConfigDict, folder: Path, saved_config: ml_collections.ConfigDict | None
) -> ml_collections.ConfigDict:
    """Builds missing corpora, vocabulary and token ids; returns the config with fingerprints.

    Reads every split that the run needs later, so that a missing file fails now and not after hours
    of training. `saved_config` is the workdir's; None in a new run, in its first process.
    """
    names = dict.fromkeys(("train", "validation", splits.final_split(config)))
    corpora = {split: splits.text(config, split) for split in names}
    learn = vocabularies.learn_text
    vocab = vocabularies.prepare(config, folder, saved_config, corpora["train"], learn)
    for split, corpus in corpora.items():
        splits.tokens(config, corpus, vocab, f"tokenise {split}")
    return config


def identity(config: ml_collections.ConfigDict) -> dict[str, str]:
    """Returns the vocabulary's fingerprint, which says what ids mean; "" before `prepare`."""
    return {"vocabulary": config.vocabulary.fingerprint}


def sizes(config: ml_collections.ConfigDict, folder: Path | None) -> dict[str, int]:
    """Returns the vocabulary's size: of the workdir, or without one `config.vocabulary.size`."""
    if folder is None:
        return {"vocab_size": config.vocabulary.size}
    return {"vocab_size": len(workdir.read_vocabulary(folder, config))}


def model(config: ml_collections.ConfigDict, sizes: dict[str, int]) -> nn.Module:
    """Builds the flax module of `config.architecture` for a vocabulary of this size."""
    return models.build(config.architecture, config.model.to_dict(), **sizes)


def example(config: ml_collections.ConfigDict, rows: int) -> dict:
    """Returns a batch of jax.ShapeDtypeStruct [rows, context_length]; `rows` 0: a full batch."""
    length = config.data.context_length
    return streams.example(rows or config.data.batch_tokens // length, length)


def loss(config: ml_collections.ConfigDict, model: nn.Module) -> Callable:
    """Returns the training loss, (params, batch, *, rng) -> {name: sum over the tokens}."""
    return functools.partial(losses.token_loss, model=model, **config.loss)


def evaluator(
    config: ml_collections.ConfigDict, folder: Path, model: nn.Module, split: str
) -> Evaluator:
    """Returns the evaluator of 'validation', or of 'final', the split of the final score."""
    split = splits.final_split(config) if split == "final" else split
    return Evaluator(config, workdir.read_vocabulary(folder, config), model, split)


def build(config: ml_collections.ConfigDict, folder: Path) -> Task:
    """Builds the `Task` of a prepared workdir."""
    vocab = workdir.read_vocabulary(folder, config)
    trained_model = model(config, {"vocab_size": len(vocab)})
    validation = Evaluator(config, vocab, trained_model, "validation")
    tokens = splits.prepared_tokens(config, vocab)
    ids = tokens.sides["text"].ids
    rows = streams.windows(len(ids), config.data.context_length)
    assemble = functools.partial(streams.assemble_shifted, ids)
    batches = Batches([rows], config.data.batch_tokens, config.train.seed, assemble)
    return Task(
        model=trained_model,
        init=functools.partial(init_params, trained_model, example(config, 1)),
        batches=batches,
        loss=loss(config, trained_model),
        evaluate=validation.scores,
        rehearse=validation.rehearse,
        best_by="nats_per_token",
        best_is="lowest",
        unit="token",
        summarise=losses.summarise,
        identity=identity(config),
        about=(
            f"{progress.quantity(len(ids), 'training token')} in "
            f"{progress.quantity(len(batches), 'batch', 'batches')} an epoch of "
            f"{config.data.batch_tokens:,} tokens, rows of {config.data.context_length}; "
            f"vocabulary of {progress.quantity(len(vocab), 'token')}; token ids in "
            f"{tokens.directory}"
        ),
    )
