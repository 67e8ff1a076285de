"""Lists of faulty pairs, and copies without them."""

import numpy as np
import pytest

from transformer.errors import UserError
from transformer.tools.audit import raw_pairs

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
