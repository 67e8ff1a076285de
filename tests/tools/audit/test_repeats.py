"""Repeated keys, compared with dictionaries."""

import collections

import numpy as np
import pytest

from transformer.tools.audit import repeats


@pytest.fixture(params=range(4))
def keys(request):
    return np.random.default_rng(request.param).integers(-30, 30, (2, 100))


def test_first_of(keys):
    first = {}
    for number, key in enumerate(keys[0].tolist()):
        first.setdefault(key, number)
    assert repeats.first_of(keys[0]).tolist() == [first[key] for key in keys[0].tolist()]


def test_have_several(keys):
    others = collections.defaultdict(set)
    for key, other in keys.T.tolist():
        others[key].add(other)
    expected = [len(others[key]) > 1 for key in keys[0].tolist()]
    assert repeats.have_several(*keys).tolist() == expected
    assert 0 < sum(expected) < len(expected)


def test_pair_keys_are_equal_where_pairs_are(keys):
    pairs = repeats.pair_keys(*keys)
    assert len(set(pairs.tolist())) == len({*map(tuple, keys.T.tolist())})
    assert repeats.pair_keys(*keys[::-1]).tolist() != pairs.tolist()


def test_pair_keys_of_small_numbers_differ():
    keys = np.stack(np.meshgrid(np.arange(300), np.arange(300))).reshape(2, -1)
    assert len(np.unique(repeats.pair_keys(*keys))) == 90_000
