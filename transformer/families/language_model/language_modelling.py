"""The language modelling task: predict each token of a text from the tokens before it.

The lines of a split are one stream of tokens, with END for line breaks. A row is a window of the
stream (streams.py). The score is the nats per token; e^nats is the perplexity.
"""

import functools
from collections.abc import Callable
from pathlib import Path

import flax.linen as nn
import numpy as np
from ml_collections import ConfigDict

from transformer.data.batches import Batches, example_of
from transformer.errors import check_value, quantity
from transformer.families.language_model import language_evaluator, streams
from transformer.models import fields
from transformer.tasks import losses, saved_model, splits, vocabularies
from transformer.tasks.task import Task, abstract_params, build_model, make_task

FREE = ("generate.",)
SCORE = {"best_by": "nats_per_token", "best_is": "lowest", "unit": "token"}
sizes = vocabularies.text_sizes
identity = vocabularies.identity
evaluator = language_evaluator.evaluator
model = build_model
summarise = losses.summarise


def check(config: ConfigDict) -> None:
    """Raises UserError for invalid values, before anything is written or compiled."""
    length = config.data.context_length
    for section in ("data", "evaluate"):
        # A row must fit into a batch.
        check_value(f"{section}.batch_tokens", config[section].batch_tokens, f"at least {length}")
    # A toy vocabulary of 8, because the run's may not be learnt yet.
    checked = model(config, {"vocab_size": 8})
    what = f"config.data.context_length={length}"
    saved_model.check_all_positions(config, checked, length, what)
    abstract_params(checked, example(config, 1))
    if config.evaluate.samples:
        fields.check_methods(checked, otherwise="; or set config.evaluate.samples=0")


def prepare(config: ConfigDict, workdir: Path, saved_config: ConfigDict | None) -> ConfigDict:
    """Builds missing corpora, vocabulary and token ids; returns the config with fingerprints."""
    corpora = splits.load_all(config, splits.text)
    vocab = vocabularies.prepare(config, workdir, saved_config, corpora["train"])
    for split, corpus in corpora.items():
        splits.tokens(config, corpus, vocab, f"tokenise {split}")
    return config


def example(config: ConfigDict, rows: int) -> dict:
    """Returns a batch of jax.ShapeDtypeStruct [rows, context_length]; `rows` 0 for a full batch."""
    length = config.data.context_length
    assemble = functools.partial(streams.assemble, np.zeros(1, np.uint16))
    return example_of(assemble, rows or config.data.batch_tokens // length, length)


def loss(config: ConfigDict, model: nn.Module) -> Callable:
    """Returns the training loss, (params, batch, *, rng) -> {name: sum over the tokens}."""
    return functools.partial(losses.token_loss, model=model, **config.loss)


def reader(config: ConfigDict, workdir: Path) -> Callable:
    """Returns read(line, number) -> the model's inputs for one text, truncated to a window."""
    vocab = vocabularies.read(workdir, config)

    def read(line: str, number: int) -> dict[str, np.ndarray]:
        ids = np.array(vocab.encode([line])[0][: config.data.context_length])
        zero = np.zeros(1, int)  # one window, item 0, in row 0
        inputs = streams.assemble(ids, zero, zero, (1, len(ids)))["inputs"]
        return {name: x[0] for name, x in inputs.items()}

    return read


def build(config: ConfigDict, workdir: Path) -> Task:
    """Builds the `Task` of a prepared workdir."""
    vocab = vocabularies.read(workdir, config)
    ids = splits.prepared_tokens(config, vocab).sides["text"].ids
    rows = streams.windows(len(ids), config.data.context_length)
    # Training shifts windows at random; evaluation has each token as a target once.
    assemble = functools.partial(streams.assemble_shifted, ids)
    batches = Batches([rows], config.data.batch_tokens, config.train.seed, assemble)
    about = (
        f"{quantity(len(ids), 'training token')} in batches of "
        f"{config.data.batch_tokens:,} tokens, rows of {config.data.context_length}; "
        f"vocabulary of {quantity(len(vocab), 'token')}"
    )
    return make_task(config, workdir, {"vocab_size": len(vocab)}, batches, about)
