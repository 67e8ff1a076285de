"""Logits, losses and every gradient equal PyTorch's own layers on the same weights.

tests/fixtures/record_torch.py made the record with torch 2.13; nothing here needs torch.
"""

import pathlib

import jax
import numpy as np
import pytest
from helpers import tiny
from helpers.cases import slow_but

from transformer.tasks.losses import cross_entropy

RECORD = pathlib.Path(__file__).parents[1] / "fixtures" / "torch_transformer.npz"
D, H, F, L, V = 16, 4, 32, 2, 17
TOLERANCE = 1e-5  # of float32 numbers of size 1, and relative to larger ones
CASES = ["post_relu", "post_gelu", "pre_relu", "pre_gelu"]


@pytest.fixture(scope="module")
def record():
    with np.load(RECORD) as file:
        return dict(file)


def from_torch(named):
    """Our tree of parameters (or gradients) from torch's names.

    torch keeps linear maps as [out, in], those of query, key and value one above the other, heads
    side by side.
    """

    def linear(name, suffix=""):
        return {"kernel": named[f"{name}.weight"].T, "bias": named[f"{name}.bias"]}

    def layer_norm(name):
        return {"scale": named[f"{name}.weight"], "bias": named[f"{name}.bias"]}

    def attention(name):
        kernels = np.split(named[f"{name}.in_proj_weight"], 3)
        biases = np.split(named[f"{name}.in_proj_bias"], 3)
        output = linear(f"{name}.out_proj")
        return {
            part: {"kernel": kernel.T.reshape(D, H, D // H), "bias": bias.reshape(H, D // H)}
            for part, kernel, bias in zip(("query", "key", "value"), kernels, biases, strict=True)
        } | {"output": {"kernel": output["kernel"].reshape(H, D // H, D), "bias": output["bias"]}}

    def feed_forward(name):
        return {"inner": linear(f"{name}.linear1"), "outer": linear(f"{name}.linear2")}

    def layer(name, **sublayers):
        parts = {ours: attention(f"{name}.{theirs}") for ours, theirs in sublayers.items()}
        parts["feed_forward"] = feed_forward(name)
        norms = {ours: layer_norm(f"{name}.norm{n}") for n, ours in enumerate(parts, start=1)}
        return parts | {f"{ours}_residual": {"layer_norm": x} for ours, x in norms.items()}

    tree = {"target_embedding": {"embedding": named["embedding.weight"]}}
    attentions = {"self_attention": "self_attn"}
    for side in ("encoder", "decoder"):
        names = {f"layers_{i}": f"{side}.layers.{i}" for i in range(L)}
        tree[side] = {ours: layer(theirs, **attentions) for ours, theirs in names.items()}
        if f"{side}.norm.weight" in named:
            tree[side]["norm"] = layer_norm(f"{side}.norm")
        attentions["cross_attention"] = "multihead_attn"
    return tree


def weights(record, case):
    """The case's parameters under torch's names; only the pre-norm cases have a final norm."""
    return {
        name.removeprefix("weights/"): value
        for name, value in record.items()
        if name.startswith("weights/") and (case.startswith("pre") or "coder.norm" not in name)
    }


def gradients(record, case):
    """The same for the gradients, which lie in one vector, in the order of the weights."""
    flat, named = record[f"{case}/gradients"], {}
    for name, value in weights(record, case).items():
        named[name], flat = flat[: value.size].reshape(value.shape), flat[value.size :]
    assert not flat.size
    return named


def assert_close(got, expected, what=""):
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape, what
    assert np.abs(got - expected).max() / max(1.0, np.abs(expected).max()) < TOLERANCE, what


def setting(record, case):
    """The model, its parameters, its inputs and its targets with their weights."""
    residual, activation = case.split("_")
    sizes = {"source_vocab_size": V, "target_vocab_size": V, "d_model": D, "d_ff": F}
    sizes |= {"num_heads": H, "num_layers": L, "key_size": 0, "value_size": 0}
    parts = {"residual": residual, "feed_forward": activation, "norm": "layer(epsilon=1e-5)"}
    model = tiny.model(**sizes, **parts, final_norm=residual == "pre", attention_bias=True)
    inputs = {}
    for side in ("source", "target"):
        ids = record[side]
        inputs[side] = ids
        inputs[f"{side}_positions"] = np.broadcast_to(np.arange(ids.shape[1]), ids.shape)
        inputs[f"{side}_segments"] = record[f"{side}_real"].astype(np.int32)
    parameters = from_torch(weights(record, case))
    assert jax.tree.map(np.shape, parameters) == jax.tree.map(np.shape, tiny.shapes(model, inputs))
    targets = record["labels"], record["target_real"].astype(np.float32)
    return model, parameters, inputs, targets


@pytest.mark.parametrize("case", slow_but(CASES, "post_relu"))
def test_logits_losses_and_gradients_of_all_parameters(record, case):
    model, parameters, inputs, targets = setting(record, case)

    smoothing = float(record["smoothing"])
    smoothings = smoothing, float(record[f"{case}/differentiated_smoothing"])

    def loss(parameters):
        """The loss that torch differentiated; beside it the sums of the smoothed one."""
        logits = model.apply({"params": parameters}, **inputs, train=False)
        smoothed, differentiated = (
            cross_entropy(logits, *targets, label_smoothing=x, smoothed_over="all_classes")
            for x in smoothings
        )
        return differentiated["loss"], (smoothed, logits)

    got, (sums, logits) = tiny.jit(jax.grad(loss, has_aux=True))(parameters)
    real = record["target_real"]  # what stands at padding is nobody's business
    assert_close(np.asarray(logits)[real], record[f"{case}/logits"][real])
    assert sums["weight"] == real.sum()
    assert_close(sums["nats_per_token"], record[f"{case}/nll"])
    # torch does not take off the entropy of the smoothed target.
    target = np.full(V, smoothing / V)
    target[0] += 1 - smoothing
    entropy = -(target * np.log(target)).sum()
    assert_close(sums["loss"], record[f"{case}/smoothed"] - entropy * real.sum())
    expected = from_torch(gradients(record, case))
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    paths = jax.tree_util.tree_leaves_with_path(expected)
    for (path, wanted), found in zip(paths, jax.tree.leaves(got), strict=True):
        assert_close(found, wanted, jax.tree_util.keystr(path))
