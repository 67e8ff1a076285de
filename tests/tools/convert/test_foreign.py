"""Our order of a foreign vocabulary, its files, and the models that a program has no form for."""

import dataclasses

import numpy as np
import pytest
from families.language_model import language
from helpers import tiny
from tools.convert import huggingface

from transformer.data import tokenizer
from transformer.errors import UserError
from transformer.families.images.vision import VisionTransformer
from transformer.families.texts.text_encoder import MaskedLanguageModel
from transformer.models import fields, stack
from transformer.tools.convert import (
    arrays,
    ctranslate2_write,
    foreign,
    gpt2,
    marian_config,
    matrices,
    megatron_bert,
    vit,
)

PIECES = ["</s>", "<unk>", "a", "b", "<pad>"]


def test_the_special_pieces_come_first_and_the_start_is_a_copy_of_the_padding():
    order = foreign.renumber(PIECES, pad=4, end=0, unknown=1, start=4)
    assert order.old.tolist() == [4, 0, 1, 4, 2, 3]  # the docstring's example
    assert order.pieces == ["<pad>", "</s>", "<unk>", "<s>", "a", "b"]
    assert order.count == 5
    rows = order.rows(np.arange(5) * 10)
    assert rows.tolist() == [40, 0, 10, 40, 20, 30]


def test_our_own_order_stays():
    ours = ["<pad>", "</s>", "<unk>", "<s>", "x", "y"]
    order = foreign.renumber(ours, pad=0, end=1, unknown=2, start=3)
    assert order.old.tolist() == list(range(6))
    assert order.pieces == ours


def test_no_two_pieces_have_one_name():
    order = foreign.renumber(["<s>", "</s>", "<unk>", "<p>"], pad=3, end=1, unknown=2, start=3)
    assert len(set(order.pieces)) == len(order.pieces) == 5
    order = foreign.renumber(["</s>", "<unk>", "a"], pad=1, end=0, unknown=1, start=0)
    assert order.pieces == ["<pad>", "</s>", "<unk>", "<s>", "a"]
    assert set(order.silent) == {0, 3}  # the copies


@pytest.fixture(scope="module")
def vocab():
    file = huggingface.FIXTURES / "gpt2" / "text.model"
    return tokenizer.load(file.read_bytes(), "text.model")


GPT2 = huggingface.write_gpt2
BERT = huggingface.write_megatron_bert
VIT = lambda folder, vocab, **changes: huggingface.write_vit(folder, **changes)
NO_FORM = [
    *({"norm": "post"}, {"norm_kind": "rms"}, {"final_norm": False}, {"residual": False}),
    *({"score": "cosine"}, {"positions": "rotary"}, {"positions": "shaw", "max_distance": 4}),
    {"key_size": 4},
    {"key_size": 6, "value_size": 6, "d_model": 20, "num_heads": 3},  # 20 / 3 is no size
]


@pytest.mark.parametrize(
    ("write", "program", "changes"),
    [
        *((GPT2, gpt2, {"attention_bias": x, "tied_embeddings": x}) for x in (False, True)),
        *((BERT, megatron_bert, {"attention_bias": x}) for x in (False, True)),
        *((VIT, vit, {"attention_bias": x}) for x in (False, True)),
        *((GPT2, gpt2, {"positions": x}) for x in ("none", "interleaved")),
        *((write, of, {"positions": "none"}) for write, of in ((BERT, megatron_bert), (VIT, vit))),
    ],
)
def test_what_is_written_is_read_again(write, program, changes, tmp_path, vocab):
    model, params = write(tmp_path, vocab, **changes)
    flat = huggingface.flat(params)
    with arrays.opened(tmp_path) as (_, names, load):
        there = {name: np.asarray(load(name)) for name in names}
    read = matrices.params_of(
        program.table(model), there, {path: x.shape for path, x in flat.items()}
    )
    assert read.keys() == flat.keys()
    for path, array in flat.items():
        np.testing.assert_allclose(read[path], array, rtol=1e-6, err_msg=path)


MARIAN = {"key_size": 0, "value_size": 0, "norm_epsilon": 1e-5}
ENCODER = {**huggingface.ENCODER, "vocab_size": 9}
CHECKS = {
    "marian": (tiny.model(**MARIAN), marian_config.check_exportable),
    "ctranslate2": (tiny.model(**MARIAN), ctranslate2_write.check),
    "gpt2": (language.model(**huggingface.HEADS), gpt2.check),
    "megatron_bert": (fields.make(MaskedLanguageModel, **ENCODER), megatron_bert.check),
    "vit": (fields.make(VisionTransformer, **huggingface.VISION), vit.check),
}


@pytest.mark.parametrize("program", CHECKS)
def test_a_field_that_a_form_does_not_know_is_refused(program):
    """A fork's field may change the function: that it is left out would be silent."""
    model, check = CHECKS[program]
    check(model)

    class Forked(type(model)):
        soft_cap: float = 30.0  # of the scores

    with pytest.raises(UserError, match=r"has no form for config.model.soft_cap=30.0: use [^\n]*$"):
        check(fields.make(Forked, **fields.values(model)))

    @dataclasses.dataclass(frozen=True)
    class MoreOptions(stack.LayerOptions):
        window: int = 128

    options = MoreOptions(**vars(model.options))
    with pytest.raises(UserError, match=r"has no form for config.model.window=128: use [^\n]*$"):
        check(model.clone(options=options))


@pytest.mark.parametrize(
    ("write", "changes"),
    [
        *((write, changes) for write in (GPT2, BERT, VIT) for changes in NO_FORM),
        *((write, {"score": "dot"}) for write in (BERT, VIT)),
        (VIT, {"stem": "convolutions", "patch_size": 4}),
        (VIT, {"pooling": "mean"}),
    ],
)
def test_a_model_without_a_form_there_is_refused(write, changes, tmp_path, vocab):
    with pytest.raises(UserError, match=rf"config.model.{next(iter(changes))}"):
        write(tmp_path, vocab, **changes)
    assert not list(tmp_path.iterdir())


def test_a_parameter_that_a_form_does_not_know_is_refused(vocab):
    """A fork's layer may have one, without a field: that it is left out would be silent."""
    model = language.model(vocab_size=len(vocab), **huggingface.HEADS)
    params = huggingface.flat(language.parameters(model))
    params["decoder/layers_0/self_attention/distance_bias"] = np.zeros(3)
    with pytest.raises(UserError, match=r"^the parameter .*/distance_bias has no form there: use "):
        matrices.arrays_of(gpt2.table(model), params)
