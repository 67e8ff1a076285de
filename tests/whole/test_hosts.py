"""Real runs of several processes on one machine: shared, resumed by others, killed, stopped."""

import dataclasses
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
from helpers import reversal
from helpers.checkpoints import flip_a_bit

from transformer.workdir import log

pytestmark = pytest.mark.slow
ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS = 40
SPLITS = {"train": 300, "validation": 7, "test": 11}  # which no number of processes divides

# Without dropout, as mapped devices drop units of their own. The learning rate is 0.0044 at its
# highest. After so few steps the likeliest sentence is none: with a minimal length there are some
# to compare. GELU: the gradient of ReLU jumps where rounding takes a unit across zero (seen on a
# CPU without AVX-512, from step 9 on). A batch has 24 rows, which 1, 4, 6 and 8 devices divide.
VALUES = {"data.target_language": "en", "data.max_length": 32, "data.row_length": 32}
VALUES |= {"data.batch_tokens": 768, "vocabulary.size": 293, "compilation_cache": ""}
VALUES |= {"model.d_model": 16, "model.d_ff": 32, "model.num_heads": 4, "model.num_layers": 1}
VALUES |= {"model.dropout_rate": 0.0, "model.feed_forward": "gelu"}
VALUES |= {"optimizer.schedule.factor": 0.035, "optimizer.schedule.warmup_steps": 4}
VALUES |= {"train.num_steps": STEPS, "train.log_every": 1, "train.save_every": 15, "train.seed": 1}
VALUES |= {"evaluate.every": 20, "evaluate.weights": "latest"}
VALUES |= {"decode.beam_width": 2, "decode.min_length": 8, "decode.extra_length": 2}


@dataclasses.dataclass
class Run:
    """A run's processes, of two devices each."""

    processes: list[subprocess.Popen]
    workdir: pathlib.Path

    def ends(self, within=240):
        """Their exit statuses, results and messages."""
        end = time.monotonic() + within
        for process in self.processes:
            process.wait(max(0, end - time.monotonic()))
        return [process.returncode for process in self.processes]

    def said(self, name="err"):
        return [self._file(i, name).read_text() for i in range(len(self.processes))]

    def waits_until(self, has_come):
        """Waits until a function says that its moment has come."""
        while not has_come():
            assert all(process.poll() is None for process in self.processes), self.said()
            time.sleep(0.02)

    def _file(self, number, name):
        return self.workdir.parent / f"{self.workdir.name}.{number}.{name}"


@pytest.fixture(scope="module")
def start(tmp_path_factory, data_dir):
    """A function that starts a mode in so many processes; they end with the tests."""
    runs, text = [], tmp_path_factory.mktemp("text")
    reversal.write_text(text, **SPLITS)

    def begin(workdir, count, *, mode="train", values=(), data_dirs=None):
        with socket.socket() as free:
            free.bind(("localhost", 0))
            address = f"localhost:{free.getsockname()[1]}"
        options = {**VALUES, **dict(values)} if mode == "train" else dict(values)
        options |= {"data.directory": text}
        command = [sys.executable, ROOT / "launch.py", f"--mode={mode}", f"--workdir={workdir}"]
        command += [f"--config={ROOT}/configs/parallel_text.py"] if mode == "train" else []
        devices = f"device_count={2 if count > 1 else 1}"
        flags = os.environ["XLA_FLAGS"].replace("device_count=8", devices)
        # Where an allocator's setting is given, launch.py does not restart with its own.
        env = {**os.environ, "XLA_FLAGS": flags, "MALLOC_ARENA_MAX": "2"}
        run = Run([], workdir)
        for i in range(count):
            own = {"data.data_dir": data_dirs[i] if data_dirs else data_dir}
            if count > 1:
                own |= {"parallel.coordinator": address, "parallel.num_processes": count}
                own |= {"parallel.process_id": i}
            asked = [f"--config.{key}={value}" for key, value in {**options, **own}.items()]
            with open(run._file(i, "out"), "w") as out, open(run._file(i, "err"), "w") as err:
                process = subprocess.Popen([*command, *asked], stdout=out, stderr=err, env=env)
            run.processes.append(process)
        runs.append(run)
        return run

    yield begin
    for run in runs:
        for process in run.processes:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def alone(start, tmp_path_factory):
    """The workdir of the same run by one process with one device."""
    run = start(tmp_path_factory.mktemp("runs") / "alone", 1)
    assert run.ends() == [0], run.said()
    return run.workdir


def losses(workdir):
    return [line["loss"] for line in log.read(workdir) if line["kind"] == "train"]


def test_one_process_learns(alone):
    """What the others are compared with: a loss that falls, and sentences."""
    found = losses(alone)
    assert len(found) == STEPS
    assert np.mean(found[-5:]) < np.mean(found[:5]) - 1
    sentences = (alone / "evaluation" / "test.hypothesis").read_text().splitlines()
    assert all(sentences)
    assert len(set(sentences)) > 2


def assert_same_run(workdir, alone):
    """The same log, sentences and scores, but for rounding."""
    lines, others = log.read(workdir), log.read(alone)
    assert [(x["kind"], x["step"]) for x in lines] == [(x["kind"], x["step"]) for x in others]
    for line, other in zip(lines, others, strict=True):
        assert line.keys() == other.keys()
        for key in ("loss", "accuracy", "gradient_norm", "padding", "bleu", "chrf"):
            if key in line:
                np.testing.assert_allclose(line[key], other[key], rtol=1e-5, atol=1e-7)
    for name in ("source", "hypothesis", "reference"):
        found, expected = (w / "evaluation" / f"test.{name}" for w in (workdir, alone))
        assert found.read_text() == expected.read_text()
        assert found.read_text().count("\n") == SPLITS["test"]
    found, expected = (log.read(w, "evaluations.jsonl")[-1] for w in (workdir, alone))
    assert found["loss"] == pytest.approx(expected["loss"], rel=1e-5)
    for key in ("bleu", "chrf", "steps"):
        assert found[key] == expected[key]


def layout(strategy, mesh):
    return {"parallel.strategy": strategy, "parallel.mesh": mesh}


def dies(run, killed):
    """Kills one of two processes once step 30 is saved: the other ends, too."""
    run.waits_until((run.workdir / "checkpoints" / "30" / "checksums.json").exists)
    run.processes[killed].kill()
    statuses = run.ends(within=60)
    assert statuses[killed] == -signal.SIGKILL
    assert statuses[1 - killed] not in (0, 2, 143), run.said()


def test_processes_train_as_one_stop_together_and_others_go_on(start, alone, tmp_path):
    """Told to one of two processes, both stop after the same step; started again, when one is
    killed, the other ends; three go on from the newest checkpoint that is whole; an evaluation by
    two is theirs. How processes agree to stop, and an evaluation, know no strategy."""
    values, workdir = layout("pmap", (0, 1, 1)), tmp_path / "run"
    run = start(workdir, 2, values=values)
    run.waits_until(lambda: any(line["step"] >= 5 for line in log.read(workdir)))
    run.processes[1].terminate()
    assert run.ends() == [143, 143], run.said()
    assert not (workdir / "evaluations.jsonl").exists()
    resumed = start(workdir, 2, values=values)
    dies(resumed, killed=1)
    assert "resuming from step" in resumed.said()[0]
    files = (workdir / "checkpoints" / "30" / "opt_state").rglob("d/*")
    damaged = max(files, key=lambda path: path.stat().st_size)
    flip_a_bit(damaged)
    whole = start(workdir, 3, values=values)
    assert whole.ends() == [0] * 3, whole.said()
    assert "resuming from step 20\n" in whole.said()[0]
    assert str(damaged) in whole.said()[0]
    assert_same_run(workdir, alone)
    results = whole.said("out")
    assert json.loads(results[0]) == log.read(workdir, "evaluations.jsonl")[-1]
    assert results[1:] == ["", ""]
    again = start(workdir, 2, mode="evaluate")
    assert again.ends() == [0, 0], again.said()
    assert_same_run(workdir, alone)
    evaluated, *others = again.said("out")
    assert json.loads(evaluated)["bleu"] == json.loads(results[0])["bleu"]
    assert others == [""]


def test_processes_drop_what_one_drops_on_any_mesh(start, alone, tmp_path):
    """Under jit: a global program's random numbers know no processes. Each of two, being without a
    shared disk, prepares its own text; when the first is killed, four go on, on another mesh."""
    rates = {f"model.{kind}dropout_rate": 0.1 for kind in ("", "attention_", "activation_")}
    one = start(tmp_path / "one", 1, values={**rates, **layout("jit", (1, 1, 1))})
    assert one.ends() == [0], one.said()
    folders = [tmp_path / f"data_{number}" for number in range(4)]
    values = {**rates, **layout("jit", (0, 2, 1))}
    dies(start(tmp_path / "run", 2, values=values, data_dirs=folders), killed=0)
    values |= layout("jit", (0, 1, 4))
    others = start(tmp_path / "run", 4, values=values, data_dirs=folders)
    assert others.ends() == [0] * 4, others.said()
    assert "resuming from step 30\n" in others.said()[0]
    dropping, plain = np.array(losses(tmp_path / "one")), np.array(losses(alone))
    assert np.abs(dropping / plain - 1).max() > 1e-2
    assert_same_run(tmp_path / "run", tmp_path / "one")
    files = [sorted(p.relative_to(f) for p in f.rglob("*.ids")) for f in folders]
    assert files[0] == files[1] == files[2] == files[3] != []


def test_what_was_typed_wrong_ends_all_processes(start, tmp_path):
    """Who finds out says so and ends; then the others end for want of it, if they have not yet."""
    run = start(tmp_path / "run", 2, values={"data.train": "nothing"})
    assert run.ends(within=60)[0] == 2
    assert run.ends(within=0)[1] != 0
    assert "set config.data.source_language" in run.said()[0]
