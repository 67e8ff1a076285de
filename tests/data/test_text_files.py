"""Lines come as they are in the files; a file that cannot be read is a UserError of one line."""

import gzip
import lzma

import pytest
from helpers.corpora import ENGLISH, GERMAN, lines

from transformer.data import text_files
from transformer.errors import UserError


@pytest.mark.parametrize(("end", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_compressed_files(text, end, compress):
    corpus = text({f"train.de{end}": compress(lines(GERMAN)), "train.en": lines(ENGLISH)})
    assert corpus.read() == (GERMAN, ENGLISH)
    plain = text({"dev.de": lines(GERMAN), "dev.en": lines(ENGLISH)}, split="dev")
    assert plain.fingerprint == corpus.fingerprint  # of the content, not of its packing


def test_two_files_by_name(text, tmp_path):
    reference = tmp_path / "elsewhere" / "ref.txt"
    reference.parent.mkdir()
    reference.write_bytes(lines(ENGLISH))
    corpus = text({"src.sgm.txt": lines(GERMAN)}, split=f"src.sgm.txt, {reference}")
    assert corpus.read() == (GERMAN, ENGLISH)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"train.de": b"ok\n" * 1000 + b"caf\xe9\n"}, r"train\.de, line 1001, is not UTF-8"),
        ({"train.de": "a\nb".encode("utf-16")}, r"train\.de, line 1, is not UTF-8: .* iconv"),
        ({"train.de.gz": gzip.compress(lines(GERMAN) * 999)[:-20]}, r"train\.de\.gz is corrupt"),
        ({"train.de.gz": lines(GERMAN)}, r"train\.de\.gz is corrupt"),
        ({"train.de.xz": b"a\n"}, r"train\.de\.xz is corrupt, or not in the format of its name"),
        # The older format, which has no check of its content.
        ({"train.de.xz": lzma.compress(b"a\nb\n", lzma.FORMAT_ALONE)}, r"train\.de\.xz is corrupt"),
        ({"train.de/a": b""}, r"expected one of .*, found none; .* has train\.de, train\.en"),
        ({"train.ko": b""}, r"one of .*de, .*de\.gz, .*xz, found none; .* train\.en, train\.ko"),
        ({"train.de": b"a\n", "train.de.gz": b""}, r"found .*train\.de and .*train\.de\.gz; "),
        ({"train.de": b"a\n" * 3}, r"train\.de has 3 lines and .*train\.en has 2: line i"),
        ({"train.de": b"", "train.en": b"\xef\xbb\xbf"}, r"train\.de has 0 lines and"),
    ],
)
def test_files_that_cannot_be_read_are_one_line(text, files, words):
    count = 1001 if "line 1001" in words else 2
    with pytest.raises(UserError, match=rf"\A.*{words}.*\Z"):  # a `.` takes no line break
        text({"train.en": b"x\n" * count, **files}).read()


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, r"text \(config\.data\.directory\) is not a folder: set"),
        ({"split": "a,b,c"}, "must be a stem or SOURCE_FILE,TARGET_FILE, found"),
        ({"target": "de"}, r"config\.data\.source_language .* two different codes"),
        ({"source": "", "target": ""}, r"config\.data\.source_language .* two different codes"),
    ],
)
def test_a_folder_split_or_languages_that_name_no_two_files_are_one_line(text, asked, words):
    with pytest.raises(UserError, match=rf"\A.*{words}.*\Z"):
        text(**asked)


def test_the_other_language_is_the_one_that_the_training_files_have(tmp_path):
    """Other stems, and other ends of their files, are not looked at."""
    for name in ("train.ko", "train.en.gz", "dev.fr", "a/x.ko.xz", "a/x.en", "old.de", "old.fr"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert text_files.other_language(tmp_path, "train", "en") == "ko"
    assert text_files.other_language(tmp_path, "a/x", "ko") == "en"
    for stem, others in (("old", "de, fr"), ("test", "none")):
        words = rf"besides 'en', .* {stem}\.LANGUAGE have {others}; .* has a"
        with pytest.raises(UserError, match=rf"\Aset config.*_language: {words}.*\Z"):
            text_files.other_language(tmp_path, stem, "en")


TEXT = ["first line", "", "drei 🏠", "four", "fünf"]


def parts(folder, split, key="config.data.train"):
    return text_files.find_parts(folder, split, key)


def content(folder, split):
    chosen = parts(folder, split)
    read = [line for part in chosen for line in text_files.lines_of_part(part)]
    assert sum(map(text_files.count_lines, chosen)) == len(read)
    return read


def test_a_split_is_a_file_or_several_or_parts_of_them(tmp_path):
    (tmp_path / "a.txt").write_bytes(lines(TEXT))
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(lines(["x", "y"])))
    assert content(tmp_path, "a.txt") == TEXT
    assert content(tmp_path, "b.txt, a.txt[:40%]") == ["x", "y", *TEXT[:2]]
    assert content(tmp_path, "a.txt[40%:]") == TEXT[2:]
    assert content(tmp_path, "a.txt[20%:60%]") == TEXT[1:3]


@pytest.mark.parametrize("end", [b"", b"\n"])
@pytest.mark.parametrize("unit", ["", " of characters"])
def test_parts_that_meet_have_all_of_the_text_once(tmp_path, unit, end):
    """Of characters, too; then a line may be cut in two."""
    text = TEXT * 20  # so that a part of 1 % has a line
    (tmp_path / "a.txt").write_bytes("\n".join(text).encode() + end)
    whole = "\n".join(text) + "\n"
    for percent in range(1, 100):
        head = content(tmp_path, f"a.txt[:{percent}%{unit}]")
        tail = content(tmp_path, f"a.txt[{percent}%:{unit}]")
        if not unit:
            assert (head, tail) == (text[:percent], text[percent:])
            continue
        cut = len(whole) * percent // 100
        joined = lambda some: "".join(f"{line}\n" for line in some)
        assert joined(head) in (whole[:cut], whole[:cut] + "\n")  # a cut line ends, too
        assert joined(tail) == whole[cut:]


@pytest.mark.parametrize(
    ("split", "words"),
    [
        ("b.txt", r"expected one of .*b\.txt, .*b\.txt\.gz, .*b\.txt\.xz, found none; .* has a"),
        ("a.txt[:9]", r"expected FILE or a part of it, such as FILE\[:90%\].* 'a.txt\[:9\]'"),
        ("a.txt,", "expected FILE or a part of it.*, found ''"),
        ("c.txt", r"found .*c\.txt and .*c\.txt\.gz"),
        ("a.txt[:50%]", r"'a\.txt\[:50%\]' is empty, of .*a\.txt"),
        ("a.txt[:10% of characters]", "is empty"),
        ("empty", "'empty' is empty"),
    ],
)
def test_a_split_that_names_no_text_is_one_line(tmp_path, split, words):
    for name in ("a.txt", "c.txt", "c.txt.gz"):
        (tmp_path / name).write_bytes(b"a\n")
    (tmp_path / "empty").touch()
    with pytest.raises(UserError, match=rf"\Aconfig\.data\.train='.*{words}.*\Z"):
        parts(tmp_path, split)
