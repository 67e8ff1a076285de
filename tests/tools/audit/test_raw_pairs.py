"""Raw pairs are those of the files, however often they are read; lists of faults, and copies."""

import gzip

import numpy as np
import pytest
from helpers import corpora

from transformer.data.corpora import load
from transformer.errors import UserError
from transformer.tools.audit import raw_pairs


def test_files_of_any_encoding_and_of_different_lengths(tmp_path):
    files = [tmp_path / "a.de", tmp_path / "a.en.gz"]
    files[0].write_bytes(b"gr\xfcn\r\nzwei\ndrei\n")
    files[1].write_bytes(gzip.compress(b"green\ntwo"))
    read = raw_pairs.file_pairs(files)
    expected = [(b"gr\xfcn", b"green"), (b"zwei", b"two"), (b"drei", b"")]
    assert list(read.read()) == list(read.read()) == expected
    assert (len(read), read.counts, read.files) == (3, (3, 2), tuple(map(str, files)))
    assert raw_pairs.texts(read, {3, 1}) == {1: ("gr\ufffdn", "green"), 3: ("drei", "")}
    assert raw_pairs.texts(read, set()) == {}


def test_a_corpus_that_is_no_files(tmp_path):
    (tmp_path / "train.de").write_bytes(corpora.lines(corpora.GERMAN))
    (tmp_path / "train.en").write_bytes(corpora.lines(corpora.ENGLISH))
    folders = {"directory": str(tmp_path), "data_dir": str(tmp_path / "data")}
    corpus = load("parallel_text", "train", ("de", "en"), key="config.data.train", **folders)
    read = raw_pairs.corpus_pairs(corpus)
    encoded = [
        (a.encode(), b.encode()) for a, b in zip(corpora.GERMAN, corpora.ENGLISH, strict=True)
    ]
    assert list(read.read()) == encoded
    assert (len(read), read.counts, read.files) == (4, (4, 4), ())


GERMAN = b"eins\nzw\xfci\nd\trei\n\n"


@pytest.fixture
def read(tmp_path):
    (tmp_path / "train.de").write_bytes(GERMAN)
    (tmp_path / "train.en").write_bytes(b"one\r\ntwo\nthree\n\n")
    return raw_pairs.file_pairs([tmp_path / "train.de", tmp_path / "train.en"])


def test_a_list_has_line_faults_and_text(read, tmp_path):
    masks = {"broken": np.arange(4) == 1, "tags": np.arange(4) == 2, "length": np.arange(4) == 1}
    file = tmp_path / "new" / "faulty.tsv"
    raw_pairs.write_list(file, "train", read, masks)
    expected = "train\t2\tbroken,length\tzw\ufffdi\ttwo\ntrain\t3\ttags\td rei\tthree\n"
    assert file.read_text() == expected
    raw_pairs.write_list(file, "test", read, masks)
    assert file.read_text() == expected + expected.replace("train", "test")


def test_a_copy_has_the_same_bytes_in_the_same_order(read, tmp_path):
    raw_pairs.write_copy(tmp_path / "new", "train", read, ("de", "en"), np.arange(4) != 2)
    assert (tmp_path / "new" / "train.de").read_bytes() == b"eins\nzw\xfci\n\n"
    assert (tmp_path / "new" / "train.en").read_bytes() == b"one\ntwo\n\n"


def test_nothing_is_overwritten(read, tmp_path):
    raw_pairs.check_new(f"{tmp_path}/no/ne", "clean")
    with pytest.raises(UserError, match=r"config.audit.lines is a local path, found gs://a/b"):
        raw_pairs.check_new("gs://a/b", "lines")
    with pytest.raises(UserError, match=r"config.audit.lines: cannot write in /proc"):
        raw_pairs.check_new("/proc/list.tsv", "lines")
    with pytest.raises(FileExistsError):
        raw_pairs.write_copy(tmp_path, "train", read, ("de", "en"), np.ones(4, bool))
    assert (tmp_path / "train.de").read_bytes() == GERMAN
