"""Only tasks of the table are imported; params are drawn, or only described."""

import flax.linen as nn
import jax
import numpy as np
import pytest
from helpers import toy_task

from transformer import registry
from transformer.errors import UserError
from transformer.tasks.task import abstract_params, init_params, load_task
from transformer.workdir import config_files


@pytest.mark.parametrize("name", ["", "transformer.tasks.translation", "os"])
def test_only_tasks_of_the_table_are_imported(name):
    with pytest.raises(UserError, match=r"^config\.task must be one of 'translation'.*, found '"):
        load_task(name)


def test_params_are_a_function_of_the_model_and_the_key():
    """The rows of the example do not matter."""
    model, keys = toy_task.Linear(3), jax.random.split(jax.random.key(0))
    params, other = (init_params(model, toy_task.example(None, 2), key) for key in keys)
    again = init_params(model, toy_task.example(None, 5), keys[0])
    jax.tree.map(np.testing.assert_array_equal, again, params)
    assert np.abs(params["inner"]["kernel"] - other["inner"]["kernel"]).max() > 0.1
    shapes = lambda tree: jax.tree.map(lambda x: (x.shape, x.dtype), tree)
    assert shapes(abstract_params(model, toy_task.example(None, 2))) == shapes(params)


def test_abstract_params_take_no_memory():
    described = abstract_params(toy_task.Linear(10**12), toy_task.example(None, 1))
    assert described["inner"]["kernel"].shape == (8, 10**12)


@pytest.mark.parametrize("name", ["multi30k_rnn", "korean_reviews_pretraining"])
def test_a_model_that_would_mix_the_texts_of_a_row_gets_no_packed_ones(name, monkeypatch):
    config = config_files.load_config(f"configs/{name}.py")
    config.data.pack = True
    if name != "multi30k_rnn":
        average = registry.load(registry.PARTS["mixer"]["average"])
        monkeypatch.setattr(average, "takes_packed_rows", False, raising=False)
        config.model.mixer = "average,attention"
    task = load_task(config.task)
    with pytest.raises(
        UserError, match=r"^config\.data\.pack=True: .* takes only one text per row"
    ):
        task.check(config)
    config.data.pack = False
    task.check(config)


def test_a_model_that_prints_is_initialised_too():
    """Dead code elimination keeps what has an effect."""

    class Printing(nn.Module):
        @nn.compact
        def __call__(self, x, *, train):
            jax.debug.print("{}", x.sum())
            return nn.Dense(2)(x)

    params = init_params(Printing(), {"inputs": {"x": np.ones((2, 3))}}, jax.random.key(0))
    assert params["Dense_0"]["kernel"].shape == (3, 2)
