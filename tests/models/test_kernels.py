"""A choice of kernels reaches every part of a training step, and functions that were traced."""

import jax
import numpy as np
import pytest
from helpers import tiny

from transformer import registry
from transformer.distributed.layout import make_layout
from transformer.models import kernels


def test_every_function_of_the_chosen_kernels_is_called(use_kernels, monkeypatch):
    """By a compiled step, which was traced with the plain kernels before."""
    model, layout = tiny.model(num_layers=1, dropout_rate=0.1), make_layout("jit", num_devices=1)
    batch = tiny.batch([tiny.pairs()], 14, 14)
    state = tiny.first_state(layout, model, batch["inputs"], tiny.adam())
    params = jax.tree.map(np.asarray, state)
    step = jax.jit(tiny.update_of(model, tiny.adam()))
    use_kernels("plain")
    expected, _ = step(params, batch)

    called = set()

    def noted(name, function):
        def form(*arguments, **options):
            called.add(name)
            return function(*arguments, **options)

        return form

    plain = kernels.PLAIN._asdict()
    of_test = kernels.Kernels(**{name: noted(name, form) for name, form in plain.items()})
    monkeypatch.setattr(kernels, "of_test", of_test, raising=False)
    monkeypatch.setitem(registry.KERNELS, "test", "transformer.models.kernels:of_test")
    use_kernels("test")
    found, _ = step(params, batch)
    assert called == {*kernels.Kernels._fields} - {"advise"}
    tiny.assert_same_bits(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", registry.KERNELS)
def test_kernels_train_as_the_plain_ones(use_kernels, name):
    if name == "cudnn":
        pytest.skip("needs a GPU")
    model, layout = tiny.model(num_layers=1), make_layout("pmap", num_devices=2)
    batch = tiny.batch([tiny.pairs(), tiny.pairs(seed=1)], 14, 14)
    metrics = {}
    for kind in ("plain", name):
        use_kernels(kind)
        state = tiny.first_state(layout, model, batch["inputs"], tiny.adam())
        step = tiny.train_step(layout, state, model, tiny.adam())
        for _ in range(3):
            state, metrics[kind] = step(state, tiny.place(batch, layout))
    for key, value in metrics["plain"].items():
        assert float(metrics[name][key]) == pytest.approx(float(value), rel=1e-4), key
