"""Lists of faulty pairs, and copies without them."""

import numpy as np
import pytest

from transformer.errors import UserError
from transformer.tools.audit import cleaning, raw_pairs

GERMAN, ENGLISH = b"eins\nzw\xfci\nd\trei\n\n", b"one\r\ntwo\nthree\n\n"


@pytest.fixture
def read(tmp_path):
    (tmp_path / "train.de").write_bytes(GERMAN)
    (tmp_path / "train.en").write_bytes(ENGLISH)
    return raw_pairs.file_pairs([tmp_path / "train.de", tmp_path / "train.en"])


def test_a_list_has_line_faults_and_text(read, tmp_path):
    masks = {
        "broken": np.array([False, True, False, False]),
        "invisible": np.array([False, False, True, False]),
        "length": np.array([False, True, False, False]),
    }
    file = tmp_path / "new" / "faulty.tsv"
    cleaning.write_list(file, "train", read, masks)
    expected = "train\t2\tbroken,length\tzw\ufffdi\ttwo\ntrain\t3\tinvisible\td rei\tthree\n"
    assert file.read_text() == expected
    cleaning.write_list(file, "test", read, masks)
    assert file.read_text() == expected + expected.replace("train", "test")


def test_a_copy_has_the_same_bytes_in_the_same_order(read, tmp_path):
    kept = np.array([True, True, False, True])
    cleaning.write_copy(tmp_path / "new", "train", read, ("de", "en"), kept)
    assert (tmp_path / "new" / "train.de").read_bytes() == b"eins\nzw\xfci\n\n"
    assert (tmp_path / "new" / "train.en").read_bytes() == b"one\ntwo\n\n"


def test_nothing_is_overwritten(read, tmp_path):
    with pytest.raises(UserError, match=r"config.audit.clean: .* exists already"):
        cleaning.check_new(str(tmp_path), "clean")
    cleaning.check_new(f"{tmp_path}/no/ne", "clean")
    assert not (tmp_path / "no").exists()
    with pytest.raises(UserError, match=r"config.audit.lines is a local path, found gs://a/b"):
        cleaning.check_new("gs://a/b", "lines")
    with pytest.raises(UserError, match=r"config.audit.lines: cannot write in /proc"):
        cleaning.check_new("/proc/list.tsv", "lines")
    with pytest.raises(FileExistsError):
        cleaning.write_copy(tmp_path, "train", read, ("de", "en"), np.ones(4, bool))
    assert (tmp_path / "train.de").read_bytes() == GERMAN
