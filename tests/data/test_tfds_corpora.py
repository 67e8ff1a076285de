"""WMT by TFDS: prepared once, completely or not at all, and the paper's experiment in miniature."""

import gzip
import importlib.util
import json
import os
import shutil
import subprocess
import sys

import pytest
from helpers import miniature_wmt
from helpers.checkpoints import flip_a_bit
from helpers.corpora import TEST, TRAIN, VALIDATION, catalogue, prepared
from helpers.runs import ROOT

import launch
from transformer import errors
from transformer.data import tfds_corpora
from transformer.errors import UserError


def test_wmt_is_read_a_line_at_a_time_as_tfds_reads_it(tmp_path):
    """Blank lines, carriage returns and other line separators, plain and gzipped."""
    text = {"de": "ein\x85\u2028Haus\r\n\n x \ndrei\n", "en": "a\rb\n\nx\nthree 🏠\n"}
    for language, content in text.items():
        (tmp_path / f"text.{language}").write_bytes(content.encode())
        (tmp_path / f"text.{language}.gz").write_bytes(gzip.compress(content.encode()))
    whole = tfds_corpora._tfds_sentences
    for end in ("", ".gz"):
        files = [str(tmp_path / f"text.{language}{end}") for language in ("de", "en")]
        read_pairs = tfds_corpora.parallel_sentences(*files)
        assert iter(read_pairs) is read_pairs  # nothing is held
        expected = [(key, pair) for key, pair in whole(*files) if any(pair.values())]
        assert [(key, pair) for key, pair in read_pairs if any(pair.values())] == expected
        assert len(expected) == 3
    (tmp_path / "text.en.gz").write_bytes(gzip.compress(b"a\n"))
    with pytest.raises(ValueError, match="shorter"):
        list(tfds_corpora.parallel_sentences(*files))


@pytest.mark.skipif(bool(importlib.util.find_spec("tensorflow")), reason="TensorFlow does it")
def test_wmt_beyond_memory_without_tensorflow(tmp_path, no_network, monkeypatch):
    miniature_wmt.write(tmp_path / "a", "wmt14_translate/de-en", TRAIN, VALIDATION, TEST)
    miniature_wmt.write(tmp_path / "b", "wmt14_translate/de-en", TRAIN, VALIDATION, TEST)
    in_memory = catalogue("wmt14_translate/de-en", "train", tmp_path / "a").read()
    monkeypatch.setattr(tfds_corpora.shuffle, "MAX_MEM_BUFFER_SIZE", 100)
    limits = []  # of open files
    monkeypatch.setattr(tfds_corpora.resource, "getrlimit", lambda _: (1024, 4096))
    monkeypatch.setattr(tfds_corpora.resource, "setrlimit", lambda _, now: limits.append(now))
    assert catalogue("wmt14_translate/de-en", "train", tmp_path / "b").read() == in_memory
    assert limits == [(1024 + tfds_corpora.shuffle.BUCKETS_NUMBER, 4096)]
    assert not list(tmp_path.glob("b/wmt14_translate/**/*.tmp"))


def test_without_network_one_line_says_where_archives_are_put(tmp_path, no_network):
    """And the same process prepares the corpus once they are there."""
    corpus, wrong = "wmt14_translate/de-en", tmp_path / "downloads" / "manual"
    with pytest.raises(UserError, match=rf"\A.*cannot download an archive .*into {wrong}.*\Z"):
        catalogue(corpus, "train", tmp_path)
    wrong.mkdir(parents=True)
    for url in miniature_wmt.archives(corpus, tmp_path):  # not downloaded again
        (wrong / url.rpartition("/")[2]).write_bytes(b"something else")
    with pytest.raises(Exception, match="wrong checksum"):
        catalogue(corpus, "train", tmp_path)
    assert [x.name for x in prepared(tmp_path / "wmt14_translate")] == [".lock"]
    shutil.rmtree(wrong)
    miniature_wmt.write(tmp_path, corpus, TRAIN, VALIDATION, TEST)
    assert len(catalogue(corpus, "test", tmp_path)) == 5


def test_what_a_killed_process_left_is_removed(tmp_path, no_network):
    folder = tmp_path / "wmt14_translate" / "de-en"
    (folder / "incomplete.ABC123_1.0.0").mkdir(parents=True)
    miniature_wmt.write(tmp_path, "wmt14_translate/de-en", TRAIN, VALIDATION, TEST)
    assert len(catalogue("wmt14_translate/de-en", "train", tmp_path)) == len(TRAIN)
    assert sorted(p.name for p in folder.iterdir()) == ["1.0.0"]


def test_damaged_records_are_an_error(tmp_path, no_network):
    """By ArrayRecord's own checksums of its chunks."""
    miniature_wmt.write(tmp_path, "wmt14_translate/de-en", TRAIN, VALIDATION, TEST)
    catalogue("wmt14_translate/de-en", "train", tmp_path).read()
    [shard] = tmp_path.rglob("*-train.array_record-*")
    flip_a_bit(shard)
    with pytest.raises(RuntimeError, match="Corrupted"):
        catalogue("wmt14_translate/de-en", "train", tmp_path).read()


def test_data_in_another_format_is_refused(tmp_path, no_network):
    miniature_wmt.write(tmp_path, "wmt14_translate/de-en", TRAIN, VALIDATION, TEST)
    catalogue("wmt14_translate/de-en", "train", tmp_path)
    path = tmp_path / "wmt14_translate" / "de-en" / "1.0.0" / "dataset_info.json"
    info = json.loads(path.read_text())
    info["fileFormat"] = "tfrecord"
    path.write_text(json.dumps(info))
    with pytest.raises(UserError, match=r"\A.* as tfrecord, array_record is needed.*\Z"):
        catalogue("wmt14_translate/de-en", "train", tmp_path)


def test_a_full_disk_is_one_line(tmp_path, no_network, no_file_over):
    miniature_wmt.write(tmp_path, "wmt14_translate/de-en", TRAIN, VALIDATION, TEST)
    with no_file_over(400), pytest.raises(Exception, match="File too large") as error:
        catalogue("wmt14_translate/de-en", "train", tmp_path)
    assert errors.one_line(error.value).startswith("File too large: free some space")
    assert len(catalogue("wmt14_translate/de-en", "train", tmp_path)) == len(TRAIN)


PROGRAM = """
import sys
from helpers.corpora import catalogue
assert len(catalogue("wmt14_translate/de-en", "train", sys.argv[1])) == 30
"""


@pytest.mark.slow
def test_processes_at_the_same_time_and_nothing_on_standard_output(tmp_path):
    miniature_wmt.write(tmp_path, "wmt14_translate/de-en", TRAIN, VALIDATION, TEST)
    command = [sys.executable, "-W", "error", "-c", PROGRAM, str(tmp_path)]
    options = {"env": {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), f"{ROOT}/tests"])}}
    options |= {"cwd": ROOT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    running = [subprocess.Popen(command, **options) for _ in range(3)]
    results = [(*process.communicate(), process.returncode) for process in running]
    assert [(out, status) for out, _, status in results] == [(b"", 0)] * 3, results
    assert not list(tmp_path.rglob("incomplete*"))


@pytest.mark.slow
def test_archives_to_bleu(tmp_path, tiny_values, no_network, capsys):
    """In the paper's direction, which is not the archive's."""
    miniature_wmt.write(tmp_path, "wmt14_translate/de-en", TRAIN, VALIDATION, TEST)
    keys = {**tiny_values, "evaluate.average_last": 2, "vocabulary.size": 290}
    keys |= {"train.num_steps": 4, "train.log_every": 1, "train.save_every": 2, "evaluate.every": 2}
    keys |= {"data.source_language": "en", "data.target_language": "de", "data.directory": ""}
    keys |= {"data.data_dir": tmp_path}
    arguments = [f"--config.{key}={value}" for key, value in keys.items()]
    launch.main(["--config=configs/wmt_base.py", f"--workdir={tmp_path / 'run'}", *arguments])
    result = json.loads(capsys.readouterr().out)
    assert (result["split"], result["steps"]) == ("test", [2, 4])
    assert result["bleu"] >= 0
    read = lambda name: (tmp_path / "run" / "evaluation" / f"test.{name}").read_text().splitlines()
    found = sorted(zip(read("source"), read("reference"), strict=True))
    assert found == sorted(pair[::-1] for pair in TEST)
    assert len(read("hypothesis")) == len(TEST)
