"""Names -> what training reads: corpora, vocabulary, ids and the resolved config.json."""

import importlib.metadata
import json
import logging
import re
from pathlib import Path
from typing import NamedTuple

import ml_collections
import numpy as np
import sacrebleu
from flax.traverse_util import flatten_dict

from transformer import (
    batches,
    checkpoint,
    ids,
    loss,
    metrics,
    models,
    parallel,
    processes,
    splits,
    storage,
    store,
    text_files,
    tokenizer,
    trained,
    vocabularies,
    weights,
)
from transformer.errors import UserError
from transformer.models.ensemble import Ensemble
from transformer.translator import Translator

# What may change when a run is resumed: where things are, how long, and how it is looked at.
FREE = (
    *("data.data_dir", "data.directory", "data.train", "data.validation", "data.test"),
    *("train.num_steps", "train.accumulate", "train.loss_blocks", "train.profile"),
    *("train.log_every", "train.save_every", "train.keep"),
    *("model.dtype", "model.remat", "vocabulary.model", "parallel.", "evaluate.", "decode."),
    *("translate.", "attention.", "plan.", "compilation_cache"),
)
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
PACKAGES = ("jax", "flax", "optax", "orbax-checkpoint", "sentencepiece", "tensorflow-datasets")


class Prepared(NamedTuple):
    """What `build` hands to training; the config has the vocabulary's fingerprint in it now."""

    config: ml_collections.ConfigDict
    vocabulary: tokenizer.Vocabulary
    tokens: ids.Tokens  # of the training split


def prepare(config: ml_collections.ConfigDict, workdir: Path) -> Prepared:
    """--mode=prepare: checks the config, builds what is missing, and says what there is."""
    store.check_path(workdir)
    check(config)
    with processes.alone_in(workdir):
        prepared = build(config, workdir)
    training = training_batches(*prepared[::2])
    pairs = sum(len(rows.pairs) for rows in training.groups)
    sizes = [metrics.counted(len(pieces), "piece") for pieces in prepared.vocabulary]
    logging.info(
        "prepared: %s, %s, %s an epoch; ids are in %s, config and vocabulary in %s",
        metrics.counted(pairs, "training pair"),
        f"a vocabulary of {' and '.join(sizes[: 1 if config.vocabulary.shared else 2])}",
        metrics.counted(len(training), "batch", "batches"),
        *(prepared.tokens.directory, workdir),
    )
    return prepared


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
    settled = checkpoint.resumable(workdir)
    if settled or not processes.is_first():
        if made := _settled_config(workdir):
            config.vocabulary.fingerprint = made.vocabulary.fingerprint
            _check_same_run(config, made, workdir)
        vocabulary = trained.read_vocabulary(workdir, config)
    else:
        vocabulary = vocabularies.write(config, pairs["train"], workdir)
    config.vocabulary.fingerprint = vocabulary.fingerprint
    # Validation scores the model that is trained, the final evaluation the ensemble.
    model = trained.build_model(config, vocabulary)
    members = [member for _, _, member in trained.ensemble(config)]
    for split, scored in (("validation", model), (final, Ensemble((model, *members)))):
        splits.whole_tokens(config, pairs[split], vocabulary, split, scored)
    if not settled:  # else once it is known that the run goes on
        write_config(config, workdir)
    return Prepared(
        config, vocabulary, splits.tokens(config, pairs["train"], vocabulary, "tokenise train")
    )


def write_config(config: ml_collections.ConfigDict, workdir: Path) -> None:
    """Writes config.json: the resolved config, but for who the processes of this run are."""
    if not processes.is_first():
        return
    config = ml_collections.ConfigDict(config)
    config.parallel.update(coordinator="", num_processes=0, process_id=0)
    values = {**config.to_dict(), "versions": versions()}
    content = json.dumps(values, indent=2, ensure_ascii=False)
    storage.write_file(workdir / "config.json", content.encode() + b"\n")


def versions() -> dict[str, str]:
    """The versions of the packages that results may depend on."""
    return {name: importlib.metadata.version(name) for name in PACKAGES}


def training_batches(config: ml_collections.ConfigDict, tokens: ids.Tokens) -> batches.Batches:
    """The training split in batches of about `data.batch_tokens` target positions."""
    data, seed = config.data, config.train.seed
    pairs = batches.trainable(tokens, data.max_length)
    if data.pack:
        groups = [batches.pack(tokens, pairs, data.row_length, seed)]
    else:
        groups = batches.unpacked(tokens, pairs, data.row_length)
    return batches.Batches(tokens, groups, data.batch_tokens, seed)


def check(config: ml_collections.ConfigDict) -> None:
    """UserError for values that cannot work: now, before anything is written or compiled."""
    data, decode, model = config.data, config.decode, config.model
    for key, found, choices in (
        ("parallel.strategy", config.parallel.strategy, parallel.STRATEGIES),
        ("loss.smoothed_over", config.loss.smoothed_over, loss.SMOOTHINGS),
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
    trained.abstract_parameters(toy)
    Translator(toy, None, **decode)
    for _, _, model in trained.ensemble(config):
        Translator(model, None, **decode)


def _settled_config(workdir: Path) -> ml_collections.ConfigDict | None:
    """The config that a run began with; None, with a warning, if its file is damaged or lost: the
    checkpoints are whole without it, and --config says it again."""
    try:
        return trained.read_config(workdir)
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


def _check_same_run(
    config: ml_collections.ConfigDict, made: ml_collections.ConfigDict, workdir: Path
) -> None:
    """A run goes on with the config it began with, but for the keys in FREE."""
    old = flatten_dict(made.to_dict(), sep=".")
    now = flatten_dict(config.to_dict(), sep=".")
    for key in filter(old.__contains__, now):
        if now[key] != old[key] and not key.startswith(FREE):
            if key == "data.fingerprint":
                raise UserError(_other_text(config, workdir))
            raise UserError(
                f"{workdir} was made with config.{key}={old[key]!r}, now it is {now[key]!r}: "
                "go on with the old value, or give another --workdir"
            )
    if new := [f"{key}={now[key]!r}" for key in now.keys() - old.keys()]:
        logging.warning("config.json has no %s: going on with that", ", ".join(sorted(new)))


def _other_text(config: ml_collections.ConfigDict, workdir: Path) -> str:
    data = config.data
    text = f"the corpus {data.corpus}"
    if data.corpus == "parallel_text":
        languages = data.source_language, data.target_language
        files = text_files.find(
            Path(data.directory).expanduser(), data.train, languages, "config.data.train"
        )
        text = f"the text of {files[0]} or {files[1]}"
    return (
        f"{workdir} was made with other training text: {text} has changed since (config.data."
        "fingerprint); put the old text back, or give another --workdir"
    )
