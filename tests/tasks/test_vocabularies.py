"""The vocabulary of plain text in a workdir; tests/modes/test_prepare.py has that of pairs."""

import unicodedata

import pytest
from ml_collections import ConfigDict

from transformer.data import characters, tokenizer
from transformer.errors import UserError
from transformer.tasks import splits, vocabularies
from transformer.workdir import workdir

OPTIONS = {"size": 290, "character_coverage": 1.0, "max_sentences": 0, "model": ""}
OPTIONS |= {"normalisation": "nfc"}


@pytest.fixture
def prepared(tmp_path, monkeypatch):
    """A function that prepares a vocabulary of some text; `learnt` counts how often one is learnt.

    It returns (config, vocabulary).
    """

    def prepare(text="the small dog\n", kind="characters", saved_config=None, run="run", **changes):
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
        folder = tmp_path / run
        vocab = vocabularies.prepare(config, folder, saved_config, train, learn)
        workdir.write_config(config, folder)
        return config, vocab

    def learn(*arguments):
        prepare.learnt += 1
        return vocabularies.learn_text(*arguments)

    prepare.learnt, prepare.workdir = 0, tmp_path / "run"
    return prepare


@pytest.mark.parametrize(
    ("kind", "name", "cls"),
    [
        ("characters", "text.characters", characters.Characters),
        ("bpe", "text.model", tokenizer.Pieces),
    ],
)
def test_plain_text_gets_a_vocabulary_of_one_file(prepared, kind, name, cls):
    config, vocab = prepared(kind=kind)
    assert isinstance(vocab, cls)
    assert config.vocabulary.fingerprint == vocab.fingerprint
    [file] = workdir.vocabulary_files(prepared.workdir, config)
    assert file == prepared.workdir / "vocabulary" / name
    assert workdir.read_vocabulary(prepared.workdir, config).fingerprint == vocab.fingerprint
    prepared(kind=kind)
    assert prepared.learnt == 1
    file.write_bytes(b"ab")
    with pytest.raises(UserError, match=rf"damaged: .*{name}"):
        workdir.read_vocabulary(prepared.workdir, config)
    prepared(kind=kind)
    assert workdir.read_vocabulary(prepared.workdir, config).fingerprint == vocab.fingerprint
    assert prepared.learnt == 1


@pytest.mark.parametrize("kind", ["characters", "bpe"])
def test_another_run_of_the_same_text_takes_the_learnt_vocabulary(prepared, tmp_path, kind):
    prepared(kind=kind)
    prepared(kind=kind, run="second")
    assert prepared.learnt == 1
    name = {"characters": "text.characters", "bpe": "text.model"}[kind]
    files = [tmp_path / run / "vocabulary" / name for run in ("run", "second")]
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize("damage", ["change", "remove", "checksums"])
def test_a_damaged_cache_of_a_vocabulary_is_named_and_learnt_again(
    prepared, tmp_path, caplog, damage
):
    _, vocab = prepared(kind="bpe")
    [folder] = (tmp_path / "d" / "vocabularies").iterdir()
    file = folder / ("checksums.json" if damage == "checksums" else "text.model")
    content = file.read_bytes()
    if damage == "change":
        file.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    else:
        file.unlink()
    _, again = prepared(kind="bpe", run="second")
    assert again.fingerprint == vocab.fingerprint
    assert f"damaged: {file}" in caplog.text
    assert "learning the vocabulary again" in caplog.text
    assert prepared.learnt == 2
    prepared(kind="bpe", run="third")
    assert prepared.learnt == 2


@pytest.mark.parametrize("kind", ["characters", "bpe"])
def test_decomposed_text_is_the_composed_text(prepared, kind):
    """Its vocabulary and its ids; without the normalisation neither."""
    texts = [unicodedata.normalize(form, "나는 사과를 좋아해 né\n") for form in ("NFC", "NFD")]

    def learnt(text, normalisation):
        config, vocab = prepared(text, kind, size=282, normalisation=normalisation)
        ids = splits.tokens(config, splits.text(config, "train"), vocab, "").sides["text"].ids
        return vocab.fingerprint, ids.tolist()

    composed, decomposed = (learnt(text, "nfc") for text in texts)
    assert decomposed == composed
    composed_raw, decomposed_raw = (learnt(text, "") for text in texts)
    assert composed_raw[1] == composed[1]
    assert len({composed[0], composed_raw[0], decomposed_raw[0]}) == 3


def test_a_model_file_is_used_as_it_is(prepared, tmp_path):
    _, first = prepared(kind="bpe")
    [file] = (tmp_path / "run" / "vocabulary").glob("*.model")
    copy = file.rename(tmp_path / "copy.model")
    _, second = prepared(text="another text\n", kind="bpe", model=str(copy))
    assert second.fingerprint == first.fingerprint


def test_a_resumed_run_keeps_its_text_and_vocabulary(prepared):
    saved_config, first = prepared()
    _, again = prepared(saved_config=saved_config)
    assert again == first
    with pytest.raises(UserError, match=r"different text: the text of .*train\.txt has changed"):
        prepared(text="other\n", saved_config=saved_config)
    assert prepared.learnt == 1
