"""A Transformer that compiles in a second, its training, and batches, packed or not."""

import functools

import jax
import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict
from helpers import layers

from configs import wmt_base
from transformer.distributed import parallel_step
from transformer.distributed.layout import state_shardings
from transformer.distributed.parallel_step import compile_step
from transformer.models import fields
from transformer.models.transformer import Transformer
from transformer.tasks import losses
from transformer.training import optimizer, update
from transformer.training.update import init_state

PAD, START = 0, 1
VOCABULARY = 13

# Compiling takes most of a test's time, and half as long without optimisation.
jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})

# The paper's options in small; key and value sizes differ, so that nothing passes by equality.
ARGUMENTS = {
    **wmt_base.get_config().model,  # the paper's, but for
    "source_vocab_size": VOCABULARY,
    "target_vocab_size": VOCABULARY,
    "d_model": 16,
    "d_ff": 24,
    "num_heads": 2,
    "num_layers": 2,
    "key_size": 6,
    "value_size": 5,
    "max_positions": 32,
    "dropout_rate": 0.0,
}

# At its highest 0.0044, as the quickstart's. At this width's own, 0.125, steps make the differences
# that rounding leaves larger and larger, until two runs are two.
LEARNING_RATE = functools.partial(
    optimizer.inverse_square_root, d_model=16, warmup_steps=4, factor=0.035
)
PRE = {"residual": "pre", "final_norm": True}
SMOOTHING = {"label_smoothing": 0.1, "smoothed_over": "all_classes"}


def model(**changes):
    return fields.make(Transformer, **{**ARGUMENTS, **changes})


def shapes(model, inputs):
    """The shapes of a model's params; it is traced once for all inputs of the same shapes."""
    leaves, tree = jax.tree.flatten(inputs)
    return _shapes(model, tree, tuple((x.shape, x.dtype) for x in leaves))


@functools.cache
def _shapes(model, tree, leaves):
    inputs = jax.tree.unflatten(tree, [jax.ShapeDtypeStruct(*x) for x in leaves])
    init = lambda inputs: model.init(jax.random.key(0), **inputs, train=False)
    return jax.eval_shape(init, inputs)["params"]


def forward_flops(model, params, inputs):
    """The FLOPs of the matrix products of a forward pass; nothing is computed."""
    return layers.products(_logits.trace(model, params, inputs).jaxpr.jaxpr)


@functools.partial(jit, static_argnums=0)
def output_and_gradients(function, gradient, *arrays):
    """Returns (function(*arrays), gradients of the arrays), for the `gradient` of the output."""
    output, backward = jax.vjp(function, *arrays)
    return output, *backward(gradient)


def parameters(model, inputs, seed=0):
    """Random values for every parameter, also where the first ones, 0 and 1, would hide faults."""
    random = np.random.default_rng(seed)

    def draw(path, leaf):
        noise = random.standard_normal(leaf.shape) * 0.3
        return (noise + (path[-1].key == "scale")).astype(leaf.dtype)

    return jax.tree_util.tree_map_with_path(draw, shapes(model, inputs))


def logits(model, params, inputs):
    """The logits of a compiled forward pass, without dropout."""
    return np.asarray(_logits(model, params, inputs))


@functools.partial(jit, static_argnums=0)
def _logits(model, params, inputs):
    return model.apply({"params": params}, **inputs, train=False)


def plain_logits(params, inputs):
    """The logits of the paper's model of one layer, with what `params` has of its params, too.

    None if one has another shape. LayerNorm has the scale of RMSNorm, and without a norm 1.
    """
    plain, params, shared = model(num_layers=1), flatten_dict(params), {}
    for path, leaf in flatten_dict(shapes(plain, inputs)).items():
        neutral = np.full(leaf.shape, path[-1] == "scale", np.float32)
        shared[path] = params.get(path, params.get((*path[:-2], "rms_norm", path[-1]), neutral))
        if shared[path].shape != leaf.shape:
            return None
    return logits(plain, unflatten_dict(shared), inputs)


def adam(clip_norm=0.0, schedule=LEARNING_RATE, eps=1e-9):
    arguments = {"b1": 0.9, "b2": 0.98, "eps": eps}
    return optimizer.make_optimizer(schedule, name="adam", clip_norm=clip_norm, arguments=arguments)


def first_state(layout, model, inputs, adam):
    """Of random parameters, where the step wants it."""
    state = init_state(parameters(model, inputs), adam)
    return jax.device_put(state, state_shardings(state, layout))


def train_step(layout, state, model, adam, accumulate=1, schedule=LEARNING_RATE):
    """The compiled step: (state, placed batch) -> (state, metrics)."""
    blocks = layout.mesh.size  # one for one device, more for more
    return compile_step(update_of(model, adam, accumulate, schedule, blocks), layout, state)


def update_of(model, adam, accumulate=1, schedule=LEARNING_RATE, blocks=1):
    """The step, which is not compiled yet."""
    return functools.partial(
        update.train_step,
        loss=functools.partial(losses.token_loss, model=model, blocks=blocks, **SMOOTHING),
        optimizer=adam,
        schedule=schedule,
        seed=0,
        accumulate=accumulate,
    )


def place(rows, layout):
    """A batch that is all there, as the step wants it."""
    part = lambda start, stop: jax.tree.map(lambda x: x[start:stop], rows)
    return parallel_step.shard_batch(part, len(rows["targets"]), layout)


def assert_same_bits(found, expected):
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        x, y = np.asarray(x), np.asarray(y)
        assert (x.dtype, x.shape, x.tobytes()) == (y.dtype, y.shape, y.tobytes())


def pairs(lengths=((5, 4), (3, 6), (4, 3)), seed=0):
    """Random sentence pairs of the given (source, target) lengths; ids of 2 and more."""
    random = np.random.default_rng(seed)
    sentence = lambda length: random.integers(2, VOCABULARY, length)
    return [(sentence(s), sentence(t)) for s, t in lengths]


def batch(rows, source_length, target_length):
    """A batch as data/pairs.py lays it out; a row is a list of pairs, packed in order."""
    S, T = (len(rows), source_length), (len(rows), target_length)
    inputs = {}
    for side, shape in (("source", S), ("target", T)):
        inputs |= {
            name: np.zeros(shape, np.int32)
            for name in (side, f"{side}_positions", f"{side}_segments")
        }
    targets = np.full(T, PAD, np.int32)
    for row, content in enumerate(rows):
        s = t = 0
        for segment, (source, target) in enumerate(content, start=1):
            shifted = np.concatenate([[START], target[:-1]])
            for side, ids, at in (("source", source, s), ("target", shifted, t)):
                here = row, slice(at, at + len(ids))
                inputs[side][here] = ids
                inputs[f"{side}_positions"][here] = np.arange(len(ids))
                inputs[f"{side}_segments"][here] = segment
            targets[row, t : t + len(target)] = target
            s, t = s + len(source), t + len(target)
    weights = (inputs["target_segments"] > 0).astype(np.float32)
    return {"inputs": inputs, "targets": targets, "weights": weights}


def unpacked(sentence_pairs, source_length=7, target_length=8):
    """One pair a row, padded."""
    return batch([[pair] for pair in sentence_pairs], source_length, target_length)
