"""A corpus is prepared once for each content, by one process, and completely or not at all."""

import json
import os
import pathlib
import socket
import subprocess
import sys
import threading

import pytest
import requests
from helpers import miniature_wmt
from helpers.corpora import TEST, TRAIN, VALIDATION, catalogue, one_line

from transformer.data import builders
from transformer.errors import UserError

ROOT = str(pathlib.Path(__file__).resolve().parents[2])


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


def test_a_full_disk_is_one_line(tmp_path, no_network, no_file_over):
    miniature_wmt.write(tmp_path, "wmt14_translate/de-en", TRAIN, VALIDATION, TEST)
    words = r"cannot write to .* \(.*config\.data\.data_dir"
    with no_file_over(400), pytest.raises(UserError, match=words) as error:
        catalogue("wmt14_translate/de-en", "train", tmp_path)
    one_line(error)
    assert len(catalogue("wmt14_translate/de-en", "train", tmp_path)) == len(TRAIN)


PROGRAM = """
import sys
from helpers.corpora import catalogue
assert len(catalogue("wmt14_translate/de-en", "train", sys.argv[1])) == 30
"""


@pytest.mark.slow
def test_processes_at_the_same_time_and_nothing_printed(tmp_path):
    miniature_wmt.write(tmp_path, "wmt14_translate/de-en", TRAIN, VALIDATION, TEST)
    command = [sys.executable, "-W", "error", "-c", PROGRAM, str(tmp_path)]
    options = {"env": {**os.environ, "PYTHONPATH": os.pathsep.join([ROOT, f"{ROOT}/tests"])}}
    options |= {"cwd": ROOT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    running = [subprocess.Popen(command, **options) for _ in range(3)]
    results = [(*process.communicate(), process.returncode) for process in running]
    assert results == [(b"", b"", 0)] * 3
    assert not list(tmp_path.rglob("incomplete*"))


def test_a_host_that_never_answers_times_out(monkeypatch):
    monkeypatch.setattr(builders, "PROBE_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:  # accepts, and says nothing
        assert builders._unreachable(f"http://127.0.0.1:{server.getsockname()[1]}/x.tgz")

    tested = threading.Event()

    def hanging_look_up(*_, **__):
        tested.wait(60)
        raise requests.ConnectionError

    monkeypatch.setattr(requests, "get", hanging_look_up)
    assert "no answer" in builders._unreachable("http://host.invalid/x.tgz")
    tested.set()
