"""Which models and params another program has a form for; what a fork has added is refused."""

import dataclasses

import pytest
from helpers import tiny

from transformer.errors import UserError
from transformer.models import fields, stack
from transformer.tools.convert import ctranslate2_write, marian, marian_config

FORM = {"key_size": 0, "value_size": 0, "norm_epsilon": 1e-5}
CHECKS = {"marian": marian_config.check, "ctranslate2": ctranslate2_write.check}


@pytest.mark.parametrize("program", CHECKS)
def test_a_field_that_a_form_does_not_know_is_refused(program):
    """A fork's field may change the function: that it is left out would be silent."""
    model, check = tiny.model(**FORM), CHECKS[program]
    check(model)

    class Forked(type(model)):
        soft_cap: float = 30.0  # of the scores

    with pytest.raises(
        UserError, match=r"cannot represent config.model.soft_cap=30.0: use [^\n]*$"
    ):
        check(fields.make(Forked, **fields.values(model)))

    @dataclasses.dataclass(frozen=True)
    class MoreOptions(stack.LayerOptions):
        window: int = 128

    options = MoreOptions(**vars(model.options))
    with pytest.raises(UserError, match=r"cannot represent config.model.window=128: use [^\n]*$"):
        check(model.clone(options=options))


NAMES = {
    "marian": lambda path: marian.name_of(path, "all"),
    "ctranslate2": ctranslate2_write.place_of,
}


@pytest.mark.parametrize("program", NAMES)
@pytest.mark.parametrize(
    "path",
    [
        "decoder/layers_0/self_attention/distance_bias",
        "decoder/layers_0/self_attention/query/scale",
        "encoder/layers_0/feed_forward/gate/kernel",
        "more_positions/embedding",
        "adapter/kernel",
    ],
)
def test_a_parameter_that_a_form_does_not_know_is_refused(program, path):
    """A fork's layer may have one, without a field: that it is left out would be silent."""
    with pytest.raises(
        UserError, match=rf"^\S.* cannot represent the parameter {path}: use [^\n]*$"
    ):
        NAMES[program](path)
