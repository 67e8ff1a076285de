"""What a run logs of its steps."""

import logging
from typing import Any

import flax.linen as nn
import jax
from ml_collections import ConfigDict

from transformer.data import batches
from transformer.distributed.layout import Layout, bytes_per_device
from transformer.models.flops import step_flops
from transformer.models.transformer import Transformer
from transformer.monitoring import anomalies, progress
from transformer.monitoring.devices import peak
from transformer.monitoring.log import Log
from transformer.monitoring.progress import Progress
from transformer.tasks import losses
from transformer.training import update

Tree = Any


def record(
    step: int,
    sums: dict,
    log: Log,
    progress: Progress,
    watching: anomalies.Watch,
    every: int,
) -> None:
    """Takes note of a finished step, and logs every so many, but those without numbers."""
    sums = {name: float(value) for name, value in sums.items()}
    progress.advance()
    if watching.sees(step, sums) and step % every == 0:
        times = progress.lap()
        values = {
            **losses.per_token(sums),
            "learning_rate": sums["learning_rate"],
            "gradient_norm": sums["gradient_norm"],
            "left_out": int(sums["left_out"]),
            "padding": 1 - sums["tokens"] / sums["positions"],
            "tokens_per_second": sums["tokens"] / times["step_seconds"],
            **times,
        }
        if sums["least_seconds"]:
            values["share_of_peak"] = sums["least_seconds"] / times["step_seconds"]
        log.write("train", step, values)
        progress.show(values)


def note(step: int, scores: dict, sample: str, best: bool, log: Log) -> None:
    """Takes note of a validation."""
    log.write("validation", step, {**scores, "samples": sample})
    logging.info(
        "step %d: validation BLEU %.2f%s, chrF %.2f, loss %.4f, perplexity %.3f\n\n%s",
        *(step, scores["bleu"], " (best so far)" if best else "", scores["chrf"]),
        *(scores["loss"], scores["perplexity"], sample),
    )


def describe(
    config: ConfigDict,
    state: update.TrainState,
    training: batches.Batches,
    layout: Layout,
) -> None:
    """Says what is about to run."""
    source, target = batches.filled(training)
    params = progress.counted(sum(x.size for x in jax.tree.leaves(state.parameters)), "parameter")
    logging.info(
        "%s in %s, the state %.1f MB a device; %s, %s (%s), %s, (data, fsdp, tensor) = %s",
        *(params, config.model.dtype, bytes_per_device(state) / 1e6),
        progress.counted(jax.process_count(), "process", "processes"),
        progress.counted(layout.mesh.size, "device"),
        *(jax.devices()[0].device_kind, layout.strategy, tuple(layout.mesh.shape.values())),
    )
    logging.info(
        "%d batches an epoch of %d target positions, %.1f %% of them and %.1f %% of the source's "
        "filled",
        *(len(training), config.data.batch_tokens, 100 * target, 100 * source),
    )


def least_seconds(model: nn.Module, rows: int, length: int) -> float:
    """How long a step would take at the peak of all devices; 0 if that is not known.

    A batch has `rows` of `length` positions a side. Only the Transformer's FLOPs are known.
    """
    devices = jax.devices()
    flops = len(devices) * peak(devices[0].device_kind)
    if not flops or not isinstance(model, Transformer):
        return 0.0
    return step_flops(model, rows, length, length) / flops
