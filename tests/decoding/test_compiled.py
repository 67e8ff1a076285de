"""The jitted stages, with a model of a few lines."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tiny

from transformer.data import tokenizer
from transformer.data.tokenizer import PAD
from transformer.decoding import compiled
from transformer.decoding.beam_search import Bounds
from transformer.models import cache


class Model:
    """Encodes ids as themselves; its memory and its cache say what it was given."""

    @staticmethod
    def apply(variables, *arguments, method, train=False):
        if method == "encode":
            source, positions, segments = arguments
            return {"ids": source, "positions": positions, "segments": segments}
        memory, mask_BS, room, num_beams = arguments
        ancestry_BWP = cache.empty_ancestry(len(mask_BS), room, num_beams)
        return {**memory, "mask": mask_BS}, cache.Cache([], ancestry_BWP)


MODEL = Model()


def start(source_BS, keys, **changes):
    sizes = {"num_beams": 2, "source_length": 16, "room": 4, "seed": 0, **changes}
    return compiled.start({}, source_BS, np.array(keys, np.int32), model=MODEL, **sizes)


def test_params_are_cast_but_for_vectors():
    params = {"matrix": np.ones((2, 3), np.float32), "vector": np.ones(3, np.float32)}
    cast = compiled.cast_params(params, tiny.model(dtype="bfloat16"))
    assert jax.tree.map(lambda x: x.dtype.name, cast) == {"matrix": "bfloat16", "vector": "float32"}
    tiny.assert_same_bits(compiled.cast_params(params, tiny.model()), params)


def test_a_source_is_encoded_as_it_is_and_padded_after():
    """At any length of the encoder's input the decoder sees the same."""
    sources = [[7, 8, 9, 1], [5, 1]]
    memory, state, _ = start(tokenizer.padded(sources, 2, 4), [[0], [0]])
    real = np.arange(16) < np.array([[4], [2]])
    assert memory["ids"].tolist() == tokenizer.padded(sources, 2, 16).tolist()
    np.testing.assert_array_equal(memory["mask"], real)
    np.testing.assert_array_equal(memory["segments"], real)
    assert memory["positions"][0].tolist() == [0, 1, 2, 3] + [0] * 12
    assert state.tokens_BWT.shape == state.cache.ancestry_BWP.shape == (2, 2, 4)
    assert state.active_B.all()
    longer, _, _ = start(tokenizer.padded(sources, 2, 6), [[0], [0]])
    np.testing.assert_array_equal(longer["mask"], memory["mask"])


@pytest.mark.parametrize("seed", [0, 1])
def test_a_row_s_random_key_is_of_its_numbers_alone(seed):
    numbers = [[0, 1], [1, 0], [0, 1], [0, 0]]
    _, _, rng_B = start(np.ones((4, 3), np.int32), numbers, seed=seed)
    keys = [tuple(key) for key in jax.random.key_data(rng_B).tolist()]
    assert keys[0] == keys[2]
    assert len(set(keys)) == 3
    _, _, other_B = start(np.ones((1, 3), np.int32), numbers[:1], seed=seed + 1)
    assert tuple(jax.random.key_data(other_B)[0].tolist()) != keys[0]


def test_rows_are_gathered_and_their_room_grows():
    memory, state, rng_B = start(np.arange(1, 7).reshape(3, 2), [[0], [1], [2]])
    state = state._replace(
        t=jnp.int32(4),
        tokens_BWT=jnp.arange(24).reshape(3, 2, 4) + 1,
        scores_BW=jnp.arange(6.0).reshape(3, 2),
    )
    prefix_BM = jnp.arange(24).reshape(3, 8)
    bounds = Bounds(jnp.array([0, 1, 2]), jnp.array([6, 7, 8]), prefix_BM)
    rows = np.array([2, 0])
    resized = compiled.resize(compiled.Search(memory, state, bounds, rng_B), rows, room=8)
    new_memory, new_state, new_bounds, new_rng_B = resized
    np.testing.assert_array_equal(new_memory["ids"], memory["ids"][rows])
    np.testing.assert_array_equal(new_state.tokens_BWT[..., :4], state.tokens_BWT[rows])
    assert (new_state.tokens_BWT[..., 4:] == PAD).all()
    assert new_state.live_tokens_BWT.shape == (2, 2, 8)
    assert new_state.cache.ancestry_BWP.shape == (2, 2, 8)
    np.testing.assert_array_equal(new_state.scores_BW, state.scores_BW[rows])
    assert new_state.t == 4  # of all rows
    assert new_bounds.max_length_B.tolist() == [8, 6]
    np.testing.assert_array_equal(new_bounds.prefix_BM, prefix_BM[rows])
    assert (new_rng_B == rng_B[rows]).all()
