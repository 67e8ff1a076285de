"""--mode=import: makes a workdir from a model that another program has trained."""

import contextlib
import logging
from pathlib import Path

import jax
import numpy as np
from ml_collections import ConfigDict

from transformer.checkpoints import store, weights
from transformer.errors import UserError, quantity
from transformer.runtime import checksums, paths
from transformer.tasks import vocabularies
from transformer.tasks.task import abstract_params, load_task
from transformer.tools.convert import arrays, marian, marian_tokenizer, new_folders
from transformer.workdir import key_tables, saved_config

# {path: array} of the params, and {name: content} of the files in WORKDIR/vocabulary
Imported = tuple[dict[str, np.ndarray], dict[str, bytes]]


def import_model(config: ConfigDict, folders: tuple[Path, Path]) -> None:
    """Writes the WORKDIR of (FOLDER, WORKDIR) atomically, from the model in FOLDER.

    The workdir is like a trained run's, with the params as its best checkpoint. It can evaluate,
    translate and export, and a new run can start from it (`train.init_from`).
    """
    folder, target = folders
    new_folders.check_new(target)
    # An imported workdir has no checkpoints/, which 'average' and 'latest' load.
    config.evaluate.weights = "best"
    read = read_exported if saved_config.is_exported(folder) else read_marian
    params, vocabulary = read(config, folder)
    with new_folders.new_folder(target) as draft:
        vocabularies.write_files(draft, vocabulary)
        save(draft, params, config)
    number = quantity(sum(x.size for x in params.values()), "parameter")
    logging.info("imported %s into %s: %s", folder, target, number)


def read_exported(config: ConfigDict, folder: Path) -> Imported:
    """Returns what --mode=export has written as safetensors; `config` is the exported run's."""
    check_same(folder)
    shapes = shapes_of(config, load_task(config.task).sizes(config, folder))
    with arrays.opened(folder) as source:
        params = {path: source.read(path, shape) for path, shape in shapes.items()}
        source.check_rest(params.keys(), lambda *_: "is not a parameter of config.json's model")
    vocabulary = folder / "vocabulary"
    return params, {name: (vocabulary / name).read_bytes() for name in paths.files(vocabulary)}


def read_marian(config: ConfigDict, folder: Path) -> Imported:
    """Returns Hugging Face's Marian; sets the keys of `config` that describe the model."""
    check_marian(folder)
    foreign = marian.read(folder)
    config.model.update(foreign.fields)
    # The languages of the command line, or else the model's.
    named = marian_tokenizer.languages(folder)
    for side, name in zip(("source", "target"), named, strict=True):
        key = f"{side}_language"
        config.data[key] = config.data[key] or name or side
    config.update_from_flattened_dict(foreign.settings)
    key_tables.check(config, "import")
    source, target = (len(order.pieces) for order in foreign.orders)
    shapes = shapes_of(config, {"source_vocab_size": source, "target_vocab_size": target})
    vocabulary = vocabularies.load(config, foreign.vocabulary, folder)
    config.vocabulary.fingerprint = vocabulary.fingerprint
    return marian.read_params(folder, foreign, shapes), foreign.vocabulary


def shapes_of(config: ConfigDict, sizes: dict[str, int]) -> dict[str, tuple[int, ...]]:
    """Returns {path: shape} of the params of a config's model."""
    task = load_task(config.task)
    params = abstract_params(task.model(config, sizes), task.example(config, 1))
    return {path: x.shape for path, x in weights.flatten(params).items()}


def check_same(folder: Path) -> None:
    """Raises UserError if files of a folder differ from those that --mode=export has written."""
    # Unread files may change: the model card, and hidden files such as .gitattributes. The
    # vocabulary has its own checksum file.
    unread = ("README.md", checksums.NAME)
    is_read = lambda name: Path(name).name not in unread and not name.startswith(".")
    corrupt = checksums.corrupt_files(folder, wanted=is_read, alone=True)
    if corrupt != []:
        raise UserError(
            f"{folder}: {', '.join(corrupt or [checksums.NAME])} is not what --mode=export wrote"
        )


def check_marian(folder: Path) -> None:
    """Raises UserError, naming the formats to import, unless a folder holds a Marian model."""
    file = folder / "config.json"
    kind = paths.read_json_object(file).get("model_type") if file.is_file() else "no such file"
    if kind != "marian":
        raise UserError(
            f"{file}: only Hugging Face's marian, and what --mode=export writes as safetensors, "
            f"can be imported, found {kind!r}"
        )


def save(folder: Path, params: dict[str, np.ndarray], config: ConfigDict) -> None:
    """Writes config.json, and the params as the best checkpoint of a workdir."""
    saved_config.write_config(config, folder)
    store.check_path(folder)
    tree = jax.tree.map(jax.numpy.asarray, weights.unflatten(params))
    with contextlib.closing(store.CheckpointStore(folder / store.BEST)) as best:
        best.save(store.IMPORTED, {store.PARAMS: tree})
        # No validation has scored these params: 0.0 is a placeholder, the only score in best/.
        identity = load_task(config.task).identity(config)
        best.complete(store.IMPORTED, {"score": 0.0, "best_is": "highest", "identity": identity})
