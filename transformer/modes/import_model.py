"""--mode=import: makes a workdir of a model that another program has trained."""

import contextlib
import logging
from pathlib import Path
from types import ModuleType

import jax
import ml_collections

from transformer.checkpoints import param_paths, store, workdir
from transformer.checkpoints.store import BEST, PARAMS, CheckpointStore
from transformer.errors import UserError
from transformer.interop import ctranslate2_read, marian
from transformer.monitoring import progress
from transformer.storage import drafts, json_files
from transformer.tasks import translation
from transformer.tasks.task import abstract_params

STEP = 0  # the imported params have had no step of ours
# {model_type of a config.json: what reads such a folder of Hugging Face's}
HUGGINGFACE = {"marian": marian}


def import_model(config: ml_collections.ConfigDict, folders: tuple[Path, Path]) -> None:
    """Writes WORKDIR, of (FOLDER, WORKDIR), from the model in FOLDER: whole, or nothing.

    The workdir is one like a trained run's, with its params as the best validation. It can be
    evaluated, translated with, exported, and be what a new run starts from (`train.init_from`).
    """
    folder, target = folders
    drafts.check_new(target)
    program = program_of(folder)
    foreign = program.read(folder)
    config.model.update(foreign.fields)
    set_languages(config, foreign.languages)
    config.update_from_flattened_dict(foreign.config)
    config.vocabulary.normalisation = ""  # its SentencePiece models have their own
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
        workdir.write_config(config, written)
        save(written, params, config)
    logging.info(
        "imported %s into %s: %s",
        *(folder, target, progress.quantity(sum(x.size for x in params.values()), "parameter")),
    )


def program_of(folder: Path) -> ModuleType:
    """Returns what reads a folder; UserError, which says what can be imported, if nothing does."""
    known = f"only Hugging Face's {', '.join(HUGGINGFACE)} and CTranslate2's Transformer"
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
    """Writes params, {path: array}, as the best of a workdir."""
    store.check_path(folder)
    tree = jax.tree.map(jax.numpy.asarray, param_paths.unflatten(params))
    (folder / BEST).mkdir(parents=True, exist_ok=True)
    with contextlib.closing(CheckpointStore(folder / BEST, (PARAMS,))) as best:
        best.save(STEP, {PARAMS: tree})
        about = {"step": STEP, "score": 0.0, "best_is": "highest"}
        best.complete(STEP, {**about, "identity": translation.identity(config)})
