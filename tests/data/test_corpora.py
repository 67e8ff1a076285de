"""Pairs come out of TFDS as they are in the files; mistakes are UserErrors of one line."""

import errno
import gzip
import json
import lzma
import os
import pathlib
import socket
import subprocess
import sys
import time
import types

import pytest
import requests
from helpers import miniature_wmt
from helpers.corpora import TEST, TRAIN, VALIDATION, catalogue, everything

from transformer.data import builders, corpora, wmt
from transformer.errors import UserError

ROOT = str(pathlib.Path(__file__).resolve().parents[2])
GERMAN = ["Ein Haus .", "Zwei Häuser", "", "drei"]
ENGLISH = ["A house .", "two houses", "", "three 🏠"]


@pytest.fixture
def text(tmp_path):
    """Loads a split of parallel text from a folder of files given as {name: bytes}."""

    def load(files=None, split="train", source="de", target="en"):
        for name, content in (files or {}).items():
            path = tmp_path / "text" / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
        return corpora.load(
            "parallel_text",
            split,
            source_language=source,
            target_language=target,
            directory=str(tmp_path / "text"),
            data_dir=str(tmp_path / "data"),
        )

    return load


def lines(sentences, end="\n"):
    return "".join(sentence + end for sentence in sentences).encode()


def one_line(error):
    assert "\n" not in str(error.value)
    return str(error.value)


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


def test_order_is_kept_over_several_shards(text, monkeypatch):
    monkeypatch.setattr(builders, "SHARD_PAIRS", 7)
    numbers = [str(i) for i in range(50)]
    corpus = text({"train.de": lines(numbers), "train.en": lines(numbers[::-1])})
    assert everything(corpus) == (numbers, numbers[::-1])
    assert len(corpus.records.dataset_info.splits["pairs"].shard_lengths) == 8


def test_either_direction_shares_one_copy_but_no_fingerprint(text, tmp_path):
    forward = text({"train.de": lines(GERMAN), "train.en": lines(ENGLISH)})
    backward = text(source="en", target="de")
    assert everything(backward) == (ENGLISH, GERMAN)
    assert forward.fingerprint != backward.fingerprint
    assert len(list((tmp_path / "data" / "parallel_text").glob("*-*-*"))) == 1


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
    assert everything(text({"train.de": content, "train.en": b"x\ny\n"})) == (
        ["a", "b"],
        ["x", "y"],
    )


@pytest.mark.parametrize("inside", ["\u2028", "\x85", "\x0b", "\x0c", "\x1e", "\r", "\0", "\ufeff"])
def test_only_newline_ends_a_line(text, inside):
    german = [f"a{inside}b", f"c{inside * 2}d", f" {inside}\u00a0"]
    if inside not in "\r\ufeff":  # which are no text at the end of a line, the start of a file
        german = [inside, *german, f"e{inside}"]
    corpus = text({"train.de": lines(german), "train.en": lines("x" * len(german))})
    assert everything(corpus)[0] == german


@pytest.mark.parametrize(("end", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_compressed_files(text, end, compress):
    files = {f"train.de{end}": compress(lines(GERMAN)), "train.en": lines(ENGLISH)}
    corpus = text(files)
    assert everything(corpus) == (GERMAN, ENGLISH)
    plain = text({"dev.de": lines(GERMAN), "dev.en": lines(ENGLISH)}, split="dev")
    assert plain.fingerprint == corpus.fingerprint  # of the content, not of its packing


def test_two_files_by_name(text, tmp_path):
    reference = tmp_path / "elsewhere" / "ref.txt"
    reference.parent.mkdir()
    reference.write_bytes(lines(ENGLISH))
    corpus = text({"src.sgm.txt": lines(GERMAN)}, split=f"src.sgm.txt, {reference}")
    assert everything(corpus) == (GERMAN, ENGLISH)


def test_an_edited_file_is_prepared_again(text):
    before = text({"train.de": b"a\n", "train.en": b"x\n"})
    after = text({"train.de": b"b\n"})
    assert everything(before) == (["a"], ["x"])
    assert everything(after) == (["b"], ["x"])
    assert before.fingerprint != after.fingerprint
    assert text().fingerprint == after.fingerprint


def test_unequal_counts(text):
    with pytest.raises(ValueError, match="lines but") as error:
        text({"train.de": b"a\nb\n", "train.en": b"x\n"})
    message = one_line(error)
    assert "train.de has 2 lines" in message
    assert "train.en has 1" in message


def test_invalid_utf8_names_file_and_line_and_leaves_nothing(text, tmp_path):
    german = [b"ok"] * 1000 + [b"caf\xe9"]
    with pytest.raises(ValueError, match="not UTF-8") as error:
        text({"train.de": b"\n".join(german), "train.en": b"x\n" * 1001})
    assert "train.de, line 1001," in one_line(error)
    assert prepared(tmp_path / "data" / "parallel_text") == []


def test_a_full_disk_is_one_line_and_leaves_nothing(text, tmp_path, no_file_over):
    files = {"train.de": lines(map(str, range(9000))), "train.en": lines(map(str, range(9000)))}
    with (
        no_file_over(100_000),
        pytest.raises(UserError, match=r"cannot write to .*data \(") as error,
    ):
        text(files)
    assert "config.data.data_dir" in one_line(error)
    assert prepared(tmp_path / "data" / "parallel_text") == []


def test_a_disk_without_locks_is_enough(text, monkeypatch, caplog):
    def flock(*_):
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr("fcntl.flock", flock)
    assert len(text({"train.de": lines(GERMAN), "train.en": lines(ENGLISH)})) == 4
    assert "another process preparing it would not be noticed" in caplog.text


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_utf_16_is_refused(text, encoding):
    """Also where the byte 0A of another character would change the number of lines."""
    german = "\ufeff".removeprefix("\ufeff" if encoding == "utf-16" else "") + "ein Haus\nein Ċ\n"
    with pytest.raises(UserError, match=r"train\.de is UTF-16, expected UTF-8: .*iconv") as error:
        text({"train.de": german.encode(encoding), "train.en": b"a house\na letter\n"})
    one_line(error)


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf"])
def test_empty_file(text, content):
    with pytest.raises(ValueError, match=r"train\.en is empty"):
        text({"train.de": b"a\n", "train.en": content})


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("train.de.gz", gzip.compress(lines(GERMAN) * 999)[:-20]),
        ("train.de.gz", lines(GERMAN)),
        ("train.de.xz", lzma.compress(lines(GERMAN) * 999)[:-20]),
        ("train.de.xz", lines(GERMAN)),
    ],
)
def test_broken_archive(text, name, content):
    with pytest.raises(ValueError, match="is corrupt") as error:
        text({name: content, "train.en": lines(ENGLISH)})
    assert name in one_line(error)


def test_gzip_data_without_its_suffix_and_folders_are_refused(text, tmp_path):
    content = lines(GERMAN)
    with pytest.raises(UserError, match=r"train\.de is gzip data: call it train\.de\.gz") as error:
        text({"train.de": gzip.compress(content), "train.en": content})
    one_line(error)
    (tmp_path / "text" / "train.de").unlink()
    (tmp_path / "text" / "train.de").mkdir()
    with pytest.raises(UserError, match=r"train\.de is a folder, expected a file"):
        text({"train.en": content})


def test_a_missing_file_names_the_candidates_and_what_the_folder_has(text, tmp_path):
    with pytest.raises(ValueError, match="expected one of") as error:
        text({"training.de": b"a\n", "training.en": b"x\n"})
    message = one_line(error)
    for word in ("train.de,", "train.de.gz,", "train.de.xz,", "has training.de, training.en"):
        assert word in message
    with pytest.raises(ValueError, match=r"nothere\.de, found none"):
        text(split="nothere.de,training.en")
    os.rename(tmp_path / "text", tmp_path / "moved")
    with pytest.raises(ValueError, match="text does not exist"):
        text()
    (tmp_path / "text").touch()
    with pytest.raises(ValueError, match="text is a file, expected a folder"):
        text()


def test_several_files_of_one_name(text):
    content = lines(GERMAN)
    with pytest.raises(
        ValueError, match=r"could be .*train\.de or .*train\.de\.gz: remove all but one"
    ):
        text({"train.de": content, "train.de.gz": gzip.compress(content), "train.en": content})


@pytest.mark.parametrize(("source", "target"), [("de", "de"), ("", "en"), ("de", "../en")])
def test_parallel_text_wants_two_languages(text, source, target):
    with pytest.raises(ValueError, match="two codes"):
        text({"train.de": b"a\n", "train.en": b"x\n"}, source=source, target=target)


# The built-in corpus.


@pytest.fixture
def grammar(tmp_path, monkeypatch):
    source = tmp_path / "grammar.py"
    source.write_text("a rule")

    def sentence_pairs(seed):
        rule = source.read_text()
        return {
            s: [(f"{s} {rule} {seed} {i}", f"en {i}") for i in range(3)] for s in builders.SPLITS
        }

    stub = types.SimpleNamespace(SEED=7, __file__=str(source), sentence_pairs=sentence_pairs)
    monkeypatch.setattr(builders, "grammar", stub)
    return stub


def test_builtin_is_what_the_grammar_says(grammar, tmp_path):
    prints = set()
    for split in builders.SPLITS:
        corpus = catalogue("builtin", split, tmp_path, "ko", "en")
        korean = [f"{split} a rule 7 {i}" for i in range(3)]
        assert everything(corpus) == (korean, ["en 0", "en 1", "en 2"])
        prints.add(corpus.fingerprint)
    assert everything(catalogue("builtin", "test", tmp_path, "en", "ko"))[1][0] == "test a rule 7 0"
    assert len(prints) == 3


def test_builtin_follows_grammar_and_seed(grammar, tmp_path):
    old = catalogue("builtin", "train", tmp_path, "ko", "en")
    grammar.SEED = 8
    seeded = catalogue("builtin", "train", tmp_path, "ko", "en")
    with open(grammar.__file__, "w") as file:
        file.write("another rule")
    ruled = catalogue("builtin", "train", tmp_path, "ko", "en")
    assert [c.read([0])[0][0] for c in (old, seeded, ruled)] == [
        "train a rule 7 0",
        "train a rule 8 0",
        "train another rule 8 0",
    ]
    assert len({old.fingerprint, seeded.fingerprint, ruled.fingerprint}) == 3


# WMT 2014, by TFDS's own code, from miniature archives.


@pytest.fixture
def no_network(monkeypatch):
    """Blocks requests, so that no test downloads gigabytes."""

    def get(*_, **__):
        raise requests.ConnectionError("no network")

    monkeypatch.setattr(requests, "get", get)
    monkeypatch.setattr(requests.Session, "get", get)


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


def test_wmt_is_read_a_line_at_a_time_as_tfds_reads_it(tmp_path):
    """Blank lines, carriage returns and other line separators, plain and gzipped."""
    text = {"de": "ein\x85\u2028Haus\r\n\n x \ndrei\n", "en": "a\rb\n\nx\nthree 🏠\n"}
    for language, content in text.items():
        (tmp_path / f"text.{language}").write_bytes(content.encode())
        (tmp_path / f"text.{language}.gz").write_bytes(gzip.compress(content.encode()))
    whole = wmt.wmt._parse_parallel_sentences
    for end in ("", ".gz"):
        files = [str(tmp_path / f"text.{language}{end}") for language in ("de", "en")]
        found = wmt._pairs(*files)
        assert iter(found) is found  # nothing is held
        expected = [(key, pair) for key, pair in whole(*files) if any(pair.values())]
        assert [(key, pair) for key, pair in found if any(pair.values())] == expected
        assert len(expected) == 3


@pytest.mark.skipif(bool(wmt.importlib.util.find_spec("tensorflow")), reason="TensorFlow does it")
def test_wmt_beyond_memory_without_tensorflow(tmp_path, no_network, monkeypatch):
    miniature_wmt.write(tmp_path / "a", "wmt14_translate/de-en", TRAIN, VALIDATION, TEST)
    miniature_wmt.write(tmp_path / "b", "wmt14_translate/de-en", TRAIN, VALIDATION, TEST)
    in_memory = everything(catalogue("wmt14_translate/de-en", "train", tmp_path / "a"))
    monkeypatch.setattr(wmt.shuffle, "MAX_MEM_BUFFER_SIZE", 100)
    on_disk = everything(catalogue("wmt14_translate/de-en", "train", tmp_path / "b"))
    assert on_disk == in_memory
    assert not list(tmp_path.glob("b/wmt14_translate/**/*.tmp"))


def prepared(folder):
    """The files and folders of prepared or incomplete corpora."""
    return [p for p in folder.rglob("*") if p.name not in (".lock", ".config", "metadata.json")]


def test_wmt_without_network_fails_within_20_seconds_and_leaves_nothing(tmp_path, no_network):
    start = time.monotonic()
    with pytest.raises(ValueError, match="cannot download") as error:
        catalogue("wmt14_translate/de-en", "train", tmp_path)
    assert time.monotonic() - start < 20
    message = one_line(error)
    assert "http://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz (" in message
    assert "http://data.statmt.org/wmt19/translation-task/dev.tgz" in message
    assert str(tmp_path / "downloads" / "manual") in message
    assert "parallel_text" in message
    assert prepared(tmp_path / "wmt14_translate") == []
    # And the same process succeeds once the archives are there.
    miniature_wmt.write(tmp_path, "wmt14_translate/de-en", TRAIN, VALIDATION, TEST)
    assert len(catalogue("wmt14_translate/de-en", "test", tmp_path)) == 5


def test_the_manual_folder_in_the_error_is_where_tfds_looks(tmp_path, no_network):
    """A wrong archive there is refused for its checksum, not downloaded again."""
    places = wmt.archives("wmt14_translate/de-en", str(tmp_path))
    for url, (manual, _) in places.items():
        assert manual.name == os.path.basename(url)
        manual.parent.mkdir(parents=True, exist_ok=True)
        manual.write_bytes(b"something else")
    with pytest.raises(Exception, match="wrong checksum"):
        catalogue("wmt14_translate/de-en", "train", tmp_path)
    assert prepared(tmp_path / "wmt14_translate") == []


def test_a_host_that_never_answers_times_out(monkeypatch):
    monkeypatch.setattr(wmt, "PROBE_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:  # accepts, and says nothing
        assert wmt._unreachable(f"http://127.0.0.1:{server.getsockname()[1]}/x.tgz")

    def hanging_look_up(*_, **__):
        time.sleep(3)
        raise requests.ConnectionError

    monkeypatch.setattr(requests, "get", hanging_look_up)
    start = time.monotonic()
    assert "no answer" in wmt._unreachable("http://host.invalid/x.tgz")
    assert time.monotonic() - start < 2


def test_an_incomplete_corpus_is_prepared_again(tmp_path, no_network):
    folder = tmp_path / "wmt14_translate" / "de-en"
    (folder / "1.0.0").mkdir(parents=True)
    (folder / "incomplete.ABC123_1.0.0").mkdir()
    miniature_wmt.write(tmp_path, "wmt14_translate/de-en", TRAIN, VALIDATION, TEST)
    assert len(catalogue("wmt14_translate/de-en", "train", tmp_path)) == len(TRAIN)
    assert sorted(p.name for p in folder.iterdir()) == ["1.0.0"]


def test_data_in_another_format_is_refused(tmp_path, no_network):
    miniature_wmt.write(tmp_path, "wmt14_translate/de-en", TRAIN, VALIDATION, TEST)
    catalogue("wmt14_translate/de-en", "train", tmp_path)
    path = tmp_path / "wmt14_translate" / "de-en" / "1.0.0" / "dataset_info.json"
    info = json.loads(path.read_text())
    info["fileFormat"] = "tfrecord"
    path.write_text(json.dumps(info))
    (path.parent / "checksums.json").unlink()  # as if prepared by TFDS elsewhere
    with pytest.raises(ValueError, match="as tfrecord, array_record is needed") as error:
        catalogue("wmt14_translate/de-en", "train", tmp_path)
    one_line(error)


# All corpora.


def test_unknown_names(tmp_path):
    with pytest.raises(ValueError, match="did you mean wmt14_translate/de-en") as error:
        catalogue("wmt14/de-en", "train", tmp_path)
    assert "builtin, parallel_text, wmt14_translate/" in one_line(error)
    with pytest.raises(ValueError, match="train, validation, test, found 'dev'"):
        catalogue("wmt14_translate/de-en", "dev", tmp_path)
    with pytest.raises(ValueError, match="'de' and 'en', found source 'fr' and target 'en'"):
        catalogue("wmt14_translate/de-en", "train", tmp_path, "fr", "en")
    with pytest.raises(ValueError, match="local folder"):
        catalogue("builtin", "train", "gs://bucket/data", "ko", "en")
    assert list(tmp_path.iterdir()) == []


PROGRAM = """
import sys
from transformer.data import corpora
corpus = corpora.load("parallel_text", "train", source_language="de", target_language="en",
                      directory=sys.argv[1], data_dir=sys.argv[2])
source, target = corpus.read(range(len(corpus)))
assert len(source) == 3000 and source == target, len(source)
"""


@pytest.mark.slow
def test_processes_at_the_same_time_and_nothing_printed(tmp_path):
    for language in ("de", "en"):
        (tmp_path / f"train.{language}").write_bytes(lines(map(str, range(3000))))
    command = [sys.executable, "-W", "error", "-c", PROGRAM, str(tmp_path), str(tmp_path / "data")]
    pipe = subprocess.PIPE
    running = [subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe) for _ in range(3)]
    results = [(*process.communicate(), process.returncode) for process in running]
    assert results == [(b"", b"", 0)] * 3
    assert not list((tmp_path / "data").rglob("incomplete*"))


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
