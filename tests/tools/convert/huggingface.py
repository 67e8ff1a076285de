"""Tiny models as Hugging Face's, for the tests of what is written and record_huggingface.py."""

import json
import pathlib

import flax.traverse_util
import numpy as np
from families.language_model import language
from helpers import corpora, tiny

from configs import image_classification, masked_language
from transformer.data import tokenizer, vocabulary
from transformer.families.images.vision import VisionTransformer
from transformer.families.texts import texts
from transformer.families.texts.text_encoder import MaskedLanguageModel
from transformer.models import fields
from transformer.tools.convert import arrays, gpt2, megatron_bert, vit

FIXTURES = pathlib.Path(__file__).parent / "fixtures"
# Sizes of heads that their forms have.
HEADS = {"key_size": 0, "value_size": 0}
TEXTS = [
    *(
        "the cat sees",
        "나는 사과를 좋아해",
        "책을 나는 the zebra 😀",
        "",
        " two   spaces ",
        "ㅋㅋㅋㅋㅋ!!!!!",
    ),
    *(
        "a\nb",
        "\n\n the end\n",
        "tab\tand\u00a0other\u3000spaces",
        "▁ a ▁",
        "<s></s><pad><unk><0x41>",
    ),
]
CONTEXT = 12  # positions of `language.model`


def learn(kind="bpe"):
    """A vocabulary of Korean and English."""
    lines = corpora.text(0)
    model = vocabulary.learn_pieces(lines, size=corpora.SIZE, kind=kind, character_coverage=1.0)
    return tokenizer.load(model, "test")


def flat(params):
    return flax.traverse_util.flatten_dict(params, sep="/")


def tokens(size, count=3, length=7):
    """Random texts of a language model, each with what begins a text."""
    ids = np.random.default_rng(0).integers(4, size, (count, length))
    return np.concatenate([np.full((count, 1), tokenizer.END), ids], axis=1)


def write_gpt2(folder, vocab, **changes):
    """Writes a random language model; returns the model and its params."""
    model = language.model(vocab_size=len(vocab), **{**HEADS, **changes})
    params = language.parameters(model)
    gpt2.write(folder, model, flat(params), vocab, context=CONTEXT, end_at_line=False)
    return model, params


ENCODER = {
    **masked_language.get_config().model,
    **{"d_model": 16, "d_ff": 24, "num_heads": 2, "num_layers": 2, "max_positions": CONTEXT},
    **{"mask_share": 0.15, "dropout_rate": 0.0, "attention_dropout_rate": 0.0},
}


def masked_inputs(size, lengths=(9, 4, 12)):
    """Random texts of a masked language model, all of whose tokens are to be predicted."""
    columns = np.arange(CONTEXT)
    segments = (columns < np.array(lengths)[:, None]).astype(np.int32)
    ids = np.random.default_rng(0).integers(4, size, segments.shape)
    ids[:, 0], ids[:, 2] = tokenizer.START, texts.MASK
    places = np.broadcast_to(columns, segments.shape)
    arrays = {"ids": ids * segments, "masked": places, "positions": places * segments}
    return {**arrays, "segments": segments}


def write_megatron_bert(folder, vocab, **changes):
    """Writes a random masked language model; returns the model and its params."""
    model = fields.make(MaskedLanguageModel, vocab_size=len(vocab), **{**ENCODER, **changes})
    params = tiny.parameters(model, masked_inputs(len(vocab)))
    megatron_bert.write(folder, model, flat(params), vocab, max_length=CONTEXT)
    return model, params


LABELS = ("zero", "one", "two")
VISION = {
    **image_classification.get_config().model,
    **{"num_classes": 3, "image_size": 28, "patch_size": 14, "position_grid": 2},
    **{"mean": (0.1307,), "std": (0.3081,), "d_model": 16, "d_ff": 24},
    **{"num_heads": 2, "num_layers": 2},
}


def images(model, count=4):
    """Random images, uint8 [count, size, size, channels]."""
    shape = (count, model.image_size, model.image_size, len(model.mean))
    return np.random.default_rng(0).integers(0, 256, shape, np.uint8)


def write_vit(folder, central_crop=1.0, **changes):
    """Writes a random Vision Transformer, of grey images; returns the model and its params."""
    model = fields.make(VisionTransformer, **{**VISION, **changes})
    params = tiny.parameters(model, {"images": images(model, 1)})
    vit.write(folder, model, flat(params), LABELS, central_crop=central_crop)
    return model, params


def assert_same_files(found, expected):
    """The JSON files are equal, and the arrays but for the last bit."""
    for file in expected.glob("*.json"):
        if file.name != "expected.json":
            assert json.loads((found / file.name).read_text()) == json.loads(file.read_text())
    with arrays.opened(found) as (_, shapes, load), arrays.opened(expected) as (_, kept, load_kept):
        assert shapes == kept
        for name in shapes:
            np.testing.assert_allclose(load(name), load_kept(name), rtol=1e-6, atol=1e-7)
