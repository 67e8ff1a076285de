"""Checkpoints of a small random state, and damage to their files."""

import os

import jax
import numpy as np
import optax
from helpers import tiny

from transformer.checkpoints import manager, store, weights
from transformer.distributed import layout

VOCABULARY = "some pieces"
IDENTITY = {"vocabulary": VOCABULARY}
ADAM = optax.adam(0.1)
steps = store.all_steps


def state(seed):
    """Returns random (params, opt_state), with values that a cast would change."""
    random = np.random.default_rng(seed)
    draw = lambda *shape: random.standard_normal(shape, np.float32)
    parameters = {"embedding": {"embedding": draw(300, 16)}, "layer_0": {"kernel": draw(16, 2, 8)}}
    parameters["layer_0"]["bias"] = np.array([-0.0, 1e-45, np.inf, np.nan, 1 / 3], np.float32)
    whole = layout.make_layout("jit", num_devices=1).replicated
    optimizer_state = jax.tree.map(
        lambda x: draw(*x.shape) if x.ndim else np.int32(seed + 1), ADAM.init(parameters)
    )
    return jax.device_put((parameters, optimizer_state), whole)


def abstract(tree):
    whole = layout.make_layout("jit", num_devices=1).replicated
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=whole), tree)


def checkpoints_of(workdir, keep=1, every=1, identity=IDENTITY, best_is="highest"):
    options = {"keep": keep, "every": every, "identity": identity, "best_is": best_is}
    return manager.Checkpoints(workdir, **options)


def restore(checkpoints):
    return checkpoints.restore(*abstract(state(0)))


def assert_restores(checkpoints, step, seed=None):
    """Asserts that `step`, of state(seed), is restored bit for bit; returns the arrays."""
    restored_step, *restored = restore(checkpoints)
    assert restored_step == step
    tiny.assert_same_bits(tuple(restored), state(step if seed is None else seed))
    return restored


def load(workdir, which, average_last=3, vocabulary=VOCABULARY):
    options = {"weights": which, "average_last": average_last}
    return weights.load(workdir, abstract(state(0)[0]), {"vocabulary": vocabulary}, **options)


def contents(folder):
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "lock")
    return {path: path.read_bytes() for path in files}


def truncate(path):
    os.truncate(path, path.stat().st_size // 2)


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 16
    path.write_bytes(content)


def zero_a_block(path):
    content = bytearray(path.read_bytes())
    start = len(content) // 4
    block = max(1, min(512, len(content) // 2))
    content[start : start + block] = bytes(block)
    path.write_bytes(content)


def save_three_steps(workdir):
    """Saves steps 1, 2 and 3, of which 2 is the best."""
    checkpoints = checkpoints_of(workdir, keep=3)
    for step in (1, 2, 3):
        checkpoints.save(step, *state(step))
    checkpoints.save_best(2, state(2)[0], 5.0)
    checkpoints.close()
