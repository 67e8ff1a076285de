"""A task that is none of translation's: a linear layer learns to sum eight numbers.

It has all that transformer/tasks/__init__.py asks of a task, and no key of translation's.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from transformer.data.batches import Batches
from transformer.data.packing import Rows
from transformer.tasks import losses
from transformer.tasks.evaluation import Evaluation
from transformer.tasks.task import make_task

CONFIG = '''"""The toy task: python launch.py --config=configs/toy.py"""

from ml_collections import ConfigDict

from configs import _keys, _run

KEYS = {**_run.KEYS, "task": "toy", "model.features": [1, "at least 1"], "data.count": 64}


def get_config() -> ConfigDict:
    config = _keys.make(KEYS)
    config.compilation_cache = ""
    config.optimizer.name = "sgd"
    config.optimizer.arguments = ConfigDict()
    config.optimizer.schedule = ConfigDict({"name": "constant_schedule", "value": 0.02})
    config.evaluate.weights = "best"
    return config
'''

FREE = ()
SCORE = {"best_by": "error", "best_is": "lowest", "unit": "item"}


class Linear(nn.Module):
    features: int

    @nn.compact
    def __call__(self, numbers, *, train):
        return nn.Dense(self.features, name="inner")(numbers)[:, 0]


def check(config):
    pass


def prepare(config, workdir, saved_config):
    return config


def identity(config):
    return {}


def sizes(config, workdir):
    return {}


def model(config, sizes):
    return Linear(**config.model)


def example(config, rows):
    numbers = jax.ShapeDtypeStruct((rows or 16, 8), jnp.float32)
    row = jax.ShapeDtypeStruct(numbers.shape[:1], jnp.float32)
    return {"inputs": {"numbers": numbers}, "targets": row, "weights": row}


def assemble(items, row_of_item, shape, key):
    """Each item's eight numbers are its own; what is asked is their sum."""
    numbers, weights = np.zeros((shape[0], 8), np.float32), np.zeros(shape[0], np.float32)
    for item, row in zip(items, row_of_item, strict=True):
        numbers[row], weights[row] = np.random.default_rng(int(item)).standard_normal(8), 1
    return {"inputs": {"numbers": numbers}, "targets": numbers.sum(axis=1), "weights": weights}


def loss(config, model):
    def squared_error(params, batch, *, rng):
        predicted, sown = losses.forward(model, params, batch, train=True)
        return losses.with_sown(sums(predicted, batch), sown)

    return squared_error


def sums(predicted, batch):
    error = (predicted - batch["targets"]) ** 2 * batch["weights"]
    return {"loss": error.sum(), "weight": batch["weights"].sum()}


def evaluator(config, workdir, model, split):
    batch = assemble(np.arange(1000, 1032), np.arange(32), (32, 1), ())

    def score(params):
        predicted, _ = losses.forward(model, params, batch, train=False)
        error = sums(predicted, batch)
        return {"error": float(error["loss"] / error["weight"])}, {}

    return Evaluation(
        split=split,
        files=[],
        dataset={},
        settings={},
        columns={},
        score=score,
        rehearse=score,
        rows=lambda scores: {"error": f"{scores['error']:.3f}"},
    )


def build(config, workdir):
    count = config.data.count
    rows = Rows(1, np.arange(count), np.arange(count + 1))
    batches = Batches([rows], 16, config.train.seed, assemble)
    return make_task(config, workdir, {}, batches, f"{count} items")
