"""What a run has left in its workdir, and the environment of a run of its own."""

import os
import struct
from pathlib import Path

import jax
import numpy as np
from tensorboardX.proto.event_pb2 import Event, SessionLog

from transformer.tasks import losses, saved_model, translation
from transformer.workdir.log import read
from transformer.workdir.saved_config import read_config

ROOT = Path(__file__).resolve().parents[2]
# The environment of a process with one device, which computes a part of what eight do.
FLAGS = os.environ["XLA_FLAGS"].replace("device_count=8", "device_count=1")
ONE_DEVICE = {**os.environ, "XLA_FLAGS": FLAGS}

TIMES = {"tokens_per_second", "step_seconds", "waiting", "seconds_left"}
SUMS = ("loss", "nats_per_token", "accuracy", "weight")  # of losses.cross_entropy
MEANS = {*SUMS, "perplexity"} - {"weight"}
TRAIN_KEYS = (
    TIMES | MEANS | {*("kind", "step", "learning_rate", "gradient_norm", "padding", "skipped")}
)
VALIDATION_KEYS = MEANS | {
    *("kind", "step", "bleu", "chrf", "length_ratio", "signature", "samples")
}
FINAL_KEYS = VALIDATION_KEYS - {"samples"} | {
    *("set", "split", "weights", "ensemble", "sentences", "checksum")
}


def newest(workdir, weights="latest"):
    """The newest step, or the best, and its parameters, on one device."""
    config = read_config(workdir)
    config.evaluate.update(weights=weights, average_last=1)
    run = saved_model.load(config, workdir)
    return run.step, jax.tree.map(np.asarray, run.params)


def without_times(workdir):
    """The lines of metrics.jsonl, as far as they are the same for every run."""
    return [
        {name: value for name, value in line.items() if name not in TIMES} for line in read(workdir)
    ]


def translate_nothing(patch):
    """Makes evaluations take the references for the translations."""

    def evaluator(*arguments):
        real = made(*arguments)

        def score(params):
            sums = dict.fromkeys(SUMS, 1.0)
            references = real.dataset["reference"]
            scores = translation.score(references, [references], tokenize="13a")
            return {**losses.per_token(sums), **scores}, real.dataset | {"hypothesis": references}

        return real._replace(score=score, rehearse=lambda params: None)

    made = translation.evaluator
    patch.setattr(translation, "evaluator", evaluator)


def scalars(workdir):
    """What TensorBoard shows, {(tag, step): value}: where a run went on, later steps are purged.

    Its files are records of length (8 bytes), checksum (4), an Event, checksum (4).
    """
    found = {}
    for path in sorted((workdir / "tensorboard").iterdir()):
        content = path.read_bytes()
        while len(content) > 12:  # less is what a killed process left of a record
            (length,) = struct.unpack("<Q", content[:8])
            event = Event.FromString(content[12 : 12 + length])
            content = content[16 + length :]
            if event.session_log.status == SessionLog.START:
                found = {name: value for name, value in found.items() if name[1] < event.step}
            for value in event.summary.value:
                if value.HasField("simple_value"):
                    found[value.tag, event.step] = value.simple_value
    return found


def assert_tensorboard_is_metrics(workdir, complete_after=0):
    """A killed run may have lost its last second of points: those up to `complete_after`."""
    expected = {
        (f"{line['kind']}/{name}", line["step"]): value
        for line in read(workdir)
        for name, value in line.items()
        if isinstance(value, int | float) and name != "step"
    }
    assert expected
    found = scalars(workdir)
    assert found.keys() <= expected.keys()
    assert {step for _, step in expected.keys() - found.keys()} <= set(range(complete_after + 1))
    for name, value in found.items():
        assert value == np.float32(expected[name])
