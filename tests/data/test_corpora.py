"""Pairs come out of TFDS as they are in the files; mistakes are UserErrors of one line."""

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
from transformer.errors import UserError

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


# Plain text: record i is line i.


def plain(folder, split="train.txt"):
    folders = {"directory": str(folder), "data_dir": str(folder / "data")}
    return corpora.load_text(split, **folders, key="split")


def test_plain_text_is_read_line_by_line(tmp_path):
    (tmp_path / "train.txt").write_bytes(lines(ENGLISH))
    text = plain(tmp_path)
    assert everything(text) == (ENGLISH,)
    assert text.read([3, 0, 3]) == ([ENGLISH[3], ENGLISH[0], ENGLISH[3]],)
    assert text.files == (str(tmp_path / "train.txt"),)


def test_the_fingerprint_of_plain_text_is_of_its_content(tmp_path):
    (tmp_path / "train.txt").write_bytes(lines(ENGLISH))
    (tmp_path / "same.txt").write_bytes(lines(ENGLISH, "\r\n"))
    whole = plain(tmp_path)
    part = plain(tmp_path, "train.txt[:75%]")
    assert everything(part) == (ENGLISH[:3],)
    assert part.fingerprint != whole.fingerprint
    (tmp_path / "train.txt").write_bytes(lines([*ENGLISH[:3], "other"]))
    assert everything(plain(tmp_path)) == ([*ENGLISH[:3], "other"],)
    assert plain(tmp_path).fingerprint != whole.fingerprint


@pytest.mark.parametrize(
    ("content", "split", "words"),
    [
        (b"", "train.txt", "train.txt is empty"),
        (b"a\n", "train.txt[:50%]", "train.txt, from 0 to 50 %, is empty: the file has 1 line"),
        (b"", "train.txt[:50%]", "train.txt is empty"),
        (b"a", "train.txt[:10% of characters]", "from 0 to 10 %, is empty: the file has 1 line"),
        (b"a\nb\n\xff\n", "train.txt", r"train.txt, line 3, is not UTF-8: .* as by iconv -f"),
        (b"a\n", "missing.txt", "split='missing.txt': expected one of"),
    ],
)
def test_plain_text_that_cannot_be_read_is_one_line(tmp_path, content, split, words):
    (tmp_path / "train.txt").write_bytes(content)
    for _ in range(2):  # nothing is left that a second attempt would take for the corpus
        with pytest.raises(UserError, match=words) as error:
            plain(tmp_path, split)
        one_line(error)


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
    assert "'parallel_text', 'wmt14_translate/" in one_line(error)
    with pytest.raises(ValueError, match="train, validation, test, found 'dev'"):
        catalogue("wmt14_translate/de-en", "dev", tmp_path)
    with pytest.raises(ValueError, match="'de' and 'en', found source 'fr' and target 'en'"):
        catalogue("wmt14_translate/de-en", "train", tmp_path, "fr", "en")
    with pytest.raises(ValueError, match=r"\Aconfig\.data\.data_dir must be a local folder"):
        catalogue("wmt14_translate/de-en", "train", "gs://bucket/data")
    assert list(tmp_path.iterdir()) == []


def test_a_home_is_a_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for language in ("de", "en"):
        (tmp_path / f"train.{language}").write_text("a\n")
    options = {"data_dir": "~/here", "key": "split"}
    corpora.load("parallel_text", "train", ("de", "en"), directory="~", **options)
    corpora.load_text("train.de", directory="~", **options)
    assert {path.name for path in (tmp_path / "here").iterdir()} >= {"parallel_text", "plain_text"}
    options |= {"directory": "~nobody.here/x"}
    words = r"~nobody\.here/x \(config\.data\.directory\) does not"
    with pytest.raises(UserError, match=words):
        corpora.load_text("train", **options)
    with pytest.raises(UserError, match=words):
        corpora.load("parallel_text", "train", ("de", "en"), **options)
