"""The Transformers keep their parameters' paths, first values and function: checkpoints load.

The values are those of the commit before the fields of all Transformers became one record.
"""

import hashlib
import importlib

import flax.traverse_util
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tiny

from transformer import registry
from transformer.models import fields as model_fields

SMALL = {"d_model": 16, "d_ff": 24, "num_heads": 2, "num_layers": 2, "dropout_rate": 0.1}
PLACES = np.broadcast_to(np.arange(6), (2, 6))
SEGMENTS = np.array([[1, 1, 1, 2, 2, 0], [1, 1, 1, 1, 1, 1]])
IDS = (PLACES * 5 + 4) % 11 * (SEGMENTS > 0)
# {task: (sizes, inputs, digest of the params' paths and shapes, norm of their values, loss)}
GOLDEN = {
    "translation": (
        {"source_vocab_size": 11, "target_vocab_size": 11},
        (IDS, IDS, PLACES, PLACES, SEGMENTS, SEGMENTS),
        "5e9143de636dd3f4",
        26.53619,
        9.794507,
    ),
    "language_modelling": (
        {"vocab_size": 11},
        (IDS, PLACES, SEGMENTS),
        "ef668df311349bfd",
        23.49416,
        11.52936,
    ),
    "masked_language": (
        {"vocab_size": 11, "mask_share": 0.15},
        (IDS, PLACES[:, :2], PLACES, SEGMENTS),
        "a012ebc20173538e",
        21.53462,
        10.70605,
    ),
    "image_classification": (
        {"num_classes": 3, "image_size": 32},
        (np.arange(2 * 32 * 32 * 3).reshape(2, 32, 32, 3) % 251,),
        "3762fee619267afc",
        17.52357,
        1.241442,
    ),
}


@pytest.mark.parametrize("name", [name for name in GOLDEN if name in registry.TASKS])
def test_paths_first_values_and_loss_stay(name):
    sizes, inputs, digest, norm, loss = GOLDEN[name]
    config = importlib.import_module(f"configs.{name}").get_config()
    model = model_fields.build(config.architecture, {**config.model, **SMALL}, **sizes)
    keys = dict(zip(("params", "dropout"), jax.random.split(jax.random.key(0)), strict=True))
    params = jax.jit(lambda: model.init(keys, *inputs, train=False)["params"])()
    flat = flax.traverse_util.flatten_dict(params, sep="/")
    lines = sorted(f"{path} {x.dtype} {x.shape}" for path, x in flat.items())
    assert hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16] == digest
    assert np.sqrt(sum((x**2).sum() for x in flat.values())) == pytest.approx(norm, rel=1e-6)
    # A head begins with zeros.
    moved = lambda x: x + 0.1 * jnp.sin(jnp.arange(x.size)).reshape(x.shape)
    variables = {"params": jax.tree.map(moved, params)}
    rngs = {"dropout": keys["dropout"]}
    logits = tiny.jit(lambda x: model.apply(x, *inputs, train=True, rngs=rngs))(variables)
    assert jnp.square(jax.nn.log_softmax(logits)).mean() == pytest.approx(loss, rel=1e-5)
