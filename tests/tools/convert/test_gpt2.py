"""Hugging Face's GPT-2: a recorded model's logits and text; random models there and here.

fixtures/gpt2 was made by record_huggingface.py with transformers, which only the last tests need.
"""

import json

import numpy as np
import pytest
from families.language_model import language
from tools.convert import huggingface

from transformer.data import tokenizer
from transformer.families.language_model import continuations

RECORDED = huggingface.FIXTURES / "gpt2"


@pytest.fixture(scope="module")
def vocab():
    return tokenizer.load((RECORDED / "text.model").read_bytes(), "text.model")


@pytest.fixture(scope="module")
def expected():
    return json.loads((RECORDED / "expected.json").read_text())


@pytest.fixture(scope="module")
def written(vocab, tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpt2")
    return folder, *huggingface.write_gpt2(folder, vocab)


def logits(model, params, tokens):
    return np.stack([language.logits(model, params, row) for row in tokens])


def greedy(model, params, vocab, tokens):
    """Each text with what follows it, up to the model's context."""
    prompts = tokens[:, 1:].tolist()
    *_, ids = continuations.sample(
        params,
        prompts,
        [(i, 0) for i in range(len(prompts))],
        model=model,
        vocabulary=vocab,
        context=huggingface.CONTEXT,
        max_tokens=huggingface.CONTEXT - tokens.shape[1],
        **{"seed": 0, "temperature": 1.0, "top_k": 1, "top_p": 1.0},
    )
    return np.concatenate([tokens, ids], axis=1)


def test_what_is_written_is_what_transformers_has_read(written):
    huggingface.assert_same_files(written[0], RECORDED)


def test_logits_are_those_of_transformers(written, vocab, expected):
    ours = logits(*written[1:], huggingface.tokens(len(vocab)))
    np.testing.assert_allclose(ours, expected["logits"], atol=1e-5)
    assert np.std(ours) > 0.5


def test_a_text_is_continued_as_by_transformers(written, vocab, expected):
    ids = greedy(*written[1:], vocab, huggingface.tokens(len(vocab)))
    assert ids.tolist() == expected["greedy"]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"positions": "interleaved", "attention_bias": True, "activation": "gelu_tanh"},
        {"positions": "halves", "tied_embeddings": False, "activation": "relu"},
        {"positions": "concatenated", "score": "dot", "activation": "silu"},
        {"positions": "none", "d_model": 24, "num_heads": 4, "norm_epsilon": 1e-3},
    ],
)
def test_a_random_model_is_the_same_function_there(tmp_path, vocab, changes):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    torch = pytest.importorskip("torch", reason="torch is not installed")
    model, params = huggingface.write_gpt2(tmp_path, vocab, **changes)
    theirs = transformers.GPT2LMHeadModel.from_pretrained(tmp_path).eval()
    tokens = huggingface.tokens(len(vocab))
    with torch.no_grad():
        expected = theirs(torch.tensor(tokens)).logits.numpy()
        texts = theirs.generate(
            torch.tensor(tokens), do_sample=False, max_length=huggingface.CONTEXT
        ).numpy()
    np.testing.assert_allclose(logits(model, params, tokens), expected, atol=1e-5)
    np.testing.assert_array_equal(greedy(model, params, vocab, tokens), texts)
