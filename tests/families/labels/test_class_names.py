"""What a class id means: written once, read with its checksum, compared by fingerprint."""

import pytest

from transformer.errors import UserError
from transformer.families.labels import class_names
from transformer.runtime import checksums

NAMES = ("부정", "긍정", "neither nor")


def test_labels_are_read_as_written(tmp_path):
    class_names.write(tmp_path, NAMES)
    assert (tmp_path / "vocabulary" / "labels.txt").read_text() == "부정\n긍정\nneither nor\n"
    for fingerprint in ("", class_names.fingerprint(NAMES)):
        assert class_names.read(tmp_path, fingerprint) == NAMES


def test_another_order_is_another_fingerprint(tmp_path):
    class_names.write(tmp_path, NAMES[::-1])
    with pytest.raises(UserError, match="ids would have another meaning"):
        class_names.read(tmp_path, class_names.fingerprint(NAMES))


def test_the_other_files_of_a_vocabulary_keep_a_checksum(tmp_path):
    (tmp_path / "vocabulary").mkdir()
    (tmp_path / "vocabulary" / "shared.model").write_bytes(b"pieces")
    class_names.write(tmp_path, NAMES)
    assert checksums.corrupt_files(tmp_path / "vocabulary", alone=True) == []
    (tmp_path / "vocabulary" / "shared.model").write_bytes(b"pieceS")
    assert len(checksums.corrupt_files(tmp_path / "vocabulary", alone=True)) == 1
    class_names.read(tmp_path, "")


def test_missing_and_damaged_labels_are_one_line(tmp_path):
    with pytest.raises(UserError, match=r"damaged: \S*labels.txt \(missing\)"):
        class_names.read(tmp_path, "")
    class_names.write(tmp_path, NAMES)
    (tmp_path / "vocabulary" / "labels.txt").write_text("긍정\n부정\nneither nor\n")
    with pytest.raises(UserError, match=r"^damaged: \S*labels.txt \(checksum mismatch\)[^\n]*$"):
        class_names.read(tmp_path, "")


@pytest.mark.parametrize("names", [("one",), ("a", ""), ("a", "b\tc"), ("a", "b\nc")])
def test_labels_that_no_line_can_hold_are_refused(names):
    class_names.check(NAMES, "train.tsv")
    with pytest.raises(UserError, match=r"^train\.tsv[^\n]*$"):
        class_names.check(names, "train.tsv")
