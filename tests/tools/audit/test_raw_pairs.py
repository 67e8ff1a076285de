"""Raw pairs are those of the files, however often they are read."""

import gzip

from helpers import corpora

from transformer.data.corpora import load
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
