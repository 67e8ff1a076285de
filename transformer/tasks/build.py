"""Names -> what training reads: corpora, vocabulary, ids and the resolved config.json."""

import logging
import re
from pathlib import Path
from typing import NamedTuple

import ml_collections
import numpy as np
import sacrebleu
from flax.traverse_util import flatten_dict

from transformer import models
from transformer.checkpoints import manager, weights
from transformer.checkpoints.workdir import (
    check_same_run,
    read_config,
    read_vocabulary,
    write_config,
)
from transformer.data import batches, packing, tokenizer, tokens
from transformer.data.tokens import Tokens
from transformer.data.vocabulary import write
from transformer.decoding.translator import Translator
from transformer.distributed import layout, processes
from transformer.errors import UserError
from transformer.models.ensemble import Ensemble
from transformer.tasks import losses, splits, translation

# The least that numbers can be; shares are from 0 to below 1.
LEAST = {
    1: (
        *("data.max_length", "model.num_layers", "train.num_steps", "train.accumulate"),
        *("train.loss_blocks", "train.log_every", "train.save_every", "optimizer.warmup_steps"),
        "evaluate.average_last",
    ),
    0: (
        *("model.key_size", "model.value_size", "model.max_positions", "model.norm_epsilon"),
        *("optimizer.adam.clip_norm", "train.seed", "train.profile"),
        *("evaluate.every", "evaluate.patience", "evaluate.samples"),
    ),
}
SHARES = (
    *("model.dropout_rate", "model.attention_dropout_rate", "model.activation_dropout_rate"),
    *("loss.label_smoothing", "optimizer.adam.beta1", "optimizer.adam.beta2"),
)
# Adam divides 0 by epsilon where all gradients so far were 0.
POSITIVE = ("optimizer.factor", "optimizer.adam.epsilon")


class Prepared(NamedTuple):
    """What `build` hands to training; the config has the vocabulary's fingerprint in it now."""

    config: ml_collections.ConfigDict
    vocabulary: tokenizer.Vocabulary
    tokens: tokens.Tokens  # of the training split


def build(config: ml_collections.ConfigDict, workdir: Path) -> Prepared:
    """Builds what is missing of the corpus, the vocabulary and the ids, and writes config.json.

    A workdir that was made with another config is refused, and so is every split that the run will
    want and that cannot be read: before hours were spent, not after. Of several processes the first
    one does so; the others read the workdir, and prepare what is not on a disk they share.
    """
    with processes.first_before_others("prepared"):
        return _build(config, workdir)


def _build(config: ml_collections.ConfigDict, workdir: Path) -> Prepared:
    final = splits.final(config)
    pairs = {split: splits.pairs(config, split) for split in ("train", "validation", final)}
    config = config.copy_and_resolve_references()
    config.data.fingerprint = pairs["train"].fingerprint
    # A workdir without a checkpoint has settled nothing: what it holds is made anew.
    settled = manager.resumable(workdir)
    if settled or not processes.is_first():
        if made := _settled_config(workdir):
            config.vocabulary.fingerprint = made.vocabulary.fingerprint
            check_same_run(config, made, workdir)
        vocabulary = read_vocabulary(workdir, config)
    else:
        vocabulary = write(config, pairs["train"], workdir)
    config.vocabulary.fingerprint = vocabulary.fingerprint
    # Validation scores the model that is trained, the final evaluation the ensemble.
    model = translation.build_model(config, vocabulary)
    members = [member for _, _, member in translation.ensemble(config)]
    for split, scored in (("validation", model), (final, Ensemble((model, *members)))):
        splits.whole_tokens(config, pairs[split], vocabulary, split, scored)
    if not settled:  # else once it is known that the run goes on
        write_config(config, workdir)
    return Prepared(
        config, vocabulary, splits.tokens(config, pairs["train"], vocabulary, "tokenise train")
    )


def training_batches(config: ml_collections.ConfigDict, tokens: Tokens) -> batches.Batches:
    """The training split in batches of about `data.batch_tokens` target positions."""
    data, seed = config.data, config.train.seed
    pairs = packing.trainable(tokens, data.max_length)
    if data.pack:
        groups = [packing.pack(tokens, pairs, data.row_length, seed)]
    else:
        groups = packing.unpacked(tokens, pairs, data.row_length)
    return batches.Batches(tokens, groups, data.batch_tokens, seed)


def check(config: ml_collections.ConfigDict) -> None:
    """UserError for values that cannot work: now, before anything is written or compiled."""
    data, decode, model = config.data, config.decode, config.model
    for key, found, choices in (
        ("parallel.strategy", config.parallel.strategy, layout.STRATEGIES),
        ("loss.smoothed_over", config.loss.smoothed_over, losses.SMOOTHINGS),
        ("evaluate.weights", config.evaluate.weights, weights.WEIGHTS),
        ("evaluate.tokenize", config.evaluate.tokenize, tuple(sacrebleu.BLEU.TOKENIZERS)),
        ("vocabulary.kind", config.vocabulary.kind, tokenizer.KINDS),
    ):
        if found not in choices:
            raise UserError(f"config.{key} is one of {', '.join(choices)}, found {found!r}")
    values = flatten_dict(config.to_dict(), sep=".")
    for key, found in values.items():
        if isinstance(found, float) and not abs(found) <= float(np.finfo(np.float32).max):
            raise UserError(f"config.{key} is a finite number, as float32 has it, found {found}")
    for least, keys in LEAST.items():
        for key in keys:
            if values[key] < least:
                raise UserError(f"config.{key} is at least {least}, found {values[key]}")
    if config.train.seed >= 2**31:
        raise UserError(f"config.train.seed is below 2^31, found {config.train.seed}")
    for key in SHARES:
        if not 0 <= np.float32(values[key]) < 1:
            raise UserError(f"config.{key} is from 0 to below 1, found {values[key]}")
    for key in POSITIVE:
        if values[key] < np.finfo(np.float32).tiny:
            raise UserError(f"config.{key} is above 0, as float32 has it, found {values[key]}")
    _check_bleu(config.evaluate.tokenize)
    if data.pack and data.max_length > data.row_length:
        raise UserError(
            f"config.data.max_length={data.max_length} does not fit into "
            f"config.data.row_length={data.row_length}"
        )
    if data.batch_tokens < data.row_length:
        raise UserError(
            f"config.data.batch_tokens={data.batch_tokens} is less than one row, "
            f"config.data.row_length={data.row_length}"
        )
    longest = max(data.row_length, decode.max_length + decode.extra_length)
    if model.positions == "learned" and model.max_positions < longest:
        raise UserError(
            f"config.model.max_positions={model.max_positions} learned positions are too few for "
            f"data.row_length and decode.max_length + decode.extra_length, which want {longest}"
        )
    # What model and translator check themselves, over vocabularies of any size.
    sizes = {"source_vocab_size": 8, "target_vocab_size": 8 if config.vocabulary.shared else 9}
    toy = models.build(config.architecture, model.to_dict(), **sizes)
    translation.abstract_parameters(toy)
    Translator(toy, None, **decode)
    for _, _, model in translation.ensemble(config):
        Translator(model, None, **decode)


def _settled_config(workdir: Path) -> ml_collections.ConfigDict | None:
    """The config that a run began with; None, with a warning, if its file is damaged or lost: the
    checkpoints are whole without it, and --config says it again."""
    try:
        return read_config(workdir)
    except UserError as error:
        logging.warning("%s; config.json is written again from --config, which is trusted", error)
        return None


def _check_bleu(tokenize: str) -> None:
    """UserError where sacreBLEU lacks the package or the download that a tokeniser needs."""
    try:
        sacrebleu.BLEU(tokenize=tokenize)
    except (RuntimeError, ImportError, OSError) as error:
        install = re.search(r"pip install \S+", str(error))
        raise UserError(
            f"config.evaluate.tokenize={tokenize!r} cannot be used: "
            + (f"it needs {install[0]}" if install else " ".join(str(error).split()))
        ) from error
