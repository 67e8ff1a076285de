"""The jitted stages: params are cast, some ids are never written."""

import jax
import numpy as np
import pytest
from helpers import table_model, tiny
from helpers.decoders import DECODE, METHODS

from transformer import registry
from transformer.data.tokenizer import PAD, START
from transformer.decoding import compiled, methods


def test_params_are_cast_but_for_vectors():
    params = {"matrix": np.ones((2, 3), np.float32), "vector": np.ones(3, np.float32)}
    cast = compiled.cast_params(params, tiny.model(dtype="bfloat16"))
    assert jax.tree.map(lambda x: x.dtype.name, cast) == {"matrix": "bfloat16", "vector": "float32"}
    tiny.assert_same_bits(compiled.cast_params(params, tiny.model()), params)


@pytest.mark.parametrize("name", METHODS)
def test_padding_and_start_are_never_written(name):
    """Though they are the likeliest, as they may be in an imported model."""
    method = registry.load(registry.METHODS[name])(methods.Decode(**DECODE))
    rows, likeliest = 8, 9 * np.isin(np.arange(table_model.V), [PAD, START])
    tables = table_model.tables(range(rows)) + likeliest.astype(np.float32)
    state = table_model.initial_state(tables, method.num_beams, 9)
    options = {**dict(method.options), "rng_B": table_model.keys(rows), "never": compiled.NEVER}
    bounds = table_model.bounds([8] * rows, 9)
    final = table_model.search(method, table_model.table_step, tables, state, bounds, **options)
    for tokens, scores in zip(final.tokens_BWT, final.scores_BW, strict=True):
        hypotheses = table_model.hypotheses(tokens, scores)
        assert hypotheses
        assert not {PAD, START} & {token for ids, _ in hypotheses for token in ids}
