"""Any text survives a round trip; equal text gives equal vocabularies; special ids are fixed."""

import io
import random
import struct

import numpy as np
import pytest
import sentencepiece
from helpers.corpora import SIZE, text

from transformer.data import tokenizer, vocabulary
from transformer.errors import UserError


def learn(sentences, **changes):
    options = {"size": SIZE, "kind": "bpe", "character_coverage": 1.0, **changes}
    return vocabulary.learn_pieces(sentences, **options)


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def pieces(request):
    return tokenizer.load(learn(text(0), kind=request.param), "test")


def one_space(sentence):
    """The sentence with the spaces that SentencePiece keeps: single, none at either end."""
    return " ".join(word for word in sentence.split(" ") if word)


def round_trip(pieces, sentences):
    ids = pieces.encode(sentences)
    assert all(sentence[-1] == tokenizer.END for sentence in ids)
    assert tokenizer.UNKNOWN not in {i for sentence in ids for i in sentence}
    return pieces.decode(ids)


def test_special_ids_are_fixed(pieces):
    assert (tokenizer.PAD, tokenizer.END, tokenizer.UNKNOWN, tokenizer.START) == (0, 1, 2, 3)
    model = pieces.processor
    ids = (model.pad_id(), model.eos_id(), model.unk_id(), model.bos_id())
    assert ids == (0, 1, 2, 3)
    assert len(pieces) == SIZE


def test_sentences_end_and_blank_ones_are_the_end_alone(pieces):
    sentences = ["the cat", "", " ", "   ", "나는"]
    ids = pieces.encode(sentences)
    assert [sentence.count(tokenizer.END) for sentence in ids] == [1] * 5
    assert ids[1:4] == [[tokenizer.END]] * 3
    assert len(ids[0]) > 1
    assert pieces.encode([]) == []


def test_a_text_in_place_of_a_list_is_refused(pieces):
    with pytest.raises(TypeError, match=r"\Aexpected a list of texts, .*: give \['the cat'\]\Z"):
        pieces.encode("the cat")


def test_special_ids_are_dropped_from_text(pieces):
    ids = pieces.encode(["the cat sees"])[0]
    padded = [tokenizer.START, *ids, tokenizer.PAD, tokenizer.PAD]
    assert pieces.decode([padded, [tokenizer.END], []]) == ["the cat sees", "", ""]


# U+2581 alone does not come back: SentencePiece writes a space with it. Surrogates are no text.
RANGES = {
    "control characters": [*range(0x20), 0x7F, *range(0x80, 0xA0)],
    "ASCII": range(0x20, 0x7F),
    "Latin": range(0xA0, 0x250),
    "spaces and marks": [0x20, 0xA0, 0x200B, 0x200D, 0x2028, 0x2029, 0x202E, 0x3000, 0xFEFF],
    "Korean": [*range(0xAC00, 0xD7A4), *range(0x1100, 0x1200)],
    "combining": [*range(0x300, 0x370), 0x61, 0x65],
    "emoji": [*range(0x1F300, 0x1F700), 0x200D, 0xFE0F],
    "any": [c for c in range(0x110000) if not 0xD800 <= c < 0xE000 and c != 0x2581],
}


@pytest.mark.parametrize("name", RANGES)
def test_any_text_comes_back(pieces, name):
    """Most of these characters are not in the training text, and fall back to bytes."""
    chosen = random.Random(name)
    characters = [chr(c) for c in RANGES[name]]
    sentences = []
    for _ in range(200):
        sentence = "".join(chosen.choices(characters, k=chosen.randint(0, 30)))
        for _ in range(chosen.randint(0, 3)):
            at = chosen.randint(0, len(sentence))
            sentence = sentence[:at] + chosen.choice([" ", "  ", "the", "사과"]) + sentence[at:]
        sentences.append(sentence)
    expected = [one_space(sentence) for sentence in sentences]
    assert round_trip(pieces, sentences) == expected


@pytest.mark.parametrize(
    "sentence",
    [
        "½",
        "ﬁsh",
        "ＡＢＣ１２３",
        "Å Å",
        "…",
        "ß ẞ",
        "“ ”",
        "㈜",
        "a\u00a0b",
        "e\u0301 é",
        "ไทย",
        "x²",
    ],
)
def test_text_is_not_normalised(pieces, sentence):
    assert round_trip(pieces, [sentence]) == [sentence]


@pytest.mark.parametrize(
    "sentence", ["<s> </s> <pad> <unk>", "<0x41>", "a<s>b", "\0", "a\tb\nc\rd"]
)
def test_names_of_special_pieces_in_a_text_are_text(pieces, sentence):
    assert round_trip(pieces, [sentence]) == [sentence]
    assert tokenizer.START not in pieces.encode([sentence])[0]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_same_text_same_fingerprint(kind):
    first, again, other = (
        tokenizer.load(learn(text(seed), kind=kind), "test") for seed in (0, 0, 1)
    )
    assert first.fingerprint == again.fingerprint
    assert tokenizer.table(first.processor) == tokenizer.table(again.processor)
    assert first.fingerprint != other.fingerprint


def test_fingerprint_names_both_vocabularies():
    ours, theirs = (tokenizer.load(learn(text(seed)), "test") for seed in (0, 1))
    fingerprints = {
        tokenizer.Vocabulary(source, target).fingerprint
        for source in (ours, theirs)
        for target in (ours, theirs)
    }
    assert len(fingerprints) == 4
    assert tokenizer.Vocabulary(ours, ours).shared
    assert not tokenizer.Vocabulary(ours, theirs).shared


# Appended to a model, these change a setting: protobuf merges a message that is given twice.
CHANGES = {
    "model type": b"\x12\x02\x18\x01",
    "whitespace as suffix": b"\x12\x03\xc0\x01\x01",
    "surface of the unknown": b"\x12\x04\xe2\x02\x01?",
    "dummy prefix": b"\x1a\x02\x18\x00",
    "extra whitespace": b"\x1a\x02\x20\x00",
    "escaped whitespace": b"\x1a\x02\x28\x00",
}


@pytest.mark.parametrize("name", CHANGES)
def test_fingerprint_names_each_setting(name):
    model = learn(text(0))
    before, after = (tokenizer.load(m, "test") for m in (model, model + CHANGES[name]))
    assert tokenizer.table(before.processor) == tokenizer.table(after.processor)
    assert before.fingerprint != after.fingerprint


def test_fingerprint_does_not_name_paths_and_the_rule_s_name():
    model = learn(text(0))
    moved = model + b"\x12\x03\x12\x01x" + b"\x1a\x03\x0a\x01x" + b"\x1a\x03\x32\x01x"
    before, after = (tokenizer.load(m, "test") for m in (model, moved))
    assert before.fingerprint == after.fingerprint


@pytest.mark.parametrize(
    "given", [{"normalization_rule_name": "nfkc"}, {"denormalization_rule_tsv": "rules"}], ids=str
)
def test_fingerprint_names_how_text_is_normalised(tmp_path, monkeypatch, given):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules").write_text("63\t78\n")  # c is read back as x
    options = {"vocab_size": SIZE, "model_type": "bpe", "byte_fallback": True, "minloglevel": 2}
    options |= {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": 3}
    options["normalization_rule_name"] = "identity"

    def trained(**changes):
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(text(0)), model_writer=model, **{**options, **changes}
        )
        return tokenizer.load(model.getvalue(), "test")

    first, second = trained(), trained(**given)
    assert tokenizer.table(first.processor) == tokenizer.table(second.processor)
    assert first.fingerprint != second.fingerprint


def test_fingerprint_names_types_and_exact_scores():
    model = learn(text(0), kind="unigram")
    pieces = tokenizer.load(model, "test")
    name, score = (
        pieces.pieces([SIZE - 1])[0].encode(),
        np.float32(pieces.processor.get_score(SIZE - 1)),
    )

    def last(score, *more):
        """The bytes of the last piece in a model's file."""
        piece = bytes([10, len(name), *name, 0x15, *struct.pack("<f", score), *more])
        return bytes([10, len(piece), *piece])

    changed = last(np.nextafter(score, np.float32(0))), last(score, 0x18, 4)  # user-defined
    models = [pieces, *(tokenizer.load(model.replace(last(score), x), "test") for x in changed)]
    assert len(set(map(tokenizer.table, (model.processor for model in models)))) == 1
    assert len(set(model.fingerprint for model in models)) == 3


def test_table_has_a_line_a_piece(pieces):
    lines = tokenizer.table(pieces.processor).splitlines()
    assert len(lines) == SIZE
    assert [line.split("\t")[0] for line in lines[:4]] == ["<pad>", "</s>", "<unk>", "<s>"]


# Mistakes


def message(raised):
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_too_large_a_vocabulary_names_the_largest(kind):
    with pytest.raises(ValueError, match=r"config.vocabulary.size=50000 is more .* \d+$") as raised:
        learn(text(0), kind=kind, size=50_000)
    largest = int(message(raised).rpartition(" ")[2])
    assert len(tokenizer.load(learn(text(0), kind=kind, size=largest), "test")) == largest


def test_too_small_a_vocabulary_is_one_line():
    with pytest.raises(ValueError, match=r"size=100 is too small: .* take 295") as raised:
        learn(text(0), size=100)
    message(raised)


@pytest.mark.parametrize("sentences", [[], ["", ""], [" ", "  "], ["a" * 70_000]], ids=len)
def test_blank_text_teaches_nothing(sentences):
    with pytest.raises(UserError, match=r"\Athe training text is blank .* nothing to learn"):
        learn(sentences)


def test_other_special_ids_are_refused():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text(0)), model_writer=model, vocab_size=50, minloglevel=2
    )
    with pytest.raises(ValueError, match=r"given\.model: .*\(-1, 2, 0, 1\).*--pad_id=0") as raised:
        tokenizer.load(model.getvalue(), "given.model")
    message(raised)


@pytest.mark.parametrize("content", [b"", b"not a model", b"\0" * 1000], ids=["empty", "text", "0"])
def test_not_a_model(content):
    with pytest.raises(ValueError, match=r"^given\.model") as raised:
        tokenizer.load(content, "given.model")
    message(raised)
