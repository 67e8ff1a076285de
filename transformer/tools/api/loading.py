"""A workdir -> a model to call; a config -> a trained workdir."""

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict

from transformer import registry
from transformer.errors import UserError
from transformer.models import kernels
from transformer.modes import command_line
from transformer.runtime import paths
from transformer.workdir import config_files, key_tables

# {config.task: the class of its models}
KINDS = {
    "translation": "transformer.tools.api.trained_models:TranslationModel",
    "language_modelling": "transformer.tools.api.trained_models:LanguageModel",
    "classification": "transformer.tools.api.trained_models:Classifier",
    "image_classification": "transformer.tools.api.trained_models:Classifier",
}


def load(workdir: str | Path, changes: Mapping[str, Any] | None = None) -> Any:
    """Returns a trained run's model: a TranslationModel, a LanguageModel or a Classifier.

    `changes` are keys of its config, such as {"decode.beam_width": 8, "evaluate.weights": "best"}.
    UserError for a folder without a run, for a key that is unknown or that the params depend on,
    and for another task.
    """
    folder, arguments = paths.path(str(workdir)), as_arguments(changes)
    config = command_line.trained_config(folder, arguments)
    config = command_line.set_keys(config, arguments)
    kernels.use(config.kernels)
    if config.task not in KINDS:
        raise UserError(
            f"{folder} was trained on the task {config.task!r}: expected one of {', '.join(KINDS)}"
        )
    return registry.load(KINDS[config.task]).from_run(config, folder)


def config(name: str | Path, changes: Mapping[str, Any] | None = None) -> ConfigDict:
    """Returns the config of a FILE, of a NAME in configs/ or of a module, with `changes`.

    config("multi30k_rnn:dot", {"train.num_steps": 1000}) is --config=multi30k_rnn:dot
    --config.train.num_steps=1000.
    """
    return command_line.set_keys(config_files.load_config(str(name)), as_arguments(changes))


def train(
    config: ConfigDict,
    workdir: str | Path,
    on_log: Callable[[dict[str, Any]], object] = lambda line: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any] | None:
    """Trains from the workdir's newest checkpoint, or from scratch; returns the test set's result.

    It works as --mode=train, but handles no signals. `on_log` gets each line of metrics.jsonl, such
    as {"kind": "train", "step": 100, "loss": 3.2, ...}. `should_stop()` is called after every step;
    once it is true, the run saves and returns None, and the same call resumes. UserError for a
    mistake in the config.
    """
    if not isinstance(config, ConfigDict):
        raise UserError(f"expected a config, as of transformer.config, found {config!r:.80}")
    key_tables.check(config)  # the caller may have set any of its keys
    kernels.use(config.kernels)
    signals = lambda: contextlib.nullcontext(should_stop)
    from transformer.modes import train as mode  # Orbax takes a second to import

    _, result = mode.run(config, paths.path(str(workdir)), signals, on_log)
    return result


def as_arguments(changes: Mapping[str, Any] | None) -> list[str]:
    """Returns {"train.num_steps": 9} as ["--config.train.num_steps=9"]."""
    if not isinstance(changes, Mapping | None) or any(x is None for x in (changes or {}).values()):
        raise UserError(f'expected changes such as {{"train.num_steps": 9}}, found {changes!r:.80}')
    return [f"--config.{key}={value}" for key, value in (changes or {}).items()]
