"""--mode=import: makes a workdir of a model that another program has trained."""

import contextlib
import logging
import shutil
import tempfile
from pathlib import Path
from types import ModuleType

import jax
import ml_collections
import numpy as np

from transformer.checkpoints import param_paths, store
from transformer.checkpoints.store import BEST, IMPORTED, PARAMS, CheckpointStore
from transformer.errors import UserError, quantity
from transformer.runtime import drafts, json_files
from transformer.tasks import translation
from transformer.tasks.task import abstract_params, load_task
from transformer.tools.convert import (
    arrays,
    ctranslate2_read,
    export,
    gpt2,
    marian,
    megatron_bert,
    vit,
)
from transformer.workdir import workdir
from transformer.workdir.config_files import exported_run

# {model_type of a config.json: what reads such a folder of Hugging Face's}
HUGGINGFACE = {"marian": marian}
# {config.architecture: what reads the arrays of it that --mode=export has written in another form}
EXPORTED = {
    "language_model": gpt2,
    "masked_language_model": megatron_bert,
    "vision_transformer": vit,
}


def import_model(config: ml_collections.ConfigDict, folders: tuple[Path, Path]) -> None:
    """Writes WORKDIR, of (FOLDER, WORKDIR), from the model in FOLDER: whole, or nothing.

    The workdir is one like a trained run's, with its params as the best validation. It can be
    evaluated, translated with, exported, and be what a new run starts from (`train.init_from`).
    """
    folder, target = folders
    drafts.check_new(target)
    if run := exported_run(folder):
        restore(config, folder, run, target)
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
        files = workdir.vocabulary_files(written, config)
        contents = [foreign.vocabulary[file.name] for file in files]
        vocab = workdir.write_vocabulary(written, config, contents)
        config.vocabulary.fingerprint = vocab.fingerprint
        save(written, params, config)
    _log(folder, target, params)


def restore(config: ml_collections.ConfigDict, folder: Path, run: Path, target: Path) -> None:
    """Writes a workdir from a folder of ours, which --mode=export has written.

    `run` is where its config.json and vocabulary are.
    """
    config.evaluate.weights = "best"
    task = load_task(config.task)
    model = task.model(config, task.sizes(config, run))
    expected = param_paths.flatten(abstract_params(model, task.example(config, 1)))
    shapes = {path: x.shape for path, x in expected.items()}
    with arrays.opened(folder) as source:
        file = source.file
        there = {name: source.read(name, shape) for name, shape in source.shapes.items()}
    program = EXPORTED.get(config.architecture) if run != folder else None
    try:
        params = program.params_of(model, there, shapes) if program else there
    except (KeyError, ValueError) as error:
        raise UserError(f"{file} has not the arrays of the model in {run}: {error}") from error
    if {path: x.shape for path, x in params.items()} != shapes:
        raise UserError(f"{file} has not the arrays of the model in {run}: other names or shapes")
    if program:
        check_same(folder, export.Source(config, run, model, params))
    with drafts.new_folder(target) as written:
        shutil.copytree(run / "vocabulary", written / "vocabulary")
        save(written, params, config)
    _log(folder, target, params)


def check_same(folder: Path, source: export.Source) -> None:
    """Raises UserError unless a folder holds what --mode=export writes of a model.

    So nothing in it that is not read, such as a table of sinusoids, makes it another model.
    """
    with tempfile.TemporaryDirectory() as place:
        expected = Path(place)
        export.HUGGINGFACE[source.config.architecture](expected, source)
        for file in expected.glob("*.json"):
            found, wanted = (json_files.read_object(x / file.name) for x in (folder, expected))
            keys = found.keys() | wanted.keys()
            if wrong := sorted(key for key in keys if found.get(key) != wanted.get(key)):
                raise UserError(
                    f"{folder / file.name}: {wrong[0]} is not what --mode=export has written: the "
                    "model has changed in a way that has no form here"
                )
        with arrays.opened(folder) as found, arrays.opened(expected) as wanted:
            for name in sorted({*found.shapes, *wanted.shapes}):
                same = found.shapes.get(name) == wanted.shapes.get(name)
                if not same or not np.allclose(found.load(name), wanted.load(name), atol=1e-6):
                    raise UserError(
                        f"{found.file}: {name} is not what follows from the other arrays, as in "
                        "what --mode=export writes: the model has changed in a way that has no "
                        "form here"
                    )


def _log(folder: Path, target: Path, params: dict[str, np.ndarray]) -> None:
    number = quantity(sum(x.size for x in params.values()), "parameter")
    logging.info("imported %s into %s: %s", folder, target, number)


def program_of(folder: Path) -> ModuleType:
    """Returns what reads a folder; UserError, which says what can be imported, if nothing does."""
    known = (
        f"only Hugging Face's {', '.join(HUGGINGFACE)}, CTranslate2's Transformer, and what "
        "--mode=export writes (with our config.json and vocabulary)"
    )
    if not folder.is_dir():
        kind = "is a file" if folder.is_file() else "does not exist"
        raise UserError(f"{folder} {kind}: expected the folder of a model, {known}")
    if (folder / "model.bin").is_file():
        return ctranslate2_read
    if not (file := folder / "config.json").is_file():
        raise UserError(f"{folder} has neither config.json nor model.bin: {known} can be imported")
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
