"""A run's workdir: config.json, vocabulary/, and which keys may change when a run is resumed."""

import importlib.metadata
import logging
from collections.abc import Sequence
from pathlib import Path

import ml_collections

from transformer.data import characters, tokenizer, vocabulary
from transformer.distributed import processes
from transformer.errors import UserError
from transformer.runtime import checksums, json_files, paths
from transformer.workdir.config_files import flatten

Vocabulary = tokenizer.Vocabulary | tokenizer.Pieces | characters.Characters


def read_vocabulary(workdir: Path, config: ml_collections.ConfigDict) -> Vocabulary:
    """Loads a run's vocabulary.

    UserError if a file is missing or damaged, or its fingerprint is not that of the config.
    """
    files = vocabulary_files(workdir, config)
    for file in files:
        if not file.is_file():
            raise UserError(f"{file} is missing: the run cannot be used without its vocabulary")
    names = {file.name for file in files}
    if faults := checksums.corrupt_files(files[0].parent, wanted=names.__contains__, alone=True):
        raise UserError(
            f"damaged: {', '.join(faults)}: the run cannot be used without its vocabulary"
        )
    contents = {str(file): file.read_bytes() for file in files}
    loaded = _load(contents, config)
    expected = config.vocabulary.fingerprint  # "" if config.json was lost; checkpoints have it, too
    if expected and loaded.fingerprint != expected:
        raise UserError(
            f"{files[0].parent} holds the vocabulary {loaded.fingerprint}, but this run was "
            f"trained with {expected}: texts would have other ids"
        )
    return loaded


def vocabulary_files(workdir: Path, config: ml_collections.ConfigDict) -> list[Path]:
    """Returns the paths of a workdir's vocabulary (see `vocabulary.load`).

    The config of a vocabulary for sentence pairs has the key `shared`, one for plain text has not.
    """
    options, both = config.vocabulary, ("source", "target")
    if "shared" in options:
        sides = ("shared",) if options.shared else both
        names = {
            "table": [f"{x}.model" for x in both] + [f"{x}.pieces" for x in sides],
            "characters": [f"{x}.characters" for x in sides],
        }.get(options.kind, [f"{x}.model" for x in sides])
    else:
        names = ("text.characters",) if options.kind == "characters" else ("text.model",)
    return [workdir / "vocabulary" / name for name in names]


def _load(contents: dict[str, bytes], config: ml_collections.ConfigDict) -> Vocabulary:
    """Loads a vocabulary from the contents of its files, {path: bytes}."""
    options = config.vocabulary
    source_end = options.get("source_end", True)  # a key of translation only
    return vocabulary.load(contents, source_end=source_end, normalisation=options.normalisation)


def write_vocabulary(
    workdir: Path, config: ml_collections.ConfigDict, contents: Sequence[bytes]
) -> Vocabulary:
    """Writes the files of a workdir's vocabulary (`vocabulary_files`), and returns it loaded.

    Beside them are a readable table of each model's pieces, and checksums of all files.
    """
    files = vocabulary_files(workdir, config)
    loaded = _load(dict(zip(map(str, files), contents, strict=True)), config)
    for file, content in zip(files, contents, strict=True):
        paths.write_file(file, content)
        if file.suffix == ".model":
            table = tokenizer.table(tokenizer.load_processor(content, str(file)))
            paths.write_file(file.with_suffix(".vocab"), table.encode())
    folder = files[0].parent
    paths.write_file(folder / checksums.NAME, checksums.checksums_of(folder))
    return loaded


# Keys, or prefixes of keys, that may change when a run is resumed: number of steps, logging,
# saving, layout, evaluation, and the schedule of the learning rate, which may have to be lowered. A
# task's FREE has more of them.
FREE = (
    *("train.num_steps", "train.accumulate", "train.profile", "train.log_every"),
    *("train.save_every", "train.keep", "train.trackers", "optimizer.schedule."),
    *("train.init_from", "train.init_skip"),  # read by a new run only
    *("parallel.", "evaluate.", "compilation_cache"),
    # The texts themselves have a fingerprint, which may not change.
    *("data.data_dir", "data.directory", "data.train", "data.validation", "data.test"),
    *("loss.blocks", "model.dtype", "model.remat", "vocabulary.model"),
)


PACKAGES = ("jax", "flax", "optax", "orbax-checkpoint", "sentencepiece", "tensorflow-datasets")


def write_config(config: ml_collections.ConfigDict, workdir: Path) -> None:
    """Writes config.json from process 0: the resolved config and the versions of packages.

    The coordinator's address and process ids are left out, because they change with each start.
    """
    if not processes.is_first():
        return
    config = ml_collections.ConfigDict(config)
    config.parallel.update(coordinator="", num_processes=0, process_id=0)
    values = {**config.to_dict(), "versions": versions()}
    json_files.write(workdir / "config.json", values)


def versions() -> dict[str, str]:
    """Returns the versions of the packages that results may depend on."""
    return {name: importlib.metadata.version(name) for name in PACKAGES}


def check_same_run(
    config: ml_collections.ConfigDict,
    saved_config: ml_collections.ConfigDict,
    workdir: Path,
    free: tuple[str, ...],
) -> None:
    """Raises UserError if a resumed run's config differs from the one it started with.

    Keys that begin with one of `free` may differ; a change of the learning rate's schedule is
    logged. A fingerprint or language that is not filled in yet ("") is not compared. Another key
    that `saved_config` lacks is logged.
    """
    saved, current = flatten(saved_config), flatten(config)
    bound = [key for key in current if not key.startswith(free)]
    # Named first: where one of these differs, so do other keys.
    first = [key for key in ("task", "architecture", "optimizer.name") if key in bound]
    for key in filter(saved.__contains__, [*first, *bound]):
        unknown = key.endswith(("fingerprint", "_language")) and not current[key]
        if current[key] != saved[key] and not unknown:
            raise UserError(
                f"{workdir} was trained with config.{key}={saved[key]!r}, now it is "
                f"{current[key]!r}: use the old value, or give another --workdir"
            )
    for key in sorted(saved.keys() - current.keys()):
        if key.startswith("optimizer.arguments."):
            raise UserError(
                f"{workdir} was trained with config.{key}={saved[key]!r}, now it has no value: use "
                "the old one, or give another --workdir"
            )
    schedules = [_group(flat, "optimizer.schedule.") for flat in (saved, current)]
    if schedules[0] != schedules[1]:
        logging.warning("the learning rate's schedule was %s, now it is %s", *schedules)
    if new := [f"{key}={current[key]!r}" for key in bound if key not in saved]:
        logging.warning("config.json has no %s: resuming with these values", ", ".join(sorted(new)))


def _group(flat: dict[str, object], prefix: str) -> dict[str, object]:
    """Returns the keys of a flattened config that begin with a prefix, without it."""
    return {key.removeprefix(prefix): x for key, x in flat.items() if key.startswith(prefix)}
