"""--mode=export: writes a trained model in the format of another program."""

import logging
import shlex
import shutil
from pathlib import Path
from typing import NamedTuple

import flax.linen as nn
import jax
import ml_collections
import numpy as np

from transformer.checkpoints import param_paths, store
from transformer.data.vocabulary import Vocabulary
from transformer.errors import UserError, check_values, quantity
from transformer.runtime import checksums, drafts
from transformer.tasks import trained, vocabularies
from transformer.tools.convert import arrays, ctranslate2_write, marian, model_card
from transformer.tools.pages import measures
from transformer.workdir import log, results, workdir

FORMATS = ("huggingface", "ctranslate2", "safetensors")


class Source(NamedTuple):
    """A trained model, to be written in another format."""

    config: ml_collections.ConfigDict
    workdir: Path
    model: nn.Module
    params: dict[str, np.ndarray]  # by path

    @property
    def vocabulary(self) -> Vocabulary:
        return vocabularies.read(self.workdir, self.config)


def export(config: ml_collections.ConfigDict, folders: tuple[Path, Path]) -> None:
    """Writes FOLDER, of (FOLDER, WORKDIR), with the params that config.evaluate.weights selects.

    A folder is whole or not there: it is written beside its place, and renamed at the end.
    """
    folder, source = folders
    check(config, folder)
    run = trained.load(config, source)
    params = {
        path: np.asarray(array, np.float32)
        for path, array in param_paths.flatten(run.params).items()
    }
    with drafts.new_folder(folder) as written:
        write(written, Source(config, source, run.model, params))
        card = card_of(config, source, run, folder)
        (written / "README.md").write_text(card, "utf-8")
        (written / checksums.NAME).write_bytes(checksums.checksums_of(written))
    logging.info(
        "exported step %d of %s into %s: %s",
        *(run.step, source, folder),
        quantity(sum(array.size for array in params.values()), "parameter"),
    )


def check(config: ml_collections.ConfigDict, folder: Path) -> None:
    """Raises UserError for what cannot be exported, before anything is loaded."""
    options = config.export
    quantizations = ctranslate2_write.QUANTIZATIONS
    check_values("export", options, {"format": FORMATS, "quantization": quantizations})
    if options.quantization != "float32" and options.format != "ctranslate2":
        raise UserError(
            "config.export.quantization goes with config.export.format=ctranslate2 only"
        )
    if config.evaluate.ensemble:
        raise UserError("--mode=export needs a single model: leave config.evaluate.ensemble empty")
    if options.format != "safetensors" and config.architecture != "transformer":
        raise UserError(
            f"config.architecture={config.architecture!r} has no form in {options.format}: use "
            "--config.export.format=safetensors"
        )
    drafts.check_new(folder)


def write(folder: Path, source: Source) -> None:
    """Writes the files of config.export.format."""
    config = source.config
    if config.export.format == "huggingface":
        _marian(folder, source)
    elif config.export.format == "safetensors":
        arrays.write(folder / "model.safetensors", source.params)
        write_run(folder, source)
    else:
        _ctranslate2(folder, source)


def write_run(folder: Path, source: Source) -> None:
    """Writes what --mode=import restores the workdir from, besides the params.

    These are the run's config.json, without the folder of its data, and its vocabulary.
    """
    values = source.config.copy_and_resolve_references().to_dict()
    values.pop("export", None)  # which no run reads
    config = ml_collections.ConfigDict(values)
    config.data.directory = ""
    workdir.write_config(config, folder)
    shutil.copytree(source.workdir / "vocabulary", folder / "vocabulary")


def _ctranslate2(folder: Path, source: Source) -> None:
    config, vocabulary = source.config, source.vocabulary
    ctranslate2_write.write(
        folder,
        source.model,
        source.params,
        [side.pieces(range(len(side))) for side in vocabulary],
        quantization=config.export.quantization,
        positions=config.decode.max_length + config.decode.extra_length,
    )
    for name, side in vocabulary.sides.items():
        (folder / f"{name}.spm").write_bytes(side.processor.serialized_model_proto())


def _marian(folder: Path, source: Source) -> None:
    decode = source.config.decode
    alpha = decode.length_alpha if decode.length_penalty != "none" else 0.0
    longest = decode.max_length + decode.extra_length
    imported = source.config.vocabulary.get("max_length", 0)
    generation = {
        **{"num_beams": decode.beam_width, "length_penalty": alpha},
        "early_stopping": decode.stopping == "full",
        "max_length": source.config.export.max_length or imported or longest,
    }
    data = source.config.data
    marian.write(
        *(folder, source.model, source.params, source.vocabulary, generation),
        languages=(data.source_language, data.target_language),
        longest=longest,
    )
    if decode.length_penalty == "gnmt":
        logging.warning(
            "export: generate divides log P by length^%g there, by ((5 + length) / 6)^%g here; "
            "config.decode.length_penalty=power is theirs",
            *(alpha, alpha),
        )


def card_of(
    config: ml_collections.ConfigDict, source: Path, run: trained.Trained, folder: Path
) -> str:
    """Returns the model card: data, sizes, steps and the last scores of the workdir."""
    data, languages = config.data, ()
    if config.task == "translation":
        languages = (data.source_language, data.target_language)
    if {"source", "target"} & {*languages}:  # an imported model that does not name its own
        languages = ()
    number = sum(x.size for x in jax.tree.leaves(run.params))
    files = [data.train] if not data.directory else [f"{data.train} in {Path(data.directory).name}"]
    text = f"`{data.corpus}` ({', '.join(files)})" if "corpus" in data else ", ".join(files)
    facts = {
        "parameters": f"{number:,}",
        "weights": f"{config.evaluate.weights}, of step {', '.join(map(str, run.steps))}",
        **{f"config.model.{key}": str(value) for key, value in config.model.items()},
        **{f"config.vocabulary.{key}": str(x) for key, x in config.vocabulary.items() if x != ""},
    }
    for result in log.read(source, results.NAME):
        signature = f" ({result['signature']})" if "signature" in result else ""
        facts[f"scores on {result['set']}"] = measures.in_words(result) + signature
    return model_card.text(
        name=folder.name,
        task=config.task,
        languages=languages,
        data="imported" if run.steps == [store.IMPORTED] else f"trained on\n{text}",
        licence=config.export.licence,
        facts=facts,
        command=command_of(config, source, folder),
    )


def command_of(config: ml_collections.ConfigDict, source: Path, folder: Path) -> str:
    """Returns the command that exports this folder once more."""
    options = {f"config.export.{key}": value for key, value in config.export.items()}
    options["config.evaluate.weights"] = config.evaluate.weights
    given = [f"--{key}={value}" for key, value in options.items() if value != ""]
    command = f"python launch.py --mode=export {folder.name} --workdir={source.name}".split()
    return shlex.join([*command, *given])
