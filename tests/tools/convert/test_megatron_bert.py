"""Hugging Face's MegatronBERT: a recorded model's logits; random models there and here.

fixtures/megatron_bert was made by record_huggingface.py with transformers, which only the last test
needs.
"""

import json

import numpy as np
import pytest
from helpers import tiny
from tools.convert import huggingface

from transformer.data import tokenizer

RECORDED = huggingface.FIXTURES / "megatron_bert"


@pytest.fixture(scope="module")
def vocab():
    file = huggingface.FIXTURES / "gpt2" / "text.model"
    return tokenizer.load(file.read_bytes(), "text.model")


@pytest.fixture(scope="module")
def written(vocab, tmp_path_factory):
    folder = tmp_path_factory.mktemp("megatron_bert")
    return folder, *huggingface.write_megatron_bert(folder, vocab)


def logits(model, params, inputs):
    """Of all tokens but padding, one after the other."""
    return tiny.logits(model, params, inputs)[inputs["segments"] > 0]


def test_what_is_written_is_what_transformers_has_read(written):
    huggingface.assert_same_files(written[0], RECORDED)


def test_logits_are_those_of_transformers(written, vocab):
    _, model, params = written
    expected = json.loads((RECORDED / "expected.json").read_text())["logits"]
    ours = logits(model, params, huggingface.masked_inputs(len(vocab)))
    np.testing.assert_allclose(ours, expected, atol=1e-5)
    assert np.std(ours) > 0.5


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"positions": "interleaved", "attention_bias": False, "activation": "relu"},
        {"positions": "none", "norm_epsilon": 1e-3, "activation": "gelu_tanh", "num_heads": 4},
    ],
)
def test_a_random_model_is_the_same_function_there(tmp_path, vocab, changes):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    torch = pytest.importorskip("torch", reason="torch is not installed")
    model, params = huggingface.write_megatron_bert(tmp_path, vocab, **changes)
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path).eval()
    inputs = huggingface.masked_inputs(len(vocab))
    ids, mask = (torch.tensor(inputs[name]) for name in ("ids", "segments"))
    with torch.no_grad():
        expected = theirs(ids, attention_mask=mask).logits[mask > 0].numpy()
    np.testing.assert_allclose(logits(model, params, inputs), expected, atol=1e-5)
