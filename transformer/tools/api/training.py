"""Trains from Python."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict

from transformer.errors import UserError
from transformer.models import kernels
from transformer.modes import train as mode
from transformer.runtime import paths


def train(
    config: ConfigDict,
    workdir: str | Path,
    on_log: Callable[[dict[str, Any]], object] = lambda line: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any] | None:
    """Trains from the workdir's newest checkpoint, or from scratch; returns the test set's result.

    As --mode=train, but no signal is handled. `on_log` gets each line of metrics.jsonl, such as
    {"kind": "train", "step": 100, "loss": 3.2, ...}. Once `should_stop()`, called after every step,
    is true, the run is saved and returns None: the same call goes on from there. UserError for a
    mistake in the config.
    """
    if not isinstance(config, ConfigDict):
        raise UserError(f"expected a config, as of transformer.config, found {config!r:.80}")
    kernels.use(config.kernels)
    signals = lambda: contextlib.nullcontext(should_stop)
    _, result = mode.run(config, paths.path(str(workdir)), signals, on_log)
    return result
