"""Lines come as they are in the files; a file that cannot be read is a UserError of one line."""

import gzip
import lzma
import os
from pathlib import Path

import pytest
from helpers.corpora import ENGLISH, GERMAN, lines, one_line

from transformer.data import text_files
from transformer.errors import UserError


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(lines(["a", "b"], "\r\n"), id="windows line ends"),
        pytest.param(b"\xef\xbb\xbfa\nb\n", id="byte order mark"),
        pytest.param(b"a\nb", id="no final newline"),
        pytest.param(b"\xef\xbb\xbfa\r\nb", id="all three"),
    ],
)
def test_line_ends_and_byte_order_mark_are_not_text(text, content):
    corpus = text({"train.de": content, "train.en": b"x\ny\n"})
    assert corpus.read() == (["a", "b"], ["x", "y"])


@pytest.mark.parametrize("inside", ["\u2028", "\x85", "\x0b", "\x0c", "\x1e", "\r", "\0", "\ufeff"])
def test_only_newline_ends_a_line(text, inside):
    german = [f"a{inside}b", f"c{inside * 2}d", f" {inside}\u00a0"]
    if inside not in "\r\ufeff":  # which are no text at the end of a line, the start of a file
        german = [inside, *german, f"e{inside}"]
    corpus = text({"train.de": lines(german), "train.en": lines("x" * len(german))})
    assert corpus.read()[0] == german


@pytest.mark.parametrize(("end", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_compressed_files(text, end, compress):
    files = {f"train.de{end}": compress(lines(GERMAN)), "train.en": lines(ENGLISH)}
    corpus = text(files)
    assert corpus.read() == (GERMAN, ENGLISH)
    plain = text({"dev.de": lines(GERMAN), "dev.en": lines(ENGLISH)}, split="dev")
    assert plain.fingerprint == corpus.fingerprint  # of the content, not of its packing


def test_two_files_by_name(text, tmp_path):
    reference = tmp_path / "elsewhere" / "ref.txt"
    reference.parent.mkdir()
    reference.write_bytes(lines(ENGLISH))
    corpus = text({"src.sgm.txt": lines(GERMAN)}, split=f"src.sgm.txt, {reference}")
    assert corpus.read() == (GERMAN, ENGLISH)


UTF_16 = "ein Haus\nein Ċ\n"  # in which the byte 0A of a character would change the number of lines
NOT_UTF_8 = r"train\.de is UTF-16, expected UTF-8: .*iconv"


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"train.de": b"ok\n" * 1000 + b"caf\xe9\n"}, r"train\.de, line 1001, is not UTF-8"),
        ({"train.de": UTF_16.encode("utf-16")}, NOT_UTF_8),
        ({"train.de": f"\ufeff{UTF_16}".encode("utf-16-be")}, NOT_UTF_8),
        ({"train.de.gz": gzip.compress(lines(GERMAN) * 999)[:-20]}, r"train\.de\.gz is corrupt"),
        ({"train.de.gz": lines(GERMAN)}, r"train\.de\.gz is corrupt"),
        ({"train.de.xz": lzma.compress(lines(GERMAN) * 999)[:-20]}, r"train\.de\.xz is corrupt"),
        ({"train.de.xz": lines(GERMAN)}, r"train\.de\.xz is corrupt"),
        ({"train.de": gzip.compress(b"a\n")}, r"train\.de is gzip data: call it train\.de\.gz"),
        ({"train.de/a": b""}, r"train\.de is a folder, expected a file"),
        ({"train.de": b"a\n", "train.de.gz": b""}, r"be .*de or .*train\.de\.gz: remove all but"),
        ({"train.de": b"a\n" * 3}, r"train\.de has 3 lines but .*train\.en has 2: line i"),
        ({"train.de": b"a\n", "train.en": b""}, r"train\.en is empty"),
        ({"train.de": b"a\n", "train.en": b"\xef\xbb\xbf"}, r"train\.en is empty"),
    ],
)
def test_files_that_cannot_be_read_are_one_line(text, files, words):
    count = 1001 if "line 1001" in words else 2
    with pytest.raises(UserError, match=words) as error:
        text({"train.en": b"x\n" * count, **files})
    one_line(error)


def test_a_missing_file_names_the_candidates_and_what_the_folder_has(text, tmp_path):
    with pytest.raises(ValueError, match="expected one of") as error:
        text({"train.ko": b"a\n", "training.de": b"a\n", "training.en": b"x\n"})
    message = one_line(error)
    for word in ("train.de,", "train.de.gz,", "train.de.xz,", "has train.ko, training.de, trai"):
        assert word in message
    assert "config.data.source_language and config.data.target_language are the ends" in message
    with pytest.raises(ValueError, match=r"nothere\.de, found none"):
        text(split="nothere.de,training.en")
    os.rename(tmp_path / "text", tmp_path / "moved")
    with pytest.raises(ValueError, match=r"text \(config\.data\.directory\) does not exist"):
        text()
    (tmp_path / "text").touch()
    with pytest.raises(ValueError, match=r"text \(config\.data\.directory\) is a file, expected"):
        text()


@pytest.mark.parametrize(
    ("given", "expected"),
    [(("", "en"), ("ko", "en")), (("en", ""), ("en", "ko")), (("", "ko"), ("en", "ko"))],
)
def test_the_other_language_is_the_folder_s(tmp_path, given, expected):
    """Of the stems that have files; others are not looked at, nor are other ends of theirs."""
    for name in ("train.ko", "train.en.gz", "train.txt", "a/dev.ko.xz", "a/dev.en", "old.de"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert text_files.languages(tmp_path, ["train", "a/dev", "test"], *given) == expected


@pytest.mark.parametrize(
    ("given", "stems", "what"),
    [
        (("", ""), ["train"], "the ends of your files' names, de, en"),
        (("", "fr"), ["train"], "the ends of your files' names, de, en"),
        (("", "en"), ["test"], "two codes"),
        (("", "en"), [], "two codes"),
        (("", "en"), ["more"], "the ends of your files' names, de, en, fr"),
    ],
)
def test_languages_that_have_to_be_given(tmp_path, given, stems, what):
    for name in ("train.de", "train.en", "more.de", "more.en", "more.fr"):
        (tmp_path / name).touch()
    with pytest.raises(UserError) as error:
        text_files.languages(tmp_path, stems, *given)
    message = one_line(error)
    keys = "config.data.source_language or config.data.target_language, or both"
    assert f"set {keys}, to {what} (found {given[0]!r} and {given[1]!r}); " in message
    assert message.endswith("has more.de, more.en, more.fr, train.de, train.en")


@pytest.mark.parametrize(("source", "target"), [("de", "de"), ("", "en"), ("de", "../en")])
def test_parallel_text_wants_two_languages(text, source, target):
    with pytest.raises(ValueError, match=r"\Aconfig\.data\.source_language .* two different codes"):
        text({"train.de": b"a\n", "train.en": b"x\n"}, source=source, target=target)


# Parts of plain text.


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
        ("a.txt[50%:50%]", "expected FILE or a part"),
        ("a.txt[:101%]", "expected FILE or a part"),
        ("a.txt,", "expected FILE or a part of it.*, found ''"),
        ("", "expected FILE or a part of it.*, found ''"),
        ("folder", "is a folder, expected a file"),
        ("c.txt", r"c\.txt or .*c\.txt\.gz: remove all but one"),
    ],
)
def test_a_split_that_names_no_file_is_one_line(tmp_path, split, words):
    (tmp_path / "folder").mkdir()
    for name in ("a.txt", "c.txt", "c.txt.gz"):
        (tmp_path / name).write_bytes(b"a\n")
    with pytest.raises(UserError, match=rf"\Aconfig\.data\.train='.*{words}") as error:
        parts(tmp_path, split)
    one_line(error)


def test_a_folder_that_is_not_set_is_not_looked_into(tmp_path, monkeypatch):
    """Its files would be those of wherever the command was started."""
    monkeypatch.chdir(tmp_path)
    message = "a.txt, a.txt.gz, a.txt.xz, found none; config.data.directory is empty or"
    with pytest.raises(UserError, match=message):
        parts(Path(), "a.txt")


def test_tiny_shakespeare_is_cut_where_others_cut_it(test_data):
    """90 % of 1,115,394 characters; line breaks count."""
    part = lambda slice: content(test_data / "tinyshakespeare", f"input.txt[{slice} of characters]")
    train, validation = part(":90%"), part("90%:")
    assert sum(len(line) + 1 for line in train) == 1_003_854 + 1  # the end of the line that is cut
    assert sum(len(line) + 1 for line in validation) == 111_540
    assert validation[:4] == ["?", "", "GREMIO:", "Good morrow, neighbour Baptista."]
