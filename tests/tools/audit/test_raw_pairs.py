"""Raw pairs are those of the files, however often they are read; no copy overwrites a file."""

import gzip

import numpy as np
import pytest

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
    with pytest.raises(FileExistsError):
        raw_pairs.write_copy(tmp_path, "a", read, ("de", "en"), np.ones(3, bool))
    assert list(read.read()) == expected
