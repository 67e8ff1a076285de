"""Files are written atomically, on a disk and in a bucket; a run in a bucket equals one on disk."""

import json
import pathlib
import stat

import pytest
from fsspec.registry import _registry, known_implementations
from helpers.buckets import RUN, objects
from helpers.runs import without_times

import launch
from transformer.checkpoints import manager
from transformer.errors import UserError
from transformer.modes import command_line, evaluate, train
from transformer.runtime import paths
from transformer.workdir import log
from transformer.workdir.log import Log, read


def test_a_written_file_leaves_no_draft(tmp_path):
    path = tmp_path / "folder" / "config.json"
    for content in (b"{}", b'{"a": 1}'):
        paths.write_file(path, content)
        assert path.read_bytes() == content
    assert [p.name for p in path.parent.iterdir()] == ["config.json"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_file_is_synced_before_it_is_replaced_by_one_rename(tmp_path, monkeypatch):
    """Otherwise a power failure could leave its name without its content. Then its folder is."""
    path, done = tmp_path / "config.json", []
    sync, replace = paths._sync, pathlib.Path.replace
    monkeypatch.setattr(paths, "_sync", lambda place: (done.append(place), sync(place)))

    def replaced(draft, target):
        done.append((path.read_bytes(), draft.read_bytes(), target))
        replace(draft, target)

    path.write_bytes(b"old")
    monkeypatch.setattr(pathlib.Path, "replace", replaced)
    paths.write_file(path, b"new")
    assert done[0].name.startswith("config.json")
    assert done[1:] == [(b"old", b"new", path), tmp_path]


@pytest.mark.skipif(not pathlib.Path("/proc/self").exists(), reason="Linux has it")
@pytest.mark.parametrize("write", [paths.make_folder, lambda x: paths.write_file(x / "y", b"")])
def test_a_folder_that_cannot_be_created_is_a_user_error(write):
    with pytest.raises(UserError, match="cannot create the folder /proc/x: No such file"):
        write(pathlib.Path("/proc/x"))


@pytest.mark.slow
def test_a_run_in_a_bucket_equals_one_on_a_disk(
    bucket, mixer_config, data_dir, tmp_path, answered, capsysbinary, monkeypatch
):
    steps, local = {"train.save_every": 10, "evaluate.every": 20}, tmp_path / "local"
    train.train(mixer_config({**steps, "train.num_steps": 40}), local)
    save = manager.Checkpoints.save

    def checked_save(self, step, *trees):
        assert log.read(bucket)[-1]["step"] == step
        return save(self, step, *trees)

    monkeypatch.setattr(manager.Checkpoints, "save", checked_save)
    for num_steps in (20, 40):  # resumes
        train.train(mixer_config({**steps, "train.num_steps": num_steps}), bucket)
    in_bucket = objects()
    for name in ("vocabulary/shared.model", "evaluation/test.source"):
        assert in_bucket[name] == (local / name).read_bytes()
    scores = [log.read(workdir, "evaluations.jsonl")[-1] for workdir in (bucket, local)]
    assert scores[0] == scores[1]
    assert without_times(bucket) == without_times(local)
    top_level = {name.partition("/")[0] for name in in_bucket}
    assert top_level == {path.name for path in local.iterdir()} - {"tensorboard", "lock"}

    data = f"--config.data.data_dir={data_dir}"
    _, workdir, config = command_line.parse([f"--workdir={RUN}", "--mode=evaluate", data])
    capsysbinary.readouterr()
    evaluate.evaluate(config, workdir)
    assert json.loads(capsysbinary.readouterr().out) == scores[0]
    assert log.read(bucket, "evaluations.jsonl")[-2:] == scores
    assert answered("translate", bucket, b"a\n") == answered("translate", local, b"a\n")


def test_a_log_in_a_bucket_has_all_lines_up_to_a_checkpoint(bucket, monkeypatch):
    log = Log(bucket, 0)
    log.write("train", 1, {"loss": 1.0})
    log.write("train", 2, {"loss": 1.0})
    log.flush()
    log.write("train", 3, {"loss": 1.0})  # then the machine dies
    log = Log(bucket, 1)
    assert [line["step"] for line in read(bucket)] == [1]
    log.write("train", 2, {"loss": 2.0})
    assert len(read(bucket)) == 1
    log.write("validation", 2, {"bleu": 2.0})
    assert len(read(bucket)) == 3
    monkeypatch.setattr("transformer.workdir.log.REWRITE_SECONDS", 0)
    log.write("train", 3, {"loss": 2.0})
    assert len(read(bucket)) == 4
    log.write("train", 4, {"loss": 2.0})
    log.close()
    assert read(bucket) == log.lines


def test_listings_of_a_bucket_are_not_cached(bucket):
    assert bucket._backend.fs(RUN).storage_options["use_listings_cache"] is False


def test_a_path_on_a_disk_is_a_pathlib_path(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, expected in (("runs//x", "runs/x"), ("~/x", tmp_path / "x"), ("/gs/x", "/gs/x")):
        assert paths.path(name) == pathlib.Path(expected)
        assert isinstance(paths.path(name), pathlib.Path)
        assert not paths.in_bucket(paths.path(name))


def test_unsupported_schemes_are_refused(monkeypatch):
    train = ["--mode=train", "--config=configs/parallel_text.py"]
    for name in ("s3://bucket/run", "http://host/run"):
        with pytest.raises(ValueError, match="neither a local path nor gs://BUCKET/FOLDER"):
            command_line.parse([*train, f"--workdir={name}"])
    monkeypatch.delitem(_registry, "gcs", raising=False)
    missing = {"class": "not_installed.FileSystem", "err": "Please install it"}
    monkeypatch.setitem(known_implementations, "gcs", missing)
    with pytest.raises(ValueError, match="gs://bucket/run: Please install it") as error:
        command_line.parse([*train, f"--workdir={RUN}"])
    assert launch.one_line(error.value)


def test_a_folder_is_synced_with_all_of_its_content(tmp_path, monkeypatch):
    for file in [tmp_path / "a" / "b" / "file", tmp_path / "a" / "other"]:
        paths.write_file(file, b"x")
    synced = []
    monkeypatch.setattr(paths.os, "fsync", lambda number: synced.append(number))
    paths.sync(tmp_path / "a")
    assert len(synced) == 5  # two files, two folders, and the parent of the outer one


@pytest.mark.parametrize(
    ("content", "said"),
    [
        *((None, "is missing"), (b"{", "is not JSON"), (b"[" * 9**5, "is not JSON")),
        *(
            (b"\xff", "is not JSON"),
            (b"[]", "is not a JSON object"),
            (b"null", "is not a JSON object"),
            (b'{"a": "\\ud800"}', "is not JSON"),
        ),
    ],
)
def test_a_file_without_an_object_is_named(tmp_path, content, said):
    file = tmp_path / "config.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UserError, match=rf"config.json {said}"):
        paths.read_json_object(file)
