"""A run's folder: config.json, vocabulary/, and what may change when a run is resumed."""

import importlib.metadata
import json
import logging
from pathlib import Path

import ml_collections
from flax.traverse_util import flatten_dict

from transformer.data import text_files, tokenizer
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
    if faults := checksums.damaged(files[0].parent, wanted=names.__contains__, alone=True):
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


# What may change when a run is resumed: where things are, how long, and how it is looked at.
FREE = (
    *("data.data_dir", "data.directory", "data.train", "data.validation", "data.test"),
    *("train.num_steps", "train.accumulate", "train.loss_blocks", "train.profile"),
    *("train.log_every", "train.save_every", "train.keep"),
    *("model.dtype", "model.remat", "vocabulary.model", "parallel.", "evaluate.", "decode."),
    *("translate.", "attention.", "plan.", "compilation_cache"),
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
