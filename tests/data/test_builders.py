"""A corpus is prepared once for each content, by one process, and completely or not at all."""

import errno
import json
import os
import pathlib
import subprocess
import sys

import pytest
from helpers import miniature_wmt
from helpers.corpora import (
    ENGLISH,
    GERMAN,
    TEST,
    TRAIN,
    VALIDATION,
    catalogue,
    everything,
    lines,
    one_line,
    prepared,
)

from transformer import registry
from transformer.data import builders, corpora
from transformer.errors import UserError

ROOT = str(pathlib.Path(__file__).resolve().parents[2])


def test_order_is_kept_over_several_shards(text, monkeypatch):
    monkeypatch.setattr(builders, "SHARD_RECORDS", 7)
    numbers = [str(i) for i in range(50)]
    corpus = text({"train.de": lines(numbers), "train.en": lines(numbers[::-1])})
    assert everything(corpus) == (numbers, numbers[::-1])
    assert len(corpus.records.dataset_info.splits["pairs"].shard_lengths) == 8


def test_an_edited_file_is_prepared_again(text):
    before = text({"train.de": b"a\n", "train.en": b"x\n"})
    after = text({"train.de": b"b\n"})
    assert everything(before) == (["a"], ["x"])
    assert everything(after) == (["b"], ["x"])
    assert before.fingerprint != after.fingerprint
    assert text().fingerprint == after.fingerprint


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


# A corpus that is generated.


def test_a_generated_corpus_has_its_splits_in_either_direction(tmp_path, monkeypatch):
    monkeypatch.setitem(registry.CORPORA, "generated", "helpers.corpora:generated")
    prints = set()
    for split in corpora.SPLITS:
        forward, backward = (
            catalogue("generated", split, tmp_path, *pair) for pair in (("de", "en"), ("en", "de"))
        )
        german, english = everything(forward)
        assert (german[:2], len(english)) == ([f"{split} 0", f"{split} 1"], 30)
        assert everything(backward) == (english, german)
        prints |= {forward.fingerprint, backward.fingerprint}
    assert len(prints) == 6


# Preparation


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


PROGRAM = """
import sys
from transformer.data import corpora
corpus = corpora.load("parallel_text", "train", ("de", "en"), directory=sys.argv[1],
                      data_dir=sys.argv[2], key="split")
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
