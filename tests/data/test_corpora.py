"""Pairs and lines are those of the files, and of WMT's archives; mistakes are one line."""

import pytest
from helpers import miniature_wmt
from helpers.corpora import ENGLISH, GERMAN, TEST, TRAIN, VALIDATION, catalogue, lines

from transformer import registry
from transformer.data import corpora
from transformer.errors import UserError


def test_item_i_is_line_i_and_nothing_is_dropped(text, tmp_path):
    corpus = text({"train.de": lines(GERMAN), "train.en": lines(ENGLISH)})
    assert len(corpus) == 4
    assert corpus.read() == (GERMAN, ENGLISH)
    assert list(corpus.chunks([0, 3])) == [([GERMAN[0], "drei"], [ENGLISH[0], ENGLISH[3]])]
    assert list(corpus.chunks([])) == []
    assert text(source="en", target="de").read() == (ENGLISH, GERMAN)
    assert not (tmp_path / "data").exists()  # text is read where it lies


def test_chunks_follow_each_other_in_any_corpus(text, tmp_path, no_network, monkeypatch):
    monkeypatch.setattr(corpora, "CHUNK", 7)
    monkeypatch.setitem(registry.CORPORA, "generated", "helpers.corpora:generated")
    miniature_wmt.write(tmp_path, "wmt14_translate/de-en", TRAIN, VALIDATION, TEST)
    german, english = zip(*TRAIN, strict=True)
    files = {"train.de": lines(german), "train.en": lines(english)}
    names = ("generated", "wmt14_translate/de-en")
    for corpus in (text(files), *(catalogue(name, "train", tmp_path) for name in names)):
        source, target = corpus.read()
        chunks = list(corpus.chunks())
        assert [len(x) for x, _ in chunks] == [7, 7, 7, 7, 2]
        assert [line for _, y in chunks for line in y] == target
        chosen = [1, 6, 7, 8, 20, 21, 22, 23, 29]
        assert [line for x, _ in corpus.chunks(chosen) for line in x] == [source[i] for i in chosen]


def test_a_generated_corpus_has_its_splits_in_either_direction(tmp_path, monkeypatch):
    monkeypatch.setitem(registry.CORPORA, "generated", "helpers.corpora:generated")
    prints = set()
    for split in corpora.SPLITS:
        forward, backward = (
            catalogue("generated", split, tmp_path, *pair) for pair in (("de", "en"), ("en", "de"))
        )
        german, english = forward.read()
        assert (german[:2], len(english)) == ([f"{split} 0", f"{split} 1"], 30)
        assert backward.read() == (english, german)
        prints |= {forward.fingerprint, backward.fingerprint}
    assert len(prints) == 6
    assert not list(tmp_path.iterdir())


def test_the_fingerprint_is_of_text_and_direction(text):
    before = text({"train.de": b"a\n", "train.en": b"x\n"})
    after = text({"train.de": b"b\n"})
    assert before.fingerprint != after.fingerprint
    assert text().fingerprint == after.fingerprint
    moved = text({"dev.de": b"b\n", "dev.en": b"x\n"}, split="dev")
    assert moved.fingerprint == after.fingerprint
    assert text(source="en", target="de").fingerprint != after.fingerprint


def plain(folder, split="train.txt"):
    return corpora.load_text(split, directory=str(folder), key="split")


def test_the_fingerprint_of_plain_text_is_of_its_content(tmp_path):
    (tmp_path / "train.txt").write_bytes(lines(ENGLISH))
    whole, part = plain(tmp_path), plain(tmp_path, "train.txt[:75%]")
    assert whole.read() == (ENGLISH,)
    assert list(whole.chunks([0, 3])) == [([ENGLISH[0], ENGLISH[3]],)]
    assert whole.files == (str(tmp_path / "train.txt"),)
    assert part.read() == (ENGLISH[:3],)
    assert part.fingerprint != whole.fingerprint
    (tmp_path / "train.txt").write_bytes(lines([*ENGLISH[:3], "other"]))
    assert plain(tmp_path).read() == ([*ENGLISH[:3], "other"],)
    assert plain(tmp_path).fingerprint != whole.fingerprint


@pytest.mark.parametrize("language", ["de", "fr"])
def test_wmt_from_archives_on_disk(tmp_path, no_network, capfd, language):
    corpus = f"wmt14_translate/{language}-en"
    miniature_wmt.write(tmp_path, corpus, TRAIN, VALIDATION, TEST)
    for split, pairs in (("train", TRAIN), ("validation", VALIDATION), ("test", TEST)):
        forward = catalogue(corpus, split, tmp_path, language, "en")
        source, target = forward.read()
        assert sorted(zip(source, target, strict=True)) == sorted(pairs)  # TFDS's order is a hash's
        backward = catalogue(corpus, split, tmp_path, "en", language)
        assert backward.read() == (target, source)
        assert forward.fingerprint != backward.fingerprint
    assert capfd.readouterr().out == ""  # which is for results


def test_unknown_names(tmp_path):
    said = r"\A.*'parallel_text', 'wmt14_translate/.*did you mean wmt14_translate/de-en.*\Z"
    with pytest.raises(UserError, match=said):
        catalogue("wmt14/de-en", "train", tmp_path)
    with pytest.raises(ValueError, match="train, validation, test, found 'dev'"):
        catalogue("wmt14_translate/de-en", "dev", tmp_path)
    with pytest.raises(ValueError, match="'de' and 'en', found source 'fr' and target 'en'"):
        catalogue("wmt14_translate/de-en", "train", tmp_path, "fr", "en")
    with pytest.raises(ValueError, match=r"\Aconfig\.data\.data_dir must be a local folder"):
        catalogue("wmt14_translate/de-en", "train", "gs://bucket/data")
    assert list(tmp_path.iterdir()) == []
