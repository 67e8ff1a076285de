"""--mode=export: writes a trained model in the format of another program."""

import logging
from pathlib import Path
from typing import Any

import jax
import numpy as np
from ml_collections import ConfigDict

from transformer.checkpoints import weights
from transformer.errors import UserError, quantity
from transformer.runtime import checksums, paths
from transformer.tasks import saved_model, vocabularies
from transformer.tools.convert import arrays, ctranslate2_write, marian, model_card, new_folders
from transformer.tools.convert.marian_config import rules_of
from transformer.workdir import saved_config


def export(config: ConfigDict, folders: tuple[Path, Path]) -> None:
    """Writes the FOLDER of (FOLDER, WORKDIR), with the params that config.evaluate.weights selects.

    A draft is written beside it, and renamed at the end.
    """
    folder, source = folders
    check(config, folder)
    run = saved_model.load(config, source)
    with new_folders.new_folder(folder) as draft:
        write(draft, config, source, run)
        card = model_card.text(config, source, run, folder)
        (draft / "README.md").write_text(card, "utf-8")
        # Last, because the checksums are those of all files so far.
        (draft / checksums.NAME).write_bytes(checksums.checksums_of(draft))
    number = quantity(sum(x.size for x in jax.tree.leaves(run.params)), "parameter")
    logging.info("exported step %d of %s into %s: %s", run.step, source, folder, number)


def check(config: ConfigDict, folder: Path) -> None:
    """Raises UserError if the run cannot be exported, before loading it."""
    options = config.export
    if options.quantization != "float32" and options.format != "ctranslate2":
        raise UserError("config.export.quantization is for config.export.format=ctranslate2 only")
    if config.evaluate.ensemble:
        raise UserError("--mode=export needs a single model: leave config.evaluate.ensemble empty")
    if "vocabulary" not in config:
        raise UserError(f"--mode=export needs a vocabulary, and the task {config.task!r} has none")
    for key, exported in (("architecture", "transformer"), ("task", "translation")):
        if options.format != "safetensors" and config[key] != exported:
            raise UserError(
                f"config.{key}={config[key]!r} cannot be exported as {options.format}: "
                "use --config.export.format=safetensors"
            )
    new_folders.check_new(folder)


def write(folder: Path, config: ConfigDict, source: Path, run: saved_model.SavedModel) -> None:
    """Writes the files of config.export.format."""
    params = {x: np.asarray(y, np.float32) for x, y in weights.flatten(run.params).items()}
    if config.export.format == "safetensors":
        arrays.write(folder / "model.safetensors", params)
        _write_run(folder, config, source)
        return
    vocabulary = vocabularies.read(source, config)
    # The maximum length of an output in pieces. A source has at most decode.max_length.
    longest = config.decode.max_length + config.decode.extra_length
    if config.export.format == "huggingface":
        languages = config.data.source_language, config.data.target_language
        generation = _generation(config, longest)
        marian.write(folder, run.model, params, vocabulary, generation, languages, longest)
        return
    for name, side in vocabulary.sides.items():
        (folder / f"{name}.spm").write_bytes(side.processor.serialized_model_proto())
    pieces = [side.pieces(range(len(side))) for side in vocabulary]
    ctranslate2_write.write(folder, run.model, params, pieces, config.export.quantization, longest)


def _write_run(folder: Path, config: ConfigDict, source: Path) -> None:
    """Writes the files that --mode=import needs besides the params.

    They are the run's config.json, without the folder of its data, and its vocabulary.
    """
    config = config.copy_and_resolve_references().unlock()  # the command line's is locked
    del config.export  # no run reads these keys
    # A folder of this machine says nothing on the machine that imports.
    config.data.directory = ""
    saved_config.write_config(config, folder)
    for name in paths.files(source / "vocabulary"):  # of a bucket, perhaps
        paths.write_file(folder / "vocabulary" / name, (source / "vocabulary" / name).read_bytes())


def _generation(config: ConfigDict, longest: int) -> dict[str, Any]:
    """Returns the options of Marian's `generate` (generation_config.json) for this run's search."""
    decode = config.decode
    if decode.length_penalty == "gnmt":
        logging.warning("export: hypotheses are ranked as by decode.length_penalty=power there")
    return {
        "num_beams": decode.beam_width,
        "length_penalty": decode.length_alpha if decode.length_penalty != "none" else 0.0,
        # True: a search ends once `num_beams` hypotheses are finished.
        "early_stopping": decode.stopping == "full",
        # `generate` counts the start symbol.
        "min_length": decode.min_length and decode.min_length + 1,
        "max_length": config.export.max_length or longest,
        **rules_of(decode.rules),
    }
