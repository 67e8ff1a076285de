"""Names -> what training reads: corpora, vocabulary, ids and the resolved config.json."""

import functools
import importlib.metadata
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import ml_collections
import numpy as np
import sacrebleu
from flax.traverse_util import flatten_dict

from transformer import (
    batches,
    checkpoint,
    checksums,
    corpora,
    ids,
    loss,
    metrics,
    models,
    parallel,
    processes,
    storage,
    tokenizer,
    trained,
)
from transformer.translator import Translator

# What may change when a run is resumed: where things are, how long, and how it is looked at.
FREE = (
    *("data.data_dir", "data.directory", "data.train", "data.validation", "data.test"),
    *("train.num_steps", "train.accumulate", "train.loss_blocks", "train.profile"),
    *("train.log_every", "train.save_every", "train.keep"),
    *("model.dtype", "model.remat", "vocabulary.model", "parallel.", "evaluate.", "decode."),
    *("translate.", "attention.", "plan.", "compilation_cache"),
)
PACKAGES = ("jax", "flax", "optax", "orbax-checkpoint", "sentencepiece", "tensorflow-datasets")


class Prepared(NamedTuple):
    """What `build` hands to training; the config has the vocabulary's fingerprint in it now."""

    config: ml_collections.ConfigDict
    vocabulary: tokenizer.Vocabulary
    tokens: ids.Tokens  # of the training split


def prepare(config: ml_collections.ConfigDict, workdir: Path) -> Prepared:
    """--mode=prepare: checks the config, and builds what is missing."""
    check(config)
    return build(config, workdir)


def build(config: ml_collections.ConfigDict, workdir: Path) -> Prepared:
    """Builds what is missing of the corpus, the vocabulary and the ids, and writes config.json.

    A workdir that was made with another config is refused, and so is every split that the run will
    want and that cannot be read: before hours were spent, not after. Of several processes the first
    one does so; the others read the workdir, and prepare what is not on a disk they share.
    """
    with processes.first_before_others("prepared"):
        return _build(config, workdir)


def _build(config: ml_collections.ConfigDict, workdir: Path) -> Prepared:
    pairs = {x: corpus(config, x) for x in ("train", "validation", config.evaluate.split)}
    config = config.copy_and_resolve_references()
    config.data.fingerprint = pairs["train"].fingerprint
    # A workdir without a checkpoint has settled nothing: what it holds is made anew.
    settled = (workdir / "config.json").is_file() and (workdir / "checkpoints").is_dir()
    if settled or not processes.is_first():
        made = trained.read_config(workdir)
        config.vocabulary.fingerprint = made.vocabulary.fingerprint
        _check_same_run(config, made, workdir)
        vocabulary = trained.read_vocabulary(workdir, config)
    else:
        vocabulary = _write_vocabulary(config, pairs["train"], workdir)
        config.vocabulary.fingerprint = vocabulary.fingerprint
    for split in ("validation", config.evaluate.split):
        whole_tokens(config, pairs[split], vocabulary, split)
    if processes.is_first():
        _write_config(config, workdir)
    return Prepared(
        config, vocabulary, tokens(config, pairs["train"], vocabulary, "tokenise train")
    )


def _write_config(config: ml_collections.ConfigDict, workdir: Path) -> None:
    """The resolved config, but for who the processes of this run are."""
    config = ml_collections.ConfigDict(config)
    config.parallel.update(coordinator="", num_processes=0, process_id=0)
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    content = json.dumps({**config.to_dict(), "versions": versions}, indent=2, ensure_ascii=False)
    storage.write_file(workdir / "config.json", content.encode() + b"\n")


def corpus(config: ml_collections.ConfigDict, split: str) -> corpora.Corpus:
    """A split of the config's corpus: 'train', 'validation', 'test', or a name it knows itself."""
    data = config.data
    return corpora.load(
        data.corpus,
        data.get(split, split),
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
) -> ids.Tokens:
    """A corpus's ids, cached under `data.data_dir`."""
    cache = Path(config.data.data_dir).expanduser() / "tokens"
    counter = functools.partial(metrics.counter, what)
    return ids.tokenise(pairs, vocabulary, cache, counter=counter)


def training_batches(config: ml_collections.ConfigDict, tokens: ids.Tokens) -> batches.Batches:
    """The training split in batches of about `data.batch_tokens` target positions."""
    data, seed = config.data, config.train.seed
    pairs = batches.trainable(tokens, data.max_length)
    if data.pack:
        groups = [batches.pack(tokens, pairs, data.row_length, seed)]
    else:
        groups = batches.unpacked(tokens, pairs, data.row_length)
    return batches.Batches(tokens, groups, data.batch_tokens, seed)


def whole_tokens(
    config: ml_collections.ConfigDict,
    pairs: corpora.Corpus,
    vocabulary: tokenizer.Vocabulary,
    split: str,
) -> ids.Tokens:
    """The ids of a split that is scored: no sentence is left out, so each has to fit the model."""
    found = tokens(config, pairs, vocabulary, f"tokenise {split}")
    longest = int(max(found.source_lengths.max(), found.target_lengths.max()))
    if config.model.positions == "learned" and longest > config.model.max_positions:
        raise ValueError(
            f"config.model.max_positions={config.model.max_positions} positions are learned, but "
            f"the split {split!r} has a sentence of {longest} pieces"
        )
    return found


def check(config: ml_collections.ConfigDict) -> None:
    """ValueError for values that cannot work: now, before anything is written or compiled."""
    data, decode, model = config.data, config.decode, config.model
    for key, found, choices in (
        ("parallel.strategy", config.parallel.strategy, parallel.STRATEGIES),
        ("loss.smoothed_over", config.loss.smoothed_over, loss.SMOOTHINGS),
        ("evaluate.weights", config.evaluate.weights, checkpoint.WEIGHTS),
        ("evaluate.tokenize", config.evaluate.tokenize, tuple(sacrebleu.BLEU.TOKENIZERS)),
        ("vocabulary.kind", config.vocabulary.kind, tokenizer.KINDS),
    ):
        if found not in choices:
            raise ValueError(f"config.{key} is one of {', '.join(choices)}, found {found!r}")
    for key, found in (
        ("data.max_length", data.max_length),
        ("model.num_layers", model.num_layers),
        ("train.num_steps", config.train.num_steps),
        ("train.accumulate", config.train.accumulate),
        ("train.loss_blocks", config.train.loss_blocks),
        ("train.log_every", config.train.log_every),
        ("train.save_every", config.train.save_every),
        ("evaluate.average_last", config.evaluate.average_last),
        ("optimizer.warmup_steps", config.optimizer.warmup_steps),
    ):
        if found < 1:
            raise ValueError(f"config.{key} is at least 1, found {found}")
    for key, found in (
        ("model.dropout_rate", model.dropout_rate),
        ("model.attention_dropout_rate", model.attention_dropout_rate),
        ("model.activation_dropout_rate", model.activation_dropout_rate),
        ("loss.label_smoothing", config.loss.label_smoothing),
    ):
        if not 0 <= found < 1:
            raise ValueError(f"config.{key} is from 0 to below 1, found {found}")
    sacrebleu.BLEU(tokenize=config.evaluate.tokenize)  # it may want a package of its own
    for key, found in (("train.seed", config.train.seed), ("train.profile", config.train.profile)):
        if found < 0:
            raise ValueError(f"config.{key} is at least 0, found {found}")
    if data.pack and data.max_length > data.row_length:
        raise ValueError(
            f"config.data.max_length={data.max_length} does not fit into "
            f"config.data.row_length={data.row_length}"
        )
    if data.batch_tokens < data.row_length:
        raise ValueError(
            f"config.data.batch_tokens={data.batch_tokens} is less than one row, "
            f"config.data.row_length={data.row_length}"
        )
    longest = max(data.row_length, decode.max_length + decode.extra_length)
    if model.positions == "learned" and model.max_positions < longest:
        raise ValueError(
            f"config.model.max_positions={model.max_positions} learned positions are too few for "
            f"data.row_length and decode.max_length + decode.extra_length, which want {longest}"
        )
    # What model and translator check themselves, over vocabularies of any size.
    sizes = {"source_vocab_size": 8, "target_vocab_size": 8 if config.vocabulary.shared else 9}
    toy = models.build(config.architecture, model.to_dict(), **sizes)
    trained.abstract_parameters(toy)
    Translator(toy, None, **decode)


def _check_same_run(
    config: ml_collections.ConfigDict, made: ml_collections.ConfigDict, workdir: Path
) -> None:
    """A run goes on with the config it began with, but for the keys in FREE."""
    old = flatten_dict(made.to_dict(), sep=".")
    for key, now in flatten_dict(config.to_dict(), sep=".").items():
        if now != old.get(key) and not key.startswith(FREE):
            raise ValueError(
                f"{workdir} was made with config.{key}={old.get(key)!r}, now it is {now!r}: "
                "go on with the old value, or give another --workdir"
            )


def _write_vocabulary(
    config: ml_collections.ConfigDict, train: corpora.Corpus, workdir: Path
) -> tokenizer.Vocabulary:
    """The vocabulary a config asks for, given or learnt, also as files in the workdir."""
    options = config.vocabulary
    names = ("shared",) if options.shared else ("source", "target")
    if options.model:
        given = _given_models(options)
        learnt = [path.read_bytes() for path in given]
    else:
        logging.info("learning the vocabulary: %s, %d pieces", options.kind, options.size)
        sides = (("source", "target"),) if options.shared else (("source",), ("target",))
        given = [Path(name) for name in names]
        learnt = [
            tokenizer.learn(
                _sentences(train, side, options.max_sentences, config.train.seed),
                size=options.size,
                kind=options.kind,
                character_coverage=options.character_coverage,
            )
            for side in sides
        ]
    pieces = [tokenizer.load(model, str(path)) for path, model in zip(given, learnt, strict=True)]
    for name, model, table in zip(names, learnt, map(tokenizer.table, pieces), strict=True):
        storage.write_file(workdir / "vocabulary" / f"{name}.model", model)
        storage.write_file(workdir / "vocabulary" / f"{name}.vocab", table.encode())
    seal = checksums.seal(workdir / "vocabulary")
    storage.write_file(workdir / "vocabulary" / checksums.NAME, seal)
    return tokenizer.Vocabulary(pieces[0], pieces[-1])


def _given_models(options: ml_collections.ConfigDict) -> list[Path]:
    paths = [storage.path(name) for name in options.model.split(",")]
    expected = 1 if options.shared else 2
    if len(paths) != expected:
        raise ValueError(
            f"config.vocabulary.model names {len(paths)} file(s), expected "
            + ("one, as the vocabulary is shared" if options.shared else "two: SOURCE,TARGET")
        )
    for path in paths:
        if not path.is_file():
            raise ValueError(f"config.vocabulary.model: {path} does not exist")
    return paths


def _sentences(
    pairs: corpora.Corpus, sides: tuple[str, ...], most: int, seed: int, chunk: int = 8192
) -> Iterator[str]:
    """The sentences to learn pieces from: all, or those of a random `most` // len(sides) pairs."""
    chosen = np.arange(len(pairs))
    if most and len(sides) * len(pairs) > most:
        chosen = np.sort(np.random.default_rng(seed).permutation(len(pairs))[: most // len(sides)])
    for start in range(0, len(chosen), chunk):
        source, target = pairs.read(chosen[start : start + chunk])
        if "source" in sides:
            yield from source
        if "target" in sides:
            yield from target
