"""Pairs come out of TFDS as they are in the files; mistakes are UserErrors of one line."""

import pathlib

import pytest
from helpers import miniature_wmt
from helpers.corpora import (
    ENGLISH,
    GERMAN,
    TEST,
    TRAIN,
    VALIDATION,
    catalogue,
    everything,
    lines,
    one_line,
)

from transformer.data import corpora

ROOT = str(pathlib.Path(__file__).resolve().parents[2])
# Parallel text: record i is line i.


def test_record_i_is_line_i_and_nothing_is_dropped(text):
    corpus = text({"train.de": lines(GERMAN), "train.en": lines(ENGLISH)})
    assert len(corpus) == 4
    assert everything(corpus) == (GERMAN, ENGLISH)
    assert corpus.read([3, 0, 3]) == (
        ["drei", GERMAN[0], "drei"],
        [ENGLISH[3], ENGLISH[0], *ENGLISH[3:]],
    )
    assert corpus.read([]) == ([], [])


def test_either_direction_shares_one_copy_but_no_fingerprint(text, tmp_path):
    forward = text({"train.de": lines(GERMAN), "train.en": lines(ENGLISH)})
    backward = text(source="en", target="de")
    assert everything(backward) == (ENGLISH, GERMAN)
    assert forward.fingerprint != backward.fingerprint
    assert len(list((tmp_path / "data" / "parallel_text").glob("*-*-*"))) == 1


# WMT 2014, by TFDS's own code, from miniature archives.


@pytest.mark.parametrize("language", ["de", "fr"])
def test_wmt_from_archives_on_disk(tmp_path, no_network, capfd, language):
    corpus = f"wmt14_translate/{language}-en"
    miniature_wmt.write(tmp_path, corpus, TRAIN, VALIDATION, TEST)
    for split, pairs in (("train", TRAIN), ("validation", VALIDATION), ("test", TEST)):
        forward = catalogue(corpus, split, tmp_path, language, "en")
        source, target = everything(forward)
        assert sorted(zip(source, target, strict=True)) == sorted(pairs)  # TFDS's order is a hash's
        backward = catalogue(corpus, split, tmp_path, "en", language)
        assert everything(backward) == (target, source)
        assert forward.fingerprint != backward.fingerprint
    assert capfd.readouterr() == ("", "")  # neither a log line nor a progress bar


# All corpora.


def test_unknown_names(tmp_path):
    with pytest.raises(ValueError, match="did you mean wmt14_translate/de-en") as error:
        catalogue("wmt14/de-en", "train", tmp_path)
    assert "builtin, parallel_text, wmt14_translate/" in one_line(error)
    with pytest.raises(ValueError, match="train, validation, test, found 'dev'"):
        catalogue("wmt14_translate/de-en", "dev", tmp_path)
    with pytest.raises(ValueError, match="'de' and 'en', found source 'fr' and target 'en'"):
        catalogue("wmt14_translate/de-en", "train", tmp_path, "fr", "en")
    with pytest.raises(ValueError, match=r"\Aconfig\.data\.data_dir is a local folder"):
        catalogue("builtin", "train", "gs://bucket/data", "ko", "en")
    assert list(tmp_path.iterdir()) == []


def test_home_folder(text, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "train.de").write_text("a\n")
    (tmp_path / "train.en").write_text("x\n")
    corpora.load(
        "parallel_text",
        "train",
        source_language="de",
        target_language="en",
        directory="~",
        data_dir="~/here",
    )
    assert (tmp_path / "here" / "parallel_text").is_dir()
