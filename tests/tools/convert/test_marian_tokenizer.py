"""The vocabulary of Hugging Face's Marian, written and read."""

import json

import pytest
from helpers import corpora

from transformer.data import tokenizer
from transformer.errors import UserError
from transformer.tools.convert import marian_tokenizer

IDS = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
SHARED = "share_encoder_decoder_embeddings"
SIZES = {"vocab_size": 320, "decoder_vocab_size": 304}  # padded


@pytest.fixture
def shared(tmp_path):
    """The one vocabulary of both sides that is written in tmp_path."""
    source = corpora.learn("source")
    write(tmp_path, tokenizer.Vocabulary(source, source))
    return source


def write(folder, vocabulary):
    marian_tokenizer.write(folder, vocabulary, max_length=64, languages=("", ""))


def test_the_special_pieces_come_first_and_no_two_pieces_have_one_name():
    renumber = marian_tokenizer.renumber
    order = renumber(["</s>", "<unk>", "a", "b", "<pad>"], pad=4, end=0, unknown=1, start=4)
    assert order.old.tolist() == [4, 0, 1, 4, 2, 3]  # the docstring's example
    assert order.pieces == ["<pad>", "</s>", "<unk>", "<s>", "a", "b"]
    order = renumber(["<s>", "</s>", "<unk>", "<p>"], pad=3, end=1, unknown=2, start=3)
    assert len(set(order.pieces)) == len(order.pieces) == 5
    order = renumber(["</s>", "<unk>", "a"], pad=1, end=0, unknown=1, start=0)
    assert order.pieces == ["<pad>", "</s>", "<unk>", "<s>", "a"]
    assert set(order.silent) == {0, 3}  # the copies


@pytest.mark.parametrize(("rule", "normalisation"), [("identity", "nfc"), ("nmt_nfkc", "")])
def test_text_is_composed_where_sentencepiece_changes_nothing(rule, normalisation):
    options = {"vocab_size": 16, "hard_vocab_limit": False, "normalization_rule_name": rule}
    model = corpora.sentencepiece_model(["abc def", "fed cba"] * 20, **options)
    contents = {"source.model": model, "target.model": model}
    assert marian_tokenizer.normalisation(contents) == normalisation


def test_a_language_that_cannot_end_a_file_s_name_is_empty(tmp_path):
    assert marian_tokenizer.languages(tmp_path) == ("", "")  # without the file
    options = {"source_lang": None, "target_lang": "../de"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(options))
    assert marian_tokenizer.languages(tmp_path) == ("", "")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        *(
            ("vocab.json", json.dumps(ids).encode(), "vocab.json is not a table of pieces")
            for ids in ({"a": 0, "b": 0}, {"a": 1, "b": 2}, {"a": "0"}, {"a": 0.0})
        ),
        ("vocab.json", b"[]", "vocab.json is not a JSON object"),
        *(
            (name, content, f"{name} is .*SentencePiece model")
            for name in ("source.spm", "target.spm")
            for content in (b"", b"\x0a\x00")
        ),
        ("added_tokens.json", b'{"x": 9999}', "has the added token 9999, which vocab.json lacks"),
        (
            "tokenizer_config.json",
            b'{"added_tokens_decoder": {"0": {}, "9999": {"content": "x"}}}',
            "has the added token 9999, which vocab.json lacks",
        ),
    ],
)
def test_a_file_that_does_not_fit_is_named(shared, tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=words):
        marian_tokenizer.read(tmp_path, IDS | SIZES | {"eos_token_id": 0, SHARED: True})


def test_two_vocabularies_are_two_tables(tmp_path):
    """Neither is taken for the other's, or for that of a shared matrix."""
    ours = tokenizer.Vocabulary(corpora.learn("source"), corpora.learn("target", size=300))
    write(tmp_path, ours)
    with pytest.raises(UserError, match="separate_vocabs is true, but share_encoder"):
        marian_tokenizer.read(tmp_path, IDS | SIZES | {SHARED: True})
    (tmp_path / "target_vocab.json").unlink()
    with pytest.raises(UserError, match=r"target_vocab.json is missing"):
        marian_tokenizer.read(tmp_path, IDS | SIZES | {SHARED: False})


def test_the_names_of_special_ids_are_text_there_as_here(shared, tmp_path):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    theirs = transformers.MarianTokenizer.from_pretrained(tmp_path)
    for text in ("a </s> b", "<pad><unk> a"):
        pieces = theirs.convert_ids_to_tokens(theirs(text)["input_ids"])
        assert pieces == shared.pieces(shared.encode([text])[0])
