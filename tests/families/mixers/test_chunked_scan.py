import jax
import jax.numpy as jnp
import numpy as np
import pytest

from transformer.families.mixers import chunked_scan


@pytest.mark.parametrize(
    ("chunk", "calls"), [(1, (7, 1)), (3, (3, 3)), (4, (2, 4)), (7, (1, 7)), (8, (1, 7))]
)
def test_a_scan_over_chunks_is_one_over_positions(chunk, calls):
    """Of sums; the state of another tree than the arrays, a batch of 2, 7 positions."""
    random = np.random.default_rng(0)
    x_BTD, weights_BT = np.float32(random.random((2, 7, 3))), np.float32(random.random((2, 7)))

    def add(state, arrays):
        x_BTD, weights_BT = arrays
        sums_BTD = state["sum"][:, None] + jnp.cumsum(weights_BT[..., None] * x_BTD, axis=1)
        return {"sum": sums_BTD[:, -1]}, sums_BTD

    def run(first, x_BTD):
        return chunked_scan.scan_chunks(add, {"sum": first}, (x_BTD, weights_BT), chunk)

    state, y_BTD = run(np.ones((2, 3), np.float32), x_BTD)
    expected = 1 + np.cumsum(weights_BT[..., None] * x_BTD, axis=1)
    np.testing.assert_allclose(y_BTD, expected, rtol=1e-6)
    np.testing.assert_allclose(state["sum"], expected[:, -1], rtol=1e-6)

    # No more calls, and of no more positions, than there must be.
    [scan] = [
        e for e in jax.make_jaxpr(run)(state["sum"], x_BTD).eqns if e.primitive.name == "scan"
    ]
    assert (scan.params["length"], scan.outvars[-1].aval.shape[2]) == calls
