"""Params by path, and the prefixes that name some of them."""

from transformer.checkpoints import param_paths


def test_params_are_flattened_and_back():
    params = {"head": {"bias": 1, "kernel": 2}, "norm": 3}
    flat = param_paths.flatten(params)
    assert flat == {"head/bias": 1, "head/kernel": 2, "norm": 3}
    assert param_paths.unflatten(flat) == params


def test_a_prefix_is_whole_names():
    prefixes = param_paths.prefixes(" head,encoder/layers_1,, ")
    assert prefixes == ["head", "encoder/layers_1"]
    below = ("head", "head/bias", "encoder/layers_1/norm")
    beside = ("header/bias", "encoder", "encoder/layers_10/norm", "decoder/head/bias")
    assert all(param_paths.is_below(path, prefixes) for path in below)
    assert not any(param_paths.is_below(path, prefixes) for path in beside)
    assert not param_paths.is_below("head", [])
