"""Vocabularies of plain text as tokenizer.json: the ids that transformers has found, and finds."""

import dataclasses
import io
import json
import random

import pytest
import sentencepiece
from helpers import corpora
from tools.convert import huggingface

from transformer.data import characters, tokenizer
from transformer.data.tokenizer import END, PAD, START, UNKNOWN
from transformer.errors import UserError
from transformer.families.language_model import continuations
from transformer.tools.convert import tokenizer_json

RECORDED = huggingface.FIXTURES / "gpt2"
# Words, spaces of all kinds, emoji, symbols of our own, and what stands for them.
ALPHABET = [
    "the",
    "나는",
    "좋아해",
    *"ᄂ\u1161\u11abé\u0301ㅋab  ▁\t\n\r\0\ufeff\u200b\u00a0\u3000😀👍🏽é<>!",
    "<s>",
    "</s>",
    "<0x41>",
]


def ids_of(vocab, text, lines):
    if lines:
        return [END, *(i for line in vocab.encode(text.split("\n")) for i in line)][:-1]
    return [START, *vocab.encode([text])[0]][:-1]


def vocabularies(kind):
    if kind == "characters":
        return characters.load(characters.learn(corpora.text(0)), "text.characters")
    return huggingface.learn(kind)


def test_ids_are_those_of_transformers():
    vocab = tokenizer.load((RECORDED / "text.model").read_bytes(), "text.model")
    expected = json.loads((RECORDED / "expected.json").read_text())["ids"]
    assert [ids_of(vocab, text, lines=True) for text in huggingface.TEXTS] == expected


@pytest.mark.parametrize("kind", ["bpe", "unigram", "characters"])
@pytest.mark.parametrize(("lines", "normalisation"), [(True, ""), (False, "nfc")])
def test_any_text_has_our_ids_there_and_is_the_text_again(tmp_path, kind, lines, normalisation):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    vocab = dataclasses.replace(vocabularies(kind), normalisation=normalisation)
    tokenizer_json.write(tmp_path, vocab, max_length=99, lines=lines)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    chosen = random.Random(0)
    texts = ["".join(chosen.choices(ALPHABET, k=chosen.randint(0, 20))) for _ in range(500)]
    texts += huggingface.TEXTS
    assert theirs.model_max_length == 99
    for text, ids in zip(texts, theirs(texts)["input_ids"], strict=True):
        assert ids == ids_of(vocab, text, lines)
        if UNKNOWN not in ids:
            decoded = theirs.decode(ids, skip_special_tokens=True)
            ours = continuations.text(vocab, ids) if lines else vocab.decode([ids])[0]
            assert decoded == ours


def test_a_mask_can_be_written(tmp_path):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    vocab = huggingface.learn()
    tokenizer_json.write(tmp_path, vocab, max_length=99, mask=True)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    ids = theirs(f"the {theirs.mask_token} sees")["input_ids"]
    assert ids == [START, *vocab.encode(["the"])[0][:-1], UNKNOWN, *vocab.encode(["sees"])[0][:-1]]


def own_model(**options):
    """A SentencePiece model of one's own, with the ids and bytes of those that a run learns."""
    model = io.BytesIO()
    options = {
        **{"byte_fallback": True, "normalization_rule_name": "identity", "vocab_size": 400},
        **{"pad_id": PAD, "eos_id": END, "unk_id": UNKNOWN, "bos_id": START, "minloglevel": 2},
        **{"hard_vocab_limit": options["model_type"] == "bpe", **options},
    }
    text = iter(corpora.text(0))
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=text, model_writer=model, **options)
    return tokenizer.load(model.getvalue(), "own.model")


def test_special_pieces_of_other_names_are_no_pieces_of_a_text(tmp_path):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    names = {"pad_piece": "[PAD]", "bos_piece": "[CLS]", "eos_piece": "[SEP]", "unk_piece": "<?>"}
    vocab = own_model(model_type="unigram", **names)
    tokenizer_json.write(tmp_path, vocab, max_length=99)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in ("[PAD]", "a[CLS]b[PAD] [CLS]", "<?><0x41>", "[SEP]a"):
        assert theirs(text)["input_ids"] == ids_of(vocab, text, lines=False)


@pytest.mark.parametrize(
    "options",
    [
        {"model_type": "word"},
        {"model_type": "bpe", "normalization_rule_name": "nmt_nfkc"},
        {"model_type": "unigram", "byte_fallback": False},
        {"model_type": "bpe", "user_defined_symbols": "cat"},
    ],
)
def test_another_kind_of_model_is_refused(tmp_path, options):
    vocab = own_model(**options)
    with pytest.raises(UserError, match=r"config.vocabulary.model has other settings"):
        tokenizer_json.write(tmp_path, vocab, max_length=99)
    assert not list(tmp_path.iterdir())
