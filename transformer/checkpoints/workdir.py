"""A run's folder: config.json, vocabulary/, and what may change when a run is resumed."""

import importlib.metadata
import json
import logging
from collections.abc import Sequence
from pathlib import Path

import ml_collections
from flax.traverse_util import flatten_dict

from transformer.data import tokenizer
from transformer.distributed import processes
from transformer.errors import UserError
from transformer.storage import checksums, paths


def read_config(workdir: Path) -> ml_collections.ConfigDict:
    """The resolved config that a workdir was trained with."""
    path = workdir / "config.json"
    if not path.is_file():
        kind = "holds no config.json" if workdir.is_dir() else "does not exist"
        kind = "is a file, expected a folder" if workdir.is_file() else kind
        raise UserError(
            f"{workdir} {kind}: give --workdir a folder that training has made, with its "
            "config.json (python launch.py --config=configs/quickstart.py makes runs/quickstart)"
        )

    def tuples(value: object) -> object:
        if isinstance(value, dict):
            return {name: tuples(v) for name, v in value.items()}
        return tuple(map(tuples, value)) if isinstance(value, list) else value

    try:
        values = json.loads(path.read_bytes())
        if isinstance(values, dict):
            return ml_collections.ConfigDict(tuples(values))
    except (ValueError, AttributeError, RecursionError) as error:  # no JSON; a key that is no name
        raise UserError(f"damaged: {path} is no config ({error})") from error
    raise UserError(f"damaged: {path} is no JSON object, but {str(values)[:40]!r}")


def read_vocabulary(workdir: Path, config: ml_collections.ConfigDict) -> tokenizer.Vocabulary:
    """A run's vocabulary; refused if it is damaged, or not the one that config.json names."""
    files = vocabulary_files(workdir, config)
    for file in files:
        if not file.is_file():
            raise UserError(f"{file} is missing: nothing can be read without it")
    names = {file.name for file in files}
    if faults := checksums.corrupt_files(files[0].parent, wanted=names.__contains__, alone=True):
        raise UserError(f"damaged: {', '.join(faults)}: nothing can be read without it")
    pieces = [tokenizer.load(file.read_bytes(), str(file)) for file in files]
    vocabulary = tokenizer.Vocabulary(pieces[0], pieces[-1])
    expected = config.vocabulary.fingerprint  # "" if config.json is lost: checkpoints name it, too
    if expected and vocabulary.fingerprint != expected:
        raise UserError(
            f"{files[0].parent} holds the vocabulary {vocabulary.fingerprint}, but this run was "
            f"trained with {expected}: ids would mean other pieces"
        )
    return vocabulary


def vocabulary_files(workdir: Path, config: ml_collections.ConfigDict) -> list[Path]:
    names = ("shared",) if config.vocabulary.shared else ("source", "target")
    return [workdir / "vocabulary" / f"{name}.model" for name in names]


def write_vocabulary(workdir: Path, models: Sequence[bytes]) -> tokenizer.Vocabulary:
    """The vocabulary of one SentencePiece model, or of two (source, target), written into a run's
    folder: each with a table of its pieces for people, and their checksums."""
    names = ("shared",) if len(models) == 1 else ("source", "target")
    pieces = [tokenizer.load(model, name) for model, name in zip(models, names, strict=True)]
    for name, model, table in zip(names, models, map(tokenizer.table, pieces), strict=True):
        paths.write_file(workdir / "vocabulary" / f"{name}.model", model)
        paths.write_file(workdir / "vocabulary" / f"{name}.vocab", table.encode())
    seal = checksums.checksums_of(workdir / "vocabulary")
    paths.write_file(workdir / "vocabulary" / checksums.NAME, seal)
    return tokenizer.Vocabulary(pieces[0], pieces[-1])


# What may change when any run is resumed: where things are, how long, and how it is looked at. Each
# task has more of the kind.
FREE = (
    *("train.num_steps", "train.accumulate", "train.profile", "train.log_every"),
    *("train.save_every", "train.keep"),
    *("parallel.", "evaluate.", "plan.", "compilation_cache"),
)


PACKAGES = ("jax", "flax", "optax", "orbax-checkpoint", "sentencepiece", "tensorflow-datasets")


def write_config(config: ml_collections.ConfigDict, workdir: Path) -> None:
    """Writes config.json: the resolved config, but for who the processes of this run are."""
    if not processes.is_first():
        return
    config = ml_collections.ConfigDict(config)
    config.parallel.update(coordinator="", num_processes=0, process_id=0)
    values = {**config.to_dict(), "versions": versions()}
    content = json.dumps(values, indent=2, ensure_ascii=False)
    paths.write_file(workdir / "config.json", content.encode() + b"\n")


def versions() -> dict[str, str]:
    """The versions of the packages that results may depend on."""
    return {name: importlib.metadata.version(name) for name in PACKAGES}


def check_same_run(
    config: ml_collections.ConfigDict,
    made: ml_collections.ConfigDict,
    workdir: Path,
    free: tuple[str, ...],
) -> None:
    """UserError unless a run goes on with the config it began with, `made`, but for keys that begin
    with one of `free`. Fingerprints that are not filled in yet are not compared."""
    old = flatten_dict(made.to_dict(), sep=".")
    now = flatten_dict(config.to_dict(), sep=".")
    for key in filter(old.__contains__, now):
        unknown = key.endswith("fingerprint") and not now[key]
        if now[key] != old[key] and not unknown and not key.startswith(free):
            raise UserError(
                f"{workdir} was made with config.{key}={old[key]!r}, now it is {now[key]!r}: "
                "go on with the old value, or give another --workdir"
            )
    if new := [f"{key}={now[key]!r}" for key in now.keys() - old.keys()]:
        logging.warning("config.json has no %s: going on with that", ", ".join(sorted(new)))
