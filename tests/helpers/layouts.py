"""A tiny model and its batches on layouts of up to eight devices."""

import functools

import numpy as np
from helpers import tiny

from transformer.distributed import layout
from transformer.tasks import task

ADAM = tiny.adam()


@functools.cache
def model(**changes):
    return tiny.model(num_layers=1, **changes)


def batch(seed, num_rows, rows_per_device=2):
    """A batch whose rows have very different numbers of tokens on eight devices: one has none."""
    random = np.random.default_rng(seed)
    rows = []
    for row in range(16):
        count = (row // rows_per_device) % 4
        rows.append(tiny.pairs(random.integers(1, 1 + 2 * count, (count, 2)).tolist(), seed=row))
    return tiny.batch([*rows, *[[]] * (num_rows - len(rows))], 18, 20)


def layout_of(strategy, num_devices, mesh=(0, 1, 1)):
    return layout.make_layout(strategy, mesh, num_devices)


def init(model):
    """Returns a function from a key to a model's params, as a task has it."""
    return functools.partial(task.init_params, model, batch(0, 16))


def step(layout, state, accumulate=1, **changes):
    return tiny.train_step(layout, state, model(**changes), ADAM, accumulate)


def first_state(layout, **changes):
    return tiny.first_state(layout, model(**changes), batch(0, 16)["inputs"], ADAM)
