"""The folder vocabulary/: learnt or taken over, and read; of pairs also modes/test_prepare.py."""

import pathlib
import re
import shutil
import unicodedata

import pytest
from helpers import corpora
from helpers.checkpoints import flip_a_bit, truncate
from ml_collections import ConfigDict

from transformer.data import tokenizer
from transformer.errors import UserError
from transformer.tasks import splits, vocabularies
from transformer.workdir import saved_config

OPTIONS = {"size": 290, "character_coverage": 1.0, "max_sentences": 0, "model": ""}
OPTIONS |= {"normalisation": "nfc"}


class Pairs(corpora.Source):
    """English letters on one side, Greek ones on the other."""

    def __init__(self):
        super().__init__("vocabulary", count=300)
        greek = str.maketrans("abcdef", "αβγδεζ")
        self.pairs = [[source, target.translate(greek)] for source, target in self.pairs]


def learn(seed=0, **options):
    config = {"vocabulary": {**OPTIONS, "kind": "bpe", **options}, "train": {"seed": seed}}
    config = ConfigDict(config)
    return vocabularies.load(config, vocabularies.learn(config, Pairs()), "test")


def letters(learnt):
    pieces = set(learnt.pieces(range(4 + 256, len(learnt))))
    return {letter for piece in pieces for letter in piece} - {"▁"}


@pytest.mark.parametrize(
    ("shared", "source", "target"),
    [(True, "abcdefαβγδεζ", "abcdefαβγδεζ"), (False, "abcdef", "αβγδεζ")],
)
def test_a_shared_model_is_of_both_sides_and_two_models_are_of_one_each(shared, source, target):
    loaded = learn(shared=shared)
    assert loaded.shared == shared
    assert [letters(side) for side in loaded] == [set(source), set(target)]


def test_of_a_large_corpus_random_sentences_are_taken():
    """The seed chooses them; up to the limit it does not matter."""
    limits = [(100, 0), (100, 0), (100, 1), (0, 0), (600, 1)]
    learnt = (learn(shared=True, max_sentences=most, seed=seed) for most, seed in limits)
    few, again, others, *all_sentences = (vocab.fingerprint for vocab in learnt)
    assert few == again
    assert all_sentences[0] == all_sentences[1]
    assert len({few, others, *all_sentences}) == 3


@pytest.fixture
def prepared(tmp_path):
    """A function that prepares the vocabulary of some text; it returns (config, vocabulary)."""

    def prepare(text="the small dog\n", kind="bpe", saved_config=None, run="run", **changes):
        (tmp_path / "train.txt").write_text(text * 9)
        data = {"train": "train.txt", "directory": str(tmp_path), "data_dir": str(tmp_path / "d")}
        config = ConfigDict(
            {
                "data": {**data, "fingerprint": ""},
                "vocabulary": {**OPTIONS, "kind": kind, "fingerprint": "", **changes},
                "train": {"seed": 0},
                "parallel": {},
            }
        )
        train = splits.text(config, "train")
        return config, vocabularies.prepare(config, tmp_path / run, saved_config, train)

    return prepare


def test_plain_text_gets_a_vocabulary_of_one_file(prepared, tmp_path):
    """Another run of the same text learns the same."""
    config, vocab = prepared()
    assert isinstance(vocab, tokenizer.Pieces)
    file = tmp_path / "run" / "vocabulary" / "text.model"
    prepared(run="second")
    assert (tmp_path / "second" / "vocabulary" / "text.model").read_bytes() == file.read_bytes()
    assert not (tmp_path / "d").exists()
    read = vocabularies.read(tmp_path / "run", config)
    assert read.fingerprint == vocab.fingerprint == config.vocabulary.fingerprint


def test_decomposed_text_is_the_composed_text(prepared):
    """Its vocabulary and its ids; without the normalisation neither."""
    texts = [unicodedata.normalize(form, "나는 사과를 좋아해 né\n") for form in ("NFC", "NFD")]

    def learnt(text, normalisation):
        config, vocab = prepared(text, size=282, normalisation=normalisation)
        ids = splits.tokens(config, splits.text(config, "train"), vocab, "").sides["text"].ids
        return vocab.fingerprint, ids.tolist()

    composed, decomposed = (learnt(text, "nfc") for text in texts)
    assert decomposed == composed
    composed_raw, decomposed_raw = (learnt(text, "") for text in texts)
    assert composed_raw[1] == composed[1]
    assert len({composed[0], composed_raw[0], decomposed_raw[0]}) == 3


def test_a_model_file_is_used_as_it_is(prepared, tmp_path):
    _, first = prepared()
    [file] = (tmp_path / "run" / "vocabulary").glob("*.model")
    copy = file.rename(tmp_path / "copy.model")
    _, second = prepared(text="another text\n", model=str(copy))
    assert second.fingerprint == first.fingerprint


def test_a_resumed_run_keeps_its_text_and_vocabulary(prepared, monkeypatch):
    saved_config, first = prepared()
    monkeypatch.delattr(vocabularies, "learn")
    _, again = prepared(saved_config=saved_config)
    assert again.fingerprint == first.fingerprint
    with pytest.raises(UserError, match=r"other data: \S*train\.txt has changed"):
        prepared(text="other\n", saved_config=saved_config)


@pytest.mark.parametrize(
    "damage", [flip_a_bit, truncate, pathlib.Path.unlink], ids=lambda damage: damage.__name__
)
@pytest.mark.parametrize("name", ["shared.model", "checksums.json"])
def test_a_runs_damaged_vocabulary_is_refused_by_name(tiny_run, tmp_path, name, damage):
    """Also where the pieces are the same: other flags make other ids."""
    shutil.copytree(tiny_run.workdir / "vocabulary", tmp_path / "vocabulary")
    config = saved_config.read_config(tiny_run.workdir)
    vocabularies.read(tmp_path, config)
    damaged = tmp_path / "vocabulary" / name
    damage(damaged)
    if name == "checksums.json" and not damaged.exists():
        vocabularies.read(tmp_path, config)
        (tmp_path / "vocabulary" / "shared.model").unlink()
        damaged = "shared.model (missing)"
    with pytest.raises(UserError, match=rf"\A.*damaged.*{re.escape(str(damaged))}.*\Z"):
        vocabularies.read(tmp_path, config)


def taken_over(source, kind="bpe", **options):
    return vocabularies.given(
        ConfigDict({"vocabulary": {"model": source, "kind": kind, **options}})
    )


def test_models_are_taken_from_one_file_or_two_or_a_folder(tmp_path):
    contents = [corpora.learn(seed).processor.serialized_model_proto() for seed in (0, 1)]
    files = [tmp_path / "a.model", tmp_path / "b.model"]
    for file, content in zip(files, contents, strict=True):
        file.write_bytes(content)
    assert taken_over(str(files[0]), shared=True) == {"shared.model": contents[0]}
    both = dict(zip(("source.model", "target.model"), contents, strict=True))
    assert taken_over(f"{files[0]},{files[1]}", shared=False) == both
    for file, name in zip(files, both, strict=True):  # as in another run's folder
        file.rename(tmp_path / name)
    assert taken_over(str(tmp_path), shared=False) == both


def test_files_that_cannot_be_a_vocabulary_are_one_line(prepared, tmp_path):
    for source in ("a,b", str(tmp_path)):
        words = rf"\Aconfig\.vocabulary\.model={source}: expected .*, or files for shared\.model\Z"
        with pytest.raises(UserError, match=words):
            taken_over(source, shared=True)
    (tmp_path / "wrong").write_bytes(b"text")
    with pytest.raises(UserError, match=r"\Atext\.model of .*/wrong is not a SentencePiece model"):
        prepared(model=str(tmp_path / "wrong"))
