"""A run's vocabulary: read from files, or learnt from plain text, either side, or both."""

import pytest
from helpers.corpora import SIZE, Source, text

from transformer.data import characters, tokenizer, vocabulary
from transformer.errors import UserError


class Pairs(Source):
    """English letters on one side, Greek ones on the other."""

    def __init__(self):
        super().__init__("vocabulary", count=300)
        greek = str.maketrans("abcdef", "αβγδεζ")
        self.pairs = [[source, target.translate(greek)] for source, target in self.pairs]


def learn(**changes):
    options = {"kind": "bpe", "size": 290, "character_coverage": 1.0, "max_sentences": 0, "seed": 0}
    options["normalisation"] = ""
    models = vocabulary.learn_models(Pairs(), **{"shared": True, **options, **changes})
    return [tokenizer.load(model, "learnt") for model in models]


def letters(learnt):
    pieces = set(learnt.pieces(range(4 + 256, len(learnt))))
    return {letter for piece in pieces for letter in piece} - {"▁"}


def test_a_shared_model_is_of_both_sides_and_two_models_are_of_one_each():
    [shared] = learn()
    assert letters(shared) == set("abcdefαβγδεζ")
    source, target = learn(shared=False)
    assert (letters(source), letters(target)) == (set("abcdef"), set("αβγδεζ"))


def test_of_a_large_corpus_random_sentences_are_taken():
    """The seed chooses them; up to the limit it does not matter."""
    few = [learn(max_sentences=100, seed=seed)[0].fingerprint for seed in (0, 0, 1)]
    assert few[0] == few[1] != few[2]
    everything = [
        learn(max_sentences=most, seed=seed)[0].fingerprint for most, seed in ((0, 0), (600, 1))
    ]
    assert everything[0] == everything[1]
    assert everything[0] not in few


def test_models_are_read_from_one_file_or_two(tmp_path):
    contents = [
        tokenizer.learn(text(seed), size=SIZE, kind="bpe", character_coverage=1.0)
        for seed in (0, 1)
    ]
    files = [tmp_path / "a.model", tmp_path / "b.model"]
    for file, content in zip(files, contents, strict=True):
        file.write_bytes(content)
    both = ["source.model", "target.model"]
    assert vocabulary.read(str(files[0]), ["shared.model"]) == contents[:1]
    assert vocabulary.read(f"{files[0]},{files[1]}", both) == contents
    for file, name in zip(files, both, strict=True):  # as in another run's folder
        file.rename(tmp_path / name)
    assert vocabulary.read(str(tmp_path), both) == contents


@pytest.mark.parametrize(
    ("source", "names", "words"),
    [
        ("a,b", "shared.model", r"names 2 file\(s\), expected one"),
        ("a", "source.model target.model", r"names 1 file\(s\), expected two: SOURCE,TARGET"),
        ("a", "shared.model", r": a does not exist$"),
        (".", "shared.model", r"shared.model does not exist: expected .* same config.*kind"),
        (".", "source.model target.model shared.pieces", "source.model does not exist: expected"),
        ("wrong", "shared.model", "wrong is not a SentencePiece model"),
        ("wrong", "text.characters", "wrong is not a folder: expected WORKDIR/vocabulary"),
    ],
)
def test_files_that_cannot_be_a_vocabulary_are_one_line(
    source, names, words, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong").write_bytes(b"text")
    with pytest.raises(UserError, match=rf"\A.*{words}.*\Z"):
        vocabulary.read(source, names.split())


class Lines(Source):
    """Plain text: the targets of the pairs."""

    def read(self, indices):
        return super().read(indices)[1:]


TEXT_OPTIONS = {"character_coverage": 1.0, "max_sentences": 0, "seed": 0, "normalisation": ""}


def test_plain_text_has_pieces_or_characters():
    text = Lines("text", count=300)
    pieces = vocabulary.learn_text(text, kind="bpe", size=290, **TEXT_OPTIONS)
    loaded = vocabulary.load({"vocabulary/text.model": pieces})
    assert isinstance(loaded, tokenizer.Pieces)
    assert letters(loaded) == set("abcdef")
    table = vocabulary.learn_text(text, kind="characters", size=0, **TEXT_OPTIONS)
    assert table == b" abcdef"
    assert vocabulary.load({"vocabulary/text.characters": table}) == characters.Characters(
        " abcdef"
    )
    [lines] = text.read(range(300))
    assert loaded.decode(loaded.encode(lines)) == lines


def test_a_vocabulary_of_pairs_is_loaded_from_one_file_or_two():
    model = tokenizer.learn(text(0), size=SIZE, kind="bpe", character_coverage=1.0)
    assert vocabulary.load({"shared.model": model}).shared
    assert not vocabulary.load({"source.model": model, "target.model": model}).shared
