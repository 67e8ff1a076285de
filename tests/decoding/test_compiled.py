"""The jitted stages: params are cast, and each row draws by its numbers."""

import jax
import numpy as np
import pytest
from helpers import tiny

from transformer.decoding import compiled
from transformer.models import cache


class Model:
    """Encodes ids as themselves."""

    @staticmethod
    def apply(variables, source, mask_or_positions, *sizes, method, train=False):
        if method == "encode":
            return source
        return source, cache.Cache([], cache.empty_ancestry(len(source), *sizes))


MODEL = Model()


def test_params_are_cast_but_for_vectors():
    params = {"matrix": np.ones((2, 3), np.float32), "vector": np.ones(3, np.float32)}
    cast = compiled.cast_params(params, tiny.model(dtype="bfloat16"))
    assert jax.tree.map(lambda x: x.dtype.name, cast) == {"matrix": "bfloat16", "vector": "float32"}
    tiny.assert_same_bits(compiled.cast_params(params, tiny.model()), params)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_row_s_random_key_is_of_its_numbers_alone(seed):
    def keys_of(numbers, seed):
        sizes = {"num_beams": 2, "source_length": 16, "room": 4, "seed": seed}
        arrays = np.ones((len(numbers), 3), np.int32), np.array(numbers, np.int32)
        rng_B = compiled.start({}, *arrays, model=MODEL, **sizes)[2]
        return [tuple(key) for key in jax.random.key_data(rng_B).tolist()]

    keys = keys_of([[0, 1], [1, 0], [0, 1], [0, 0]], seed)
    assert keys[0] == keys[2]
    assert len(set(keys)) == 3
    assert keys_of([[0, 1]], seed + 1) != keys[:1]
