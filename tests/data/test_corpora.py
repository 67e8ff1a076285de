"""Pairs and lines are those of the files, and of WMT's archives; mistakes are one line."""

import functools

import pytest
from helpers import miniature_wmt
from helpers.corpora import ENGLISH, TEST, TRAIN, VALIDATION, catalogue, generated, lines

from transformer import registry
from transformer.data import corpora
from transformer.errors import UserError

WMT = "wmt14_translate/"


@pytest.mark.parametrize("name", ["parallel_text", "generated", f"{WMT}de-en", f"{WMT}fr-en"])
def test_any_corpus_has_its_splits_in_chunks_and_in_either_direction(
    name, tmp_path, no_network, monkeypatch, capfd
):
    monkeypatch.setattr(corpora, "CHUNK", 7)
    monkeypatch.setitem(registry.CORPORA, "generated", "helpers.corpora:generated")
    pairs = {"train": TRAIN, "validation": VALIDATION, "test": TEST}
    if name == "generated":
        pairs = generated()[1]
    elif name == "parallel_text":
        pairs["train"] = [*TRAIN[1:], ("", "")]  # nothing is dropped
        for split, sides in pairs.items():
            for language, side in zip(("de", "en"), zip(*sides, strict=True), strict=True):
                (tmp_path / f"{split}.{language}").write_bytes(lines(side))
    else:
        miniature_wmt.write(tmp_path, name, *pairs.values())
    language, prints = "fr" if name == f"{WMT}fr-en" else "de", set()
    before = set(tmp_path.iterdir())
    for split, expected in pairs.items():
        load = functools.partial(catalogue, name, split, tmp_path, directory=tmp_path)
        forward, backward = load(language, "en"), load("en", language)
        source, target = forward.read()
        read = list(zip(source, target, strict=True))
        if name.startswith(WMT):  # TFDS's order is a hash's
            read, expected = sorted(read), sorted(expected)
        assert read == expected
        assert backward.read() == (target, source)
        prints |= {forward.fingerprint, backward.fingerprint}
        sizes = [len(x) for x, _ in forward.chunks()]
        assert sizes == [7] * (len(forward) // 7) + [len(forward) % 7]
        chosen = [i for i in (1, 2, 6, 7, 8, 20, 21, 22, 23, 29) if i < len(forward)]
        assert [x for part, _ in forward.chunks(chosen) for x in part] == [
            source[i] for i in chosen
        ]
    assert len(prints) == 6
    assert list(forward.chunks([])) == []
    if not name.startswith(WMT):  # text is read where it lies
        assert set(tmp_path.iterdir()) == before
    assert capfd.readouterr().out == ""  # which is for results


def test_the_fingerprint_is_of_text_and_direction(text):
    before = text({"train.de": b"a\n", "train.en": b"x\n"})
    after = text({"train.de": b"b\n"})
    assert before.fingerprint != after.fingerprint
    assert text().fingerprint == after.fingerprint
    assert text({"dev.de": b"b\n", "dev.en": b"x\n"}, split="dev").fingerprint == after.fingerprint
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
