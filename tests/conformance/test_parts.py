"""Each part of the registry is held to what transformer/models/boxes.py says.

Here it is in a small Transformer. test_mixers.py checks a mixer alone, and test_models.py models
with each part: padding, neighbours, causality, decoding, FLOPs.
"""

import functools

import jax
import numpy as np
import pytest
from conformance import tables, tiny_models
from conformance.tiny_models import LENGTH, PARTS
from flax.traverse_util import flatten_dict
from helpers import tiny

from transformer import registry
from transformer.errors import UserError
from transformer.models import boxes
from transformer.tasks import losses

BUT_MIXERS = [box for box in registry.PARTS if box != "mixer"]
# One model, the paper's, has them all: the first stands for the others.
OF_THE_PAPER = [f"{box}/{tiny.ARGUMENTS[box]}" for box in BUT_MIXERS]


def cases(*boxes, but=OF_THE_PAPER[1:]):
    parts = [part for part in tables.parts() if not boxes or part.partition("/")[0] in boxes]
    return pytest.mark.parametrize("part", [part for part in parts if part not in but])


def case_of(part):
    """Returns the tiny Transformer with a part, inputs, and which logits are of words."""
    case = tiny_models.case(f"transformer/{part}")
    return case, *case.kind.batch([[0, 1], [2], []], LENGTH)


@functools.cache
def logits_and_gradients(part):
    """Returns the logits, and the gradient of their squares by each param; None for a mixer."""
    case, inputs, is_word = case_of(part)
    if part.startswith("mixer/"):
        return case.logits(inputs), None

    def squares(params):
        logits = case.model.apply({"params": params}, **inputs, train=False)
        return ((logits**2) * is_word[..., None]).sum(), logits

    gradients, logits = tiny.jit(jax.grad(squares, has_aux=True))(case.params)
    return np.asarray(logits), gradients


def test_every_part_can_be_written():
    for part in tables.names("PART"):
        assert part in tables.PARTS, f"PART={part} must be one of {', '.join(tables.PARTS)}"
        try:
            boxes.parse(part.partition("/")[0], PARTS[part])
        except UserError as error:
            pytest.fail(f"{error}: write {part} in WRITTEN of tests/conformance/tiny_models.py")


@pytest.mark.slow
@cases()
def test_a_part_matters(part):
    """With the same values of the params that both have, the paper's part has other logits."""
    (case, inputs, is_word), (logits, _) = case_of(part), logits_and_gradients(part)
    assert logits.dtype == np.float32, f"{part}: logits are {logits.dtype}"
    assert np.isfinite(logits).all(), f"{part}: logits are non-finite"
    box, _, name = part.partition("/")
    if [x.name for x in boxes.parse(box, tiny.ARGUMENTS[box])] == [name]:
        return
    expected = tiny.plain_logits(case.params, inputs)
    if expected is None or np.abs(logits - expected)[is_word].max() > 1e-3:
        return
    sown = losses.forward(case.model, case.params, {"inputs": inputs, "weights": is_word})[1]
    same = f"{part}: logits are those of {box}/{tiny.ARGUMENTS[box]}, and no loss is sown"
    assert any(map(float, sown.values())), same


@pytest.mark.slow
@cases(*BUT_MIXERS)
def test_gradients_are_finite_and_of_all_params(part):
    for path, values in flatten_dict(logits_and_gradients(part)[1], sep="/").items():
        assert np.isfinite(values).all(), f"{part}: the gradient of {path} is non-finite"
        assert np.abs(values).max() > 1e-7, f"{part}: {path} has no gradient"


@pytest.mark.slow
@cases(*BUT_MIXERS)
def test_bfloat16_is_close_to_float32(part):
    case, inputs, is_word = case_of(part)
    high = logits_and_gradients(part)[0][is_word]
    low = tiny.logits(tiny_models.build(case.name, dtype="bfloat16"), case.params, inputs)[is_word]
    share = np.sqrt(((low - high) ** 2).mean()) / high.std()
    assert 1e-4 < share < 0.03, f"{part}: logits in bfloat16 are {share:.1%} off"


@cases(but=())
def test_a_number_that_cannot_be_is_named_by_its_key(part):
    box, _, name = part.partition("/")
    [(_, _, fields)] = boxes.parse(box, PARTS[part])
    numbers = [key for key, value in fields.items() if type(value) in (int, float)]
    for field in filter(lambda key: not key.endswith("bias"), numbers):  # which may be any
        wrong = {**fields, field: -1.0 if type(fields[field]) is float else 0}
        text = ", ".join(f"{key}={value!r}" for key, value in wrong.items())
        changes = tiny_models.with_part(part, f"{name}({text})")
        with pytest.raises(UserError, match=rf"^config\.model\.{box}\.{field} must be "):
            tiny_models.case(f"transformer/{part}", **changes)
