"""The LSTM cell is Flax's, but for its forget bias."""

import flax.linen as nn
import jax
import numpy as np

from transformer.families.recurrent.lstm import LSTMCell

D, C = 3, 5
CARRY, X = (np.full((2, C), 0.7, np.float32), np.full((2, C), -0.2, np.float32)), np.ones((2, D))


def test_it_is_flaxs_cell_with_a_raised_bias_of_the_forget_gate():
    cell = LSTMCell(C, forget_bias=0.5)
    params = cell.init(jax.random.key(0), CARRY, X)["params"]
    params["state"]["bias"] = jax.random.normal(jax.random.key(1), (4 * C,))
    input_kernels, state_kernels, biases = (
        np.split(np.asarray(x), 4, axis=-1)
        for x in (params["input"]["kernel"], params["state"]["kernel"], params["state"]["bias"])
    )
    theirs = {f"i{gate}": {"kernel": input_kernels[n]} for n, gate in enumerate("ifog")}
    for n, gate in enumerate("ifog"):
        bias = biases[n] + 0.5 * (gate == "f")
        theirs[f"h{gate}"] = {"kernel": state_kernels[n], "bias": bias}
    expected = nn.OptimizedLSTMCell(C).apply({"params": theirs}, CARRY, X)
    found = cell.apply({"params": params}, CARRY, X)
    for kernel in state_kernels:
        np.testing.assert_allclose(kernel.T @ kernel, np.eye(C), atol=1e-5)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-6), found, expected)
