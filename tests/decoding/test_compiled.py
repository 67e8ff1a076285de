"""The jitted stages: params are cast."""

import jax
import numpy as np
from helpers import tiny

from transformer.decoding import compiled


def test_params_are_cast_but_for_vectors():
    params = {"matrix": np.ones((2, 3), np.float32), "vector": np.ones(3, np.float32)}
    cast = compiled.cast_params(params, tiny.model(dtype="bfloat16"))
    assert jax.tree.map(lambda x: x.dtype.name, cast) == {"matrix": "bfloat16", "vector": "float32"}
    tiny.assert_same_bits(compiled.cast_params(params, tiny.model()), params)
