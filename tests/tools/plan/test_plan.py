"""A plan describes the compiled step of training, and allocates nothing."""

import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import launch
from configs import wmt_base, wmt_big
from transformer.data import tokens
from transformer.distributed import layout
from transformer.distributed.layout import make_layout
from transformer.errors import UserError
from transformer.models import fields as model_fields
from transformer.tasks import translation
from transformer.tools.plan import collectives, plan
from transformer.workdir import key_tables

ROOT = Path(__file__).resolve().parents[3]
# A model that mostly communicates params; all sharded dimensions are divisible by eight.
SMALL = {"vocabulary.size": 1024, "model.d_model": 128, "model.d_ff": 512, "model.num_heads": 8}
SMALL |= {"model.num_layers": 1, "data.max_length": 16, "data.row_length": 16}
SMALL |= {"data.batch_tokens": 256, "loss.blocks": 1, "plan.num_devices": 8}
# The embedding, three attentions, two feed-forward networks, five norms.
PARAMETERS = 1024 * 128 + 12 * 128**2 + 4 * 128 * 512 + 2 * (512 + 128) + 2 * 5 * 128


def config_of(**changes):
    config = key_tables.set_mode_keys(wmt_base.get_config(), "plan")
    changes = {name.replace("__", "."): value for name, value in changes.items()}
    config.update_from_flattened_dict({**SMALL, **changes})
    return config


def planned(**changes):
    return plan.planned(config_of(**changes), translation)


def split(*mesh, **changes):
    return planned(parallel__strategy="jit", parallel__mesh=mesh, **changes)


def total(found, what="bytes", kinds=collectives.KINDS):
    return sum(one[what] for one in found["collectives"] if one["kind"] in kinds)


@pytest.fixture(scope="module")
def plain():
    """Eight copies, of nine rows: seven more are empty."""
    return planned(data__batch_tokens=16 * 9)


def test_the_total_is_what_the_program_asks_for(plain):
    """Arguments and temporaries; the output state aliases the donated input state."""
    found = plain["bytes_per_device"]
    assert plain["parameters"] == PARAMETERS
    assert found["parameters"] == 4 * PARAMETERS
    assert found["moments"] == pytest.approx(8 * PARAMETERS, abs=16)
    assert plain["checkpoint_bytes"] == pytest.approx(12 * PARAMETERS, abs=16)
    assert (plain["rows"], plain["empty_rows"]) == (16, 7)
    assert found["batch"] == 16 // 8 * 16 * 8 * 4  # rows, positions, arrays
    # The gradient alone is as large as the params.
    assert found["temporaries"] > found["parameters"]
    assert found["total"] == sum(found[name] for name in found if name != "total")


def test_flops_are_the_models_and_an_unknown_device_has_no_times(plain):
    sizes = {"source_vocab_size": 1024, "target_vocab_size": 1024}
    model = model_fields.build("transformer", config_of().model.to_dict(), **sizes)
    assert plain["flops_per_step"] == model.flops(16, 16)
    assert plain["flops_per_run"] == plain["flops_per_step"] * 100_000
    assert plain["device"] == "cpu"
    for name in ("compute_seconds", "communication_seconds", "step_seconds", "run_seconds"):
        assert plain[name] is None


TRAINING = """
import resource, sys
import jax, numpy as np
from transformer.distributed import layout as layouts
from transformer.modes import command_line
from transformer.tasks import translation
from transformer.tools.plan import plan
from transformer.workdir import config_files

config = config_files.load_config("configs/wmt_base.py")
config = command_line.set_keys(config, sys.argv[1:], "plan")
layout = layouts.make_layout("jit")
model = translation.model(config, translation.sizes(config, None))
batch = plan.batch_on(layout, translation.example(config, 0))
program = plan.compiled(config, translation, model, layout, batch)
state, step = program
before = int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
ones = lambda x: jax.device_put(np.ones(x.shape, x.dtype), layout.replicated)
state, batch = jax.tree.map(ones, (state, batch))
# One step: a second one may begin before the system has taken back the temporaries of the first.
jax.block_until_ready(step(state, batch))
peak = open("/proc/self/status").read().partition("VmHWM:")[2].split()[0]  # ru_maxrss is pytest's
grown = int(peak) * 1024 - before
plan.compiled = lambda *_: program  # it is not compiled again
result = plan.planned(config, translation)
assert result["collectives"] == []  # one device sends nothing
print(grown, result["bytes_per_device"]["total"])
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads Linux's /proc")
def test_a_training_step_takes_the_memory_that_was_planned():
    """Measured as the growth of a process with one device; the state is half of it."""
    values = {"model.d_model": 256, "model.d_ff": 8192, "model.num_heads": 4, "model.num_layers": 2}
    values |= {"vocabulary.size": 2000, "data.batch_tokens": 512, "data.row_length": 32}
    values |= {"data.max_length": 32, "parallel.strategy": "jit"}
    # Large arrays are mapped separately: otherwise some reuse the compiler's freed memory.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": str(1 << 16)}
    environment["XLA_FLAGS"] = "--xla_backend_optimization_level=0"
    arguments = [f"--config.{key}={value}" for key, value in values.items()]
    done = subprocess.run(
        [sys.executable, "-c", TRAINING, *arguments],
        **{"capture_output": True, "text": True, "cwd": ROOT, "check": True},
        env=environment,
    )
    grown, total = map(int, done.stdout.split())
    assert total > 2e8
    assert grown == pytest.approx(total, rel=0.25)


def test_mapped_copies_send_their_gradient_once(plain):
    assert {one["kind"] for one in plain["collectives"]} == {"all-reduce"}
    assert total(plain) == pytest.approx(4 * PARAMETERS, rel=0.01)
    assert total(plain, "sent") == pytest.approx(7 / 8 * 2 * total(plain))


@pytest.mark.slow
def test_a_global_program_sends_the_embeddings_gradient_for_each_of_its_uses():
    """XLA all-reduces the three uses separately; with 'pmap' micro-batches are summed first."""
    step_plan = split(8, 1, 1)
    assert {one["kind"] for one in step_plan["collectives"]} == {"all-reduce"}
    assert total(step_plan) == pytest.approx(4 * (PARAMETERS + 2 * 1024 * 128), rel=0.01)
    assert total(planned(train__accumulate=2)) == pytest.approx(4 * PARAMETERS, rel=0.01)


@pytest.mark.slow
def test_split_parameters_are_gathered_once_and_a_loop_counts_as_often_as_it_runs():
    """Not activations, which XLA would shard by features without `_keep_rows_sharded`. With 'jit'
    each micro-batch all-reduces its gradient."""
    once, twice = (
        split(1, 8, 1, data__batch_tokens=2048, train__accumulate=parts) for parts in (1, 2)
    )
    gathered = total(once, kinds=("all-gather",))
    assert 0.9 * 4 * once["parameters"] < gathered < 1.1 * 4 * once["parameters"]
    sent = [total(found, kinds=("all-reduce",)) for found in (once, twice)]
    assert sent[1] == pytest.approx(2 * sent[0], rel=0.01)


@pytest.mark.parametrize(("pack", "length"), [(True, 32), (False, 16)])
def test_the_batch_is_the_longest_that_training_reads(pack, length, tmp_path):
    """Pairs of up to 12 pieces: unpacked rows have static lengths of up to 16."""
    config = config_of(data__pack=pack, data__row_length=32, data__max_length=12)
    lengths = np.arange(200) % 11 + 2
    side = tokens.Side(np.full(lengths.sum(), 7), np.concatenate([[0], np.cumsum(lengths)]))
    both = tokens.Tokens({"source": side, "target": side}, tmp_path)
    training = translation.training_batches(config, both)
    shapes = [training.shape(t) for t in range(len(training))]
    filled, longest = translation.example(config, 0)["targets"].shape
    assert longest == length == max(length for _, length in shapes)
    assert (filled, length) in shapes


@pytest.mark.slow
def test_nothing_is_allocated(monkeypatch):
    """Although the state has 26 GB; compiling is replaced."""
    monkeypatch.setattr("jax.stages.Lowered.compile", lambda _: None)
    config = wmt_big.get_config()
    config.model.update(d_model=8192, d_ff=32768, num_layers=1)
    sizes = {"source_vocab_size": 37_000, "target_vocab_size": 37_000}
    model = model_fields.build("transformer", config.model.to_dict(), **sizes)
    before = len(jax.live_arrays()), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    mapped = make_layout("pmap")
    batch = plan.batch_on(mapped, translation.example(config, 8))
    state, _ = plan.compiled(config, translation, model, mapped, batch)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before[1]
    assert layout.bytes_per_device(state) > 25e9
    assert len(jax.live_arrays()) == before[0]
    assert grown * 1024 < 1e9


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("plan.device", "TPU v9", "device must be one of .*H100, .*TPU v5e.*found 'TPU v9'"),
        ("plan.device", "MIG", "found 'MIG'"),
        ("plan.topology", "v5e", "such as v5e:4x4, .* found 'v5e'"),
        ("plan.topology", "v4:2x2x4", "slice of TPU v5e or v6e.* found 'v4:2x2x4'"),
        ("plan.topology", "h100:0", "or GPUs .*, such as h100:8, .* found 'h100:0'"),
        ("plan.topology", "h100:20", "more than 8 are whole hosts of 8, found 'h100:20'"),
        ("plan.topology", "v5e:2x4", "v5e:2x4 determines the devices: leave .*num_devices and"),
        ("parallel.mesh", (3, 1, 1), r"config.parallel.mesh=\(3, 1, 1\) does not match .*, 8:"),
        ("parallel.mesh", (0, 8, 1), "which config.parallel.strategy='pmap' cannot"),
        ("model.num_heads", 7, "multiple of config.model.num_heads=7"),
    ],
)
def test_wrong_values_are_refused_before_compiling(key, value, words, monkeypatch, tmp_path):
    monkeypatch.setattr("jax.stages.Lowered.compile", None)
    monkeypatch.setattr(plan, "simulate", lambda _: None)  # the tests already have eight devices
    config = config_of(**{key: value})
    if value in ("v5e", "v4:2x2x4", "h100:0", "h100:20"):
        config.plan.num_devices = 0
    with pytest.raises(ValueError) as error:  # noqa: PT011 (looked at below)
        plan.plan(config, tmp_path / "none")
    assert launch.one_line(error.value)
    assert re.fullmatch(f".*{words}.*", str(error.value))


@pytest.mark.parametrize(("topology", "extra"), [("v5e:2x4", "tpu"), ("b200:8", "cuda13")])
def test_a_topology_wants_the_compiler_of_its_devices(topology, extra, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(UserError, match=rf'=.*{topology} needs .* pip install "jax\[{extra}\]"'):
        plan.check(config_of(plan__topology=topology, plan__num_devices=0))


@pytest.mark.slow
def test_the_mode_prints_one_line_and_leaves_nothing(tmp_path):
    """The given number of devices, whatever the environment says; no corpus, no workdir."""
    values = {**SMALL, "plan.num_devices": 12, "plan.device": "H100"}
    done = subprocess.run(
        [
            *(sys.executable, ROOT / "launch.py", "--mode=plan"),
            f"--config={ROOT}/configs/wmt_base.py",
            *(f"--config.{key}={value}" for key, value in values.items()),
            f"--config.data.data_dir={tmp_path}/data",
        ],
        **{"capture_output": True, "text": True, "cwd": tmp_path, "check": False},
    )
    assert done.returncode == 0, done.stderr
    [line] = done.stdout.splitlines()
    found = json.loads(line)
    assert (found["devices"], found["mesh"], found["rows"]) == (12, [12, 1, 1], 24)
    assert found["parameters"] == PARAMETERS
    assert found["bound_by"] in ("compute", "communication")
    assert found["step_seconds"] == max(found["compute_seconds"], found["communication_seconds"])
    assert list(tmp_path.iterdir()) == []
    table = re.sub(r" +\d\d:\d\d:\d\d|\d\d:\d\d:\d\d ", "", done.stderr)
    for line in ("device H100", f"  parameters {4 * PARAMETERS / 1e6:.2f} MB", "memory 80.00 GB"):
        assert line in table.splitlines()
    assert re.search("  kind all-reduce, group 12, count .*, bytes .* MB, sent .* MB", table)
