"""Every test sees eight CPU devices; one tiny trained run serves all tests that only read a run."""

import collections
import contextlib
import gc
import importlib.metadata
import os
import pathlib
import resource
import signal
import sys
import tempfile
import termios
from typing import NamedTuple

from transformer.runtime import startup

if "PYTEST_XDIST_WORKER" not in os.environ:  # pytest's workers have their parent's environment
    SHARED = tempfile.TemporaryDirectory(prefix="shared-")  # removed when pytest ends
    os.environ["SHARED_BY_TESTS"] = SHARED.name
    os.environ["JAX_COMPILATION_CACHE_DIR"] = os.path.join(SHARED.name, "compiled")
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):  # each process would compile all libraries
        os.environ["PYTHONPYCACHEPREFIX"] = os.path.join(SHARED.name, "bytecode")
        sys.dont_write_bytecode, sys.pycache_prefix = False, os.environ["PYTHONPYCACHEPREFIX"]

# Before anything imports jax. Compiling would take most of the time: it is done without
# optimisation, by XLA's older kernel emitters and in one LLVM module a program, which together take
# half the time of the newer emitters in 32 modules; and once for all tests and the processes they
# start. XLA ends at a flag that it does not know, and jax 0.12 (Python 3.12) has no older emitters.
QUICK = "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
if importlib.metadata.version("jaxlib").startswith("0.10."):
    QUICK += " --xla_cpu_use_fusion_emitters=false"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count=8 {QUICK}"
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a job in the background ignores Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what tests start does not
startup.schedule_for_memory()  # as launch.py: programs are kept by XLA_FLAGS, too
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ["JAX_TRACEBACK_IN_LOCATIONS_LIMIT"] = "0"  # recording tracebacks slows tracing
gc.set_threshold(startup.NEW_OBJECTS)  # as launch.py: tracing makes many objects; a tenth less time

import jax  # noqa: E402 (it reads the environment set above)
import pytest  # noqa: E402 (likewise)
from helpers import shared  # noqa: E402 (likewise)

from transformer.models import kernels  # noqa: E402 (likewise)
from transformer.workdir import config_files  # noqa: E402 (likewise)

kernels.use(config_files.default_config().kernels)  # as launch.py


def pytest_collection_modifyitems(items):
    """Puts the files with the most slow tests first: at the end, nobody waits for one of them."""
    slow = collections.Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: -slow[item.path])


class Run(NamedTuple):
    """A workdir that has been trained, and the config it was trained with."""

    config: object
    workdir: object


@pytest.fixture(scope="module", autouse=True)
def _programs():
    """A file's compiled programs go with it, and the kernels that it chose.

    On the CPU each program takes dozens of memory maps. Beyond 65,530 (on Linux) a process dies.
    """
    yield
    kernels.use(config_files.default_config().kernels)
    jax.clear_caches()


@pytest.fixture
def use_kernels():
    """Chooses kernels by their name until the test ends."""
    yield kernels.use
    kernels.use(config_files.default_config().kernels)


@pytest.fixture(scope="session")
def data_dir():
    """Where TFDS keeps its data sets, and we the ids."""
    return shared.made_once("data", os.mkdir)


@pytest.fixture(scope="session")
def test_data():
    """The folder of real data, which the environment names."""
    if folder := os.environ.get("TRANSFORMER_TEST_DATA"):
        return pathlib.Path(folder)
    return pytest.skip("TRANSFORMER_TEST_DATA does not name the folder of real data")


@pytest.fixture(scope="session")
def text_dir():
    """A folder of parallel text, Korean and English: to read, never to write into."""
    from helpers import reversal

    def write(folder):
        folder.mkdir()
        reversal.write_text(folder, train=2000, validation=60, test=60)

    return shared.made_once("text", write)


@pytest.fixture(scope="session")
def untrained():
    """(model, params) of letters to reverse; outputs end anywhere, so that batches shrink."""
    from helpers import reversal

    from transformer.data import tokenizer

    model, params = reversal.untrained(seed=6, num_layers=1)
    params["target_embedding"]["embedding"][tokenizer.END] *= 2
    return model, params


@pytest.fixture(scope="session")
def tiny_values(data_dir, text_dir):
    """What makes configs/parallel_text.py tiny, as {config key: value}."""
    return {
        "data.data_dir": str(data_dir),
        "data.directory": str(text_dir),
        "data.source_language": "ko",
        "data.target_language": "en",
        "data.max_length": 32,
        "data.row_length": 32,
        "data.batch_tokens": 1024,
        "vocabulary.size": 293,  # 256 bytes, 4 special pieces, 17 characters, 16 behind a space
        "model.d_model": 32,
        "model.d_ff": 64,
        "model.num_heads": 2,
        "model.num_layers": 1,
        "optimizer.schedule.warmup_steps": 40,
        "optimizer.schedule.factor": 0.5,
        "train.num_steps": 160,  # some BLEU, so that scores can be compared
        "train.log_every": 10,
        "train.save_every": 40,
        "train.keep": 3,
        "evaluate.every": 80,
        "evaluate.average_last": 3,
        "decode.beam_width": 1,
        "decode.extra_length": 2,
        "decode.max_length": 64,
        "decode.batch_tokens": 4096,
    }


@pytest.fixture(scope="session")
def tiny_config(tiny_values):
    """A function of {config key: value}: the config of a tiny run with these changes."""
    from configs import parallel_text

    def configure(changes=None):
        config = parallel_text.get_config()
        config.update_from_flattened_dict({**tiny_values, **(changes or {})})
        return config

    return configure


@pytest.fixture
def mixer_config(tiny_config, monkeypatch):
    """Like tiny_config, but with a model that compiles much faster."""
    from transformer import registry

    monkeypatch.setitem(registry.MODELS, "mixer", "helpers.mixer:Mixer")

    def configure(changes):
        config = tiny_config({"loss.blocks": 1, "optimizer.schedule.d_model": 16, **changes})
        config.architecture, config.model = "mixer", {"width": 16}
        return config

    return configure


@pytest.fixture(scope="session")
def tiny_run(tiny_config):
    """The tiny run, trained: to read, or to copy, never to write into."""
    from transformer.modes import train

    config = tiny_config()
    run = lambda workdir: train.train(config.copy_and_resolve_references(), workdir)
    return Run(config, shared.made_once("tiny", run))


@pytest.fixture(scope="session")
def reversal_run(tmp_path_factory):
    """The workdir of a run that can reverse: to read, or to copy, never to write into."""
    from helpers import reversal

    workdir = tmp_path_factory.mktemp("runs") / "reversal"
    reversal.write_workdir(workdir)
    return workdir


@pytest.fixture
def toy_config(tmp_path, monkeypatch):
    """Registers the toy task; returns the file of its config."""
    from helpers import toy_task

    from transformer import registry
    from transformer.workdir import config_files

    file = tmp_path / "configs" / "toy.py"
    file.parent.mkdir()
    file.write_text(toy_task.CONFIG)
    monkeypatch.setattr(config_files, "CONFIGS", file.parent)
    monkeypatch.setitem(registry.TASKS, "toy", "helpers.toy_task")
    return file


@pytest.fixture
def open_terminal(monkeypatch, caplog):
    """A function that makes standard error a terminal of 80 columns; returns (shown, hang_up)."""
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (24, 80))
    ours = open(master, "rb", 0)  # noqa: SIM115 (closed below)
    theirs = open(slave, "w", encoding="utf-8")  # noqa: SIM115

    def shown():
        print(end="END", file=theirs, flush=True)
        content = b""
        while not content.endswith(b"END"):
            content += ours.read(4096)
        return content.removesuffix(b"END").decode()

    def open_it():  # called in the test itself: pytest sets standard error before it
        caplog.set_level("INFO")
        monkeypatch.setattr(sys, "stderr", theirs)
        return shown, ours.close

    yield open_it
    ours.close()
    with contextlib.suppress(OSError):
        theirs.close()


@pytest.fixture
def no_file_over():
    """A context in which no file grows over so many bytes, as if the disk were full.

    At the end, what a failed save left is collected: its errors are not a later test's.
    """

    @contextlib.contextmanager
    def limited(count):
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (count, limits[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    yield limited
    gc.collect()


@pytest.fixture
def answered(tmp_path, monkeypatch, capsysbinary):
    """A function of a mode, a workdir, bytes on standard input and {config key: value}: the text
    on standard output."""
    from transformer import registry
    from transformer.workdir import key_tables
    from transformer.workdir.saved_config import read_config

    def run(mode, workdir, content, **changes):
        (tmp_path / "input").write_bytes(content)
        config = key_tables.set_mode_keys(read_config(workdir), mode)
        config.update_from_flattened_dict(changes)
        with open(tmp_path / "input", encoding="ascii") as file:  # so that text would not do
            monkeypatch.setattr(sys, "stdin", file)
            registry.load(registry.MODES[mode].code)(config, workdir)
        return capsysbinary.readouterr().out.decode()

    return run


@pytest.fixture
def no_network(monkeypatch):
    """Blocks requests, so that no test downloads gigabytes."""
    import requests

    def get(*_, **__):
        raise requests.ConnectionError("no network")

    monkeypatch.setattr(requests, "get", get)
    monkeypatch.setattr(requests.Session, "get", get)
