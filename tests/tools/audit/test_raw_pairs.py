"""Raw pairs are those of the files, however often they are read."""

import gzip

from helpers import corpora

from transformer.tools.audit import raw_pairs


def test_files_of_any_encoding_and_of_different_lengths(tmp_path):
    files = [tmp_path / "a.de", tmp_path / "a.en.gz"]
    files[0].write_bytes(b"gr\xfcn\r\nzwei\ndrei\n")
    files[1].write_bytes(gzip.compress(b"green\ntwo"))
    read = raw_pairs.of_files(files)
    expected = [(b"gr\xfcn", b"green"), (b"zwei", b"two"), (b"drei", b"")]
    assert list(read.read()) == list(read.read()) == expected
    assert (len(read), read.counts, read.files) == (3, (3, 2), tuple(map(str, files)))
    assert raw_pairs.texts(read, {3, 1}) == {1: ("gr\ufffdn", "green"), 3: ("drei", "")}
    assert raw_pairs.texts(read, set()) == {}


def test_a_corpus_of_tfds(text, monkeypatch):
    monkeypatch.setattr(raw_pairs, "CHUNK", 2)
    files = {"train.de": corpora.lines(corpora.GERMAN), "train.en": corpora.lines(corpora.ENGLISH)}
    read = raw_pairs.of_corpus(text(files))
    encoded = [
        (a.encode(), b.encode()) for a, b in zip(corpora.GERMAN, corpora.ENGLISH, strict=True)
    ]
    assert list(read.read()) == encoded
    assert (len(read), read.counts, read.files) == (4, (4, 4), ())
