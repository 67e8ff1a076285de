"""Golden values of the paper's learning rate, and Adam against a float64 implementation."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from transformer.checkpoints.weights import flatten, unflatten
from transformer.errors import UserError
from transformer.training.optimizer import (
    check,
    inverse_square_root,
    make_optimizer,
    make_schedule,
    params_to_score,
    stop_gradients,
)

BETA1, BETA2, EPSILON = 0.9, 0.98, 1e-9


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (1, 1.746928e-7),
        (2, 3.493856e-7),
        (3999, 6.985966e-4),
        (4000, 6.987712e-4),
        (4001, 6.986839e-4),
        (16000, 3.493856e-4),
        (100_000, 1.397542e-4),
    ],
)
def test_learning_rate_of_the_base_model(step, expected):
    """Equation 3 with d_model 512 and 4,000 steps of warm-up."""
    got = inverse_square_root(step, d_model=512, warmup_steps=4000, factor=1.0)
    assert float(got) == pytest.approx(expected, rel=2e-6)
    twice = inverse_square_root(step, d_model=512, warmup_steps=4000, factor=2.0)
    assert float(twice) == pytest.approx(2 * expected, rel=2e-6)


def by_hand(parameters, gradients, learning_rate, *, epsilon, clip_norm):
    """Returns the params after each update of Kingma and Ba's algorithm 1, in float64."""
    m = v = 0.0
    path = []
    for step, gradient in enumerate(gradients, start=1):
        norm = np.sqrt((gradient**2).sum())
        if clip_norm and norm > clip_norm:
            gradient = gradient * clip_norm / norm
        m = BETA1 * m + (1 - BETA1) * gradient
        v = BETA2 * v + (1 - BETA2) * gradient**2
        m_hat, v_hat = m / (1 - BETA1**step), v / (1 - BETA2**step)
        parameters = parameters - learning_rate(step) * m_hat / (np.sqrt(v_hat) + epsilon)
        path.append(parameters)
    return path


@pytest.mark.parametrize("clip_norm", [0.0, 1.5])
@pytest.mark.parametrize("epsilon", [EPSILON, 0.5])
def test_three_updates_are_adams(epsilon, clip_norm):
    """A large epsilon shows where it is added; only the second gradient exceeds the clip norm."""
    gradients = np.array([[0.3, -0.7, 0.1], [3.0, 2.0, -1.0], [-0.2, 0.4, 0.6]])
    start = np.array([1.0, -2.0, 0.5])
    learning_rate = lambda step: 0.01 * step
    arguments = {"b1": BETA1, "b2": BETA2, "eps": epsilon}
    chain = make_optimizer(learning_rate, name="adam", clip_norm=clip_norm, arguments=arguments)
    # Two leaves, so that the norm is a global one.
    split = lambda x: {"a": x[:2].astype(np.float32), "b": x[2:].astype(np.float32)}
    parameters = split(start)
    state = chain.init(parameters)
    update = jax.jit(chain.update)
    expected = by_hand(start, gradients, learning_rate, epsilon=epsilon, clip_norm=clip_norm)
    for gradient, after in zip(gradients, expected, strict=True):
        updates, state = update(split(gradient), state, parameters)
        parameters = optax.apply_updates(parameters, updates)
        got = np.concatenate([parameters["a"], parameters["b"]])
        np.testing.assert_allclose(got, after, atol=1e-6)


def test_a_moving_average_is_of_the_params_after_each_update():
    options = {"name": "sgd", "clip_norm": 0.0, "arguments": {}, "frozen": "b"}
    chain = make_optimizer(lambda step: 0.1 * step, **options, moving_average=0.3)
    params = {"a": jnp.float32(2.0), "b": jnp.float32(5.0)}
    state, value, expected = chain.init(params), 2.0, 2.0
    for t, decay in enumerate([1 / 10, 2 / 11, 3 / 12, 0.3, 0.3]):  # of (1 + t) / (10 + t)
        updates, state = chain.update({"a": jnp.float32(t), "b": jnp.float32(t)}, state, params)
        params = optax.apply_updates(params, updates)
        value -= 0.1 * (t + 1) * t
        expected = decay * expected + (1 - decay) * value
        mean = params_to_score(params, state)
        assert (mean["a"], mean["b"]) == (pytest.approx(expected), 5)
    assert params_to_score(params, state[0]) is params  # where there is none


CONSTANT = {"name": "constant_schedule", "value": 0.1}
INVERSE = {"name": "inverse_square_root"}
FULL = INVERSE | {"d_model": 8, "warmup_steps": 4, "factor": 1.0}
COSINE = {"name": "warmup_cosine_decay_schedule", "warmup_steps": 4, "decay_steps": 9}
COSINE |= {"init_value": 0.0}
PIECEWISE = {"name": "piecewise_constant_schedule", "boundaries_and_scales": {9: 0.1}}
DECAY = {"name": "cosine_decay_schedule", "init_value": 1.0, "decay_steps": 0}


@pytest.mark.parametrize(
    ("name", "arguments", "schedule", "words"),
    [
        ("adma", {}, CONSTANT, ".name must be an optimizer of optax .* found 'adma'"),
        ("Muon", {}, CONSTANT, r".* found 'Muon'; did you mean muon\?"),
        ("scale_by_adam", {}, CONSTANT, ".* found 'scale_by_adam'(?!; did)"),
        *((name, {}, CONSTANT, f".* found '{name}'") for name in ("tree", "chain")),
        ("schedule_free_adamw", {}, CONSTANT, ".* found 'schedule_free_adamw'"),
        ("lion", {"eps": 1e-9}, CONSTANT, ": lion does not .* 'eps'"),
        ("sm3", {}, CONSTANT, ": sm3 does not work .* 'function'"),  # takes no schedule
        ("momo", {}, CONSTANT, ": momo does not work .* 'value'"),  # wants the loss, too
        ("adam", {"eps_root": "abc"}, CONSTANT, ": adam does not work .* 'str'"),
        ("sgd", {}, CONSTANT | {"value": "abc"}, ": sgd does not work .* 'abc'"),
        ("sgd", {}, {"name": "cosine"}, ".* found 'cosine'"),
        ("sgd", {}, FULL | {"warmup": 3}, ": .* or inverse_square_root with its own: .* 'warmup'"),
        ("sgd", {}, INVERSE | {"step": 3}, ": .* 'step'"),
        ("sgd", {}, INVERSE | {"factor": 1.0}, ": .* 'd_model'"),
        ("sgd", {}, DECAY, ": .* positive decay_steps"),
        ("sgd", {}, PIECEWISE, ".schedule.boundaries_and_scales must be a number, found {9: "),
        ("galore", {"base_optimizer": 1.0}, CONSTANT, ": galore does not work .* 'init'"),
        *(
            ("sgd", {}, COSINE | {"peak_value": 1.0, key: -1}, f".schedule.{key} must be at least")
            for key in ("init_value", "peak_value", "end_value", "warmup_steps")
        ),
    ],
)
def test_what_does_not_work_is_refused_before_compiling(name, arguments, schedule, words):
    with pytest.raises(UserError, match=rf"\Aconfig.optimizer{words}"):
        check(name=name, clip_norm=1.0, arguments=arguments, schedule=schedule, frozen="")


def test_muon_gets_the_heads_of_a_projection_as_one_matrix():
    """And hidden layers alone: embeddings, patches, classes and biases are Adam's."""
    matrices = {"layer/query/kernel": (6, 8), "layer/output/kernel": (8, 6)}
    others = {"embedding/embedding": (7, 6), "head/kernel": (6, 3), "layer/query/bias": (2, 4)}
    shapes = {"layer/query/kernel": (6, 2, 4), "layer/output/kernel": (2, 4, 6), **others}
    shapes |= {"layer/inner/kernel": (6, 5), "patches/kernel": (2, 2, 3, 6)}
    rng = np.random.default_rng(0)
    draw = lambda: {path: rng.normal(size=shape) for path, shape in shapes.items()}
    params, gradients = jax.tree.map(jnp.float32, (draw(), draw()))

    @jax.jit
    def first_update(params, gradients):
        options = {"name": "muon", "clip_norm": 0.0, "arguments": {}, "frozen": "layer/inner"}
        optimizer = make_optimizer(lambda step: 0.1, **options)
        params, gradients = map(unflatten, (params, gradients))
        return flatten(optimizer.update(gradients, optimizer.init(params), params)[0])

    @jax.jit
    def by_hand(params, gradients):
        """Of each parameter alone."""
        updates = {"layer/inner/kernel": jnp.zeros((6, 5))}
        for path in shapes.keys() - updates.keys():
            alone = optax.adamw(0.1, weight_decay=0.0, nesterov=True)
            alone = optax.contrib.muon(0.1) if path in matrices else alone
            shape = matrices.get(path, shapes[path])
            x, gradient = params[path].reshape(shape), gradients[path].reshape(shape)
            updates[path] = alone.update(gradient, alone.init(x), x)[0].reshape(shapes[path])
        return updates

    updates = first_update(params, gradients)
    for path, expected in by_hand(params, gradients).items():
        np.testing.assert_allclose(updates[path], expected, atol=1e-5)


def test_a_run_may_end_within_its_warm_up():
    """As a trial of a few steps does; optax asks for a step of decay at least."""
    values = {"init_value": 0.0, "peak_value": 1.0, "warmup_steps": 4}
    long, short = (
        make_schedule("warmup_cosine_decay_schedule", **values, decay_steps=steps)
        for steps in (100, 3)
    )
    assert [float(short(step)) for step in (1, 2, 3)] == [float(long(step)) for step in (1, 2, 3)]


def some_params():
    """Params of which 'head' is a prefix, and of a path that only begins alike."""
    return {
        "head": {"bias": np.ones(3, np.float32), "kernel": np.ones((2, 3), np.float32)},
        "header": np.ones(4, np.float32),
    }


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd", "lion"])
def test_frozen_params_are_not_updated_and_have_no_state(name):
    """Not by their gradient, nor by a decay of weights."""
    options = {"name": name, "clip_norm": 1.0, "arguments": {}}
    optimizer = make_optimizer(lambda step: 0.1, frozen="head/kernel", **options)
    params = some_params()
    state = optimizer.init(params)
    assert not any(np.shape(leaf) == (2, 3) for leaf in jax.tree.leaves(state))
    updates, state = optimizer.update(jax.tree.map(np.ones_like, params), state, params)
    moved = {path: bool(np.any(update)) for path, update in flatten(updates).items()}
    assert moved == {"head/bias": True, "head/kernel": False, "header": True}
    # What is frozen does not count in the norm that is clipped.
    parts = {"head": {"bias": params["head"]["bias"]}, "header": params["header"]}
    alone = make_optimizer(lambda step: 0.1, **options)
    for path, update in flatten(alone.update(parts, alone.init(parts), parts)[0]).items():
        np.testing.assert_array_equal(update, flatten(updates)[path])


def test_no_gradient_is_computed_for_frozen_params():
    def loss(params):
        return sum((x**2).sum() for x in jax.tree.leaves(stop_gradients(params, "head, other")))

    gradient = flatten(jax.grad(loss)(jax.tree.map(jnp.asarray, some_params())))
    assert {path: float(abs(x).max()) for path, x in gradient.items()} == {
        "head/bias": 0.0,
        "head/kernel": 0.0,
        "header": 2.0,
    }


@pytest.mark.parametrize(
    ("frozen", "words"),
    [
        (
            "head,hea",
            "config.optimizer.frozen: 'hea' is not a prefix .* head, header, such as 'head/bias'",
        ),
        ("head,header", "config.optimizer.frozen=head,header leaves nothing to train"),
    ],
)
def test_what_cannot_be_frozen_is_one_line(frozen, words):
    options = {"name": "sgd", "clip_norm": 0.0, "arguments": {}}
    with pytest.raises(UserError, match=rf"\A{words}\Z"):
        make_optimizer(lambda step: 1.0, frozen=frozen, **options).init(some_params())
