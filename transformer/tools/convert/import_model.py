"""--mode=import: makes a workdir of a model that another program has trained."""

import contextlib
import logging
import shutil
from pathlib import Path
from types import ModuleType

import jax
import ml_collections
import numpy as np

from transformer.checkpoints import param_paths, store
from transformer.checkpoints.store import BEST, IMPORTED, PARAMS, CheckpointStore
from transformer.errors import UserError, quantity
from transformer.runtime import checksums, drafts, json_files
from transformer.tasks import translation, vocabularies
from transformer.tasks.task import abstract_params, load_task
from transformer.tools.convert import arrays, marian
from transformer.workdir import workdir
from transformer.workdir.run_config import is_exported

# {model_type of a config.json: what reads such a folder of Hugging Face's}
HUGGINGFACE = {"marian": marian}


def import_model(config: ml_collections.ConfigDict, folders: tuple[Path, Path]) -> None:
    """Writes WORKDIR, of (FOLDER, WORKDIR), from the model in FOLDER: whole, or nothing.

    The workdir is one like a trained run's, with its params as the best validation. It can be
    evaluated, translated with, exported, and be what a new run starts from (`train.init_from`).
    """
    folder, target = folders
    drafts.check_new(target)
    if is_exported(folder):
        restore(config, folder, target)
        return
    program = program_of(folder)
    foreign = program.read(folder)
    config.model.update(foreign.fields)
    set_languages(config, foreign.languages)
    config.vocabulary.normalisation = ""
    with config.unlocked():
        config.update_from_flattened_dict(foreign.config)
    config.evaluate.weights = "best"
    names = ("source_vocab_size", "target_vocab_size")
    sizes = dict(zip(names, (len(order.pieces) for order in foreign.orders), strict=True))
    model = translation.model(config, sizes)
    expected = abstract_params(model, translation.example(config, 1))
    shapes = {path: x.shape for path, x in param_paths.flatten(expected).items()}
    params = program.read_params(folder, foreign, shapes)
    with drafts.new_folder(target) as written:
        vocab = vocabularies.write(written, config, foreign.vocabulary)
        config.vocabulary.fingerprint = vocab.fingerprint
        save(written, params, config)
    _log(folder, target, params)


def restore(config: ml_collections.ConfigDict, folder: Path, target: Path) -> None:
    """Writes a workdir from a folder of ours, which --mode=export has written as safetensors."""
    check_same(folder)
    config.evaluate.weights = "best"
    task = load_task(config.task)
    model = task.model(config, task.sizes(config, folder))
    expected = param_paths.flatten(abstract_params(model, task.example(config, 1)))
    with arrays.opened(folder) as source:
        params = {path: source.read(path, x.shape) for path, x in expected.items()}
        source.check_rest(params.keys(), lambda *_: "is no parameter of the model in config.json")
    with drafts.new_folder(target) as written:
        shutil.copytree(folder / "vocabulary", written / "vocabulary")
        save(written, params, config)
    _log(folder, target, params)


def check_same(folder: Path) -> None:
    """Raises UserError for a folder whose files are not those that --mode=export has written."""
    free = ("README.md", checksums.NAME)  # the vocabulary has a checksum file of its own
    read = lambda name: Path(name).name not in free and not name.startswith(".")
    corrupt = checksums.corrupt_files(folder, wanted=read, alone=True)
    if corrupt is None:
        raise UserError(f"{folder} lacks {checksums.NAME}, which --mode=export has written")
    if corrupt:
        raise UserError(
            f"{folder}: {', '.join(corrupt)} is not what --mode=export has written: a model that "
            "was changed there cannot be imported"
        )


def _log(folder: Path, target: Path, params: dict[str, np.ndarray]) -> None:
    number = quantity(sum(x.size for x in params.values()), "parameter")
    logging.info("imported %s into %s: %s", folder, target, number)


def program_of(folder: Path) -> ModuleType:
    """Returns what reads a folder; UserError, which says what can be imported, if nothing does."""
    known = (
        f"only Hugging Face's {', '.join(HUGGINGFACE)}, and what --mode=export writes with our "
        "config.json and vocabulary"
    )
    if not folder.is_dir():
        kind = "is a file" if folder.is_file() else "does not exist"
        raise UserError(f"{folder} {kind}: expected the folder of a model, {known}")
    if (folder / "model.bin").is_file():
        raise UserError(f"{folder} is written for CTranslate2, and cannot be read back: {known}")
    if not (file := folder / "config.json").is_file():
        raise UserError(f"{folder} has no config.json: {known} can be imported")
    kind = json_files.read_object(file).get("model_type")
    if kind not in [*HUGGINGFACE]:
        raise UserError(f"{file}: {known} can be imported, found model_type={kind!r}")
    return HUGGINGFACE[kind]


def set_languages(config: ml_collections.ConfigDict, named: tuple[str, str]) -> None:
    """Fills in the languages that the command line leaves empty, from those the model names."""
    for key, name in zip(("source_language", "target_language"), named, strict=True):
        fallback = key.removesuffix("_language")
        if not config.data[key] and not name:
            logging.warning(
                "the model does not name its %s language: config.data.%s=%r, the end of the names "
                "of text files; import with --config.data.%s=CODE for another",
                *(fallback, key, fallback, key),
            )
        config.data[key] = config.data[key] or name or fallback


def save(folder: Path, params: dict, config: ml_collections.ConfigDict) -> None:
    """Writes config.json, and params, {path: array}, as the best of a workdir."""
    workdir.write_config(config, folder)
    store.check_path(folder)
    tree = jax.tree.map(jax.numpy.asarray, param_paths.unflatten(params))
    (folder / BEST).mkdir(parents=True, exist_ok=True)
    with contextlib.closing(CheckpointStore(folder / BEST, (PARAMS,))) as best:
        best.save(IMPORTED, {PARAMS: tree})
        about = {"step": IMPORTED, "score": 0.0, "best_is": "highest"}
        best.complete(IMPORTED, {**about, "identity": load_task(config.task).identity(config)})
