"""Any text survives a round trip; equal text gives equal vocabularies; special ids are fixed."""

import random

import numpy as np
import pytest
import sentencepiece
from helpers.corpora import SIZE, sentencepiece_model, text
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from transformer.data import tokenizer
from transformer.errors import UserError


def learn(sentences, **changes):
    options = {"size": SIZE, "kind": "bpe", "character_coverage": 1.0, **changes}
    return tokenizer.learn_pieces(sentences, **options)


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def pieces(request):
    return tokenizer.load(learn(text(0), kind=request.param), "test")


def round_trip(pieces, sentences):
    ids = pieces.encode(sentences)
    assert all(sentence[-1] == tokenizer.END for sentence in ids)
    assert tokenizer.UNKNOWN not in {i for sentence in ids for i in sentence}
    return pieces.decode(ids)


def test_special_ids_are_fixed(pieces):
    assert (tokenizer.PAD, tokenizer.END, tokenizer.UNKNOWN, tokenizer.START) == (0, 1, 2, 3)
    model = pieces.processor
    assert (model.pad_id(), model.eos_id(), model.unk_id(), model.bos_id()) == (0, 1, 2, 3)
    assert len(pieces) == SIZE


def test_sentences_end_and_blank_ones_are_the_end_alone(pieces):
    ids = pieces.encode(["the cat", "", " ", "   ", "나는"])
    assert [sentence.count(tokenizer.END) for sentence in ids] == [1] * 5
    assert ids[1:4] == [[tokenizer.END]] * 3
    assert len(ids[0]) > 1
    assert pieces.encode([]) == []


def test_a_text_in_place_of_a_list_is_refused(pieces):
    with pytest.raises(TypeError, match=r"\Aexpected a list of texts, .*: give \['the cat'\]\Z"):
        pieces.encode("the cat")


def test_special_ids_are_dropped_from_text(pieces):
    padded = [tokenizer.START, *pieces.encode(["the cat sees"])[0], tokenizer.PAD, tokenizer.PAD]
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
    # With the spaces that SentencePiece keeps: single, none at either end.
    assert round_trip(pieces, sentences) == [
        " ".join(filter(None, x.split(" "))) for x in sentences
    ]


def test_text_is_not_normalised_and_names_of_special_pieces_are_text(pieces):
    sentences = ["½ ﬁsh ＡＢＣ１２３ Å Å … ß ẞ “ ” ㈜ a\u00a0b e\u0301 é ไทย x²"]
    sentences += ["<s> </s> <pad> <unk>", "<0x41>", "a<s>b", "\0", "a\tb\nc\rd"]
    assert round_trip(pieces, sentences) == sentences
    assert tokenizer.START not in {i for ids in pieces.encode(sentences) for i in ids}


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_equal_text_has_equal_fingerprints_and_a_pair_names_both(kind):
    ours, again, theirs = (
        tokenizer.load(learn(text(seed), kind=kind), "test") for seed in (0, 0, 1)
    )
    assert ours.fingerprint == again.fingerprint
    pairs = [tokenizer.Vocabulary(x, y) for x in (ours, theirs) for y in (ours, theirs)]
    assert len({pair.fingerprint for pair in pairs}) == 4
    assert [pair.shared for pair in pairs] == [True, False, False, True]


NFKC = sentencepiece.SentencePieceNormalizer(rule_name="nfkc").serialized_model_proto()
CHARSMAP = ModelProto.FromString(NFKC).normalizer_spec.precompiled_charsmap


@pytest.mark.parametrize(
    ("section", "field", "value"),
    [
        ("trainer_spec", "model_type", ModelProto().trainer_spec.BPE),
        ("normalizer_spec", "precompiled_charsmap", CHARSMAP),
        ("normalizer_spec", "add_dummy_prefix", False),
        ("denormalizer_spec", "precompiled_charsmap", CHARSMAP),
        ("last piece", "type", ModelProto.SentencePiece.USER_DEFINED),
        ("last piece", "score", np.nextafter(np.float32(-9), np.float32(0))),
        ("trainer_spec", "model_prefix", "x"),  # a path, which changes no id and no text
    ],
)
def test_a_fingerprint_is_of_what_ids_and_text_depend_on(section, field, value):
    model = ModelProto.FromString(learn(text(0), kind="unigram"))
    model.pieces[-1].score = -9
    before = tokenizer.load(model.SerializeToString(), "test")
    changed = model.pieces[-1] if section == "last piece" else getattr(model, section)
    setattr(changed, field, value)
    after = tokenizer.load(model.SerializeToString(), "test")
    assert (before.fingerprint == after.fingerprint) == (value == "x")


@pytest.mark.parametrize(
    ("sentences", "size", "words"),
    [
        (text(0), 50_000, r"config\.vocabulary\.size=50000: Vocabulary size too high .* <= \d+\.$"),
        (text(0), 100, r"config\.vocabulary\.size=100: .*smaller than required_chars. 100 vs 295"),
        ([" ", ""], SIZE, "the training text is blank .* nothing to learn"),
        (["a" * 70_000], SIZE, "the training text is blank .* nothing to learn"),
    ],
    ids=["large", "small", "blank", "long"],
)
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_text_that_does_not_support_a_vocabulary_is_one_line(kind, sentences, size, words):
    with pytest.raises(UserError, match=rf"\A{words}.*\Z"):
        learn(sentences, kind=kind, size=size)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (lambda: b"", " is not a SentencePiece model"),
        (lambda: b"not a model", " is not a SentencePiece model"),
        # SentencePiece is C++: a piece that is no text could end the process, not only raise.
        (lambda: learn(text(0)).replace(b"<unk>", b"<un\xbe>", 1), " is not a SentencePiece model"),
        (lambda: sentencepiece_model(text(0), vocab_size=50), r": .*\(-1, 2, 0, 1\).*--pad_id=0"),
    ],
    ids=["empty", "text", "damaged piece", "special ids"],
)
def test_a_model_that_is_none_is_refused_in_a_line(content, words):
    with pytest.raises(UserError, match=rf"\Agiven\.model{words}.*\Z"):
        tokenizer.load(content(), "given.model")
