"""The decoder-only model: its FLOPs, and fields that cannot work."""

import numpy as np
import pytest
from families.language_model import language

from transformer.errors import UserError
from transformer.models import fields as model_fields


def test_flops_are_those_of_the_matrix_products():
    """By hand: 2 layers of 4 projections, 2 products of attention and 2 of the feed-forward net."""
    model, T = language.model(), 8
    heads = 2 * (6 + 5)
    layer = 2 * 16 * heads + T * heads + 2 * 16 * 24
    assert model.flops(3, T) == 3 * 2 * 3 * T * (2 * layer + 16 * 13)


def test_learned_positions_are_limited_and_wrong_fields_are_one_line():
    assert language.model().position_limit == 12
    assert language.model(positions="interleaved").position_limit == np.inf
    fields = {**language.ARGUMENTS, "num_heads": 3, "key_size": 0}
    del fields["vocab_size"]
    model = model_fields.build("language_model", fields, vocab_size=13)
    with pytest.raises(UserError, match=r"\Aconfig\.model\..*multiple of"):
        language.parameters(model)
