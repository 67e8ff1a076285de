"""The decoder-only model: its FLOPs, and fields that cannot work."""

from families.language_model import language


def test_flops_are_those_of_the_matrix_products():
    """By hand: 2 layers of 4 projections, 2 products of attention and 2 of the feed-forward net."""
    model, T = language.model(), 8
    heads = 2 * (6 + 5)
    layer = 2 * 16 * heads + T * heads + 2 * 16 * 24
    assert model.flops(3, T) == 3 * 2 * 3 * T * (2 * layer + 16 * 13)
