"""The package: requirements said once, the version, and what a wheel carries."""

import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib

import pytest

import transformer

ROOT = pathlib.Path(__file__).resolve().parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def packages(name):
    """Returns the packages of a requirements file, without those that it reads from another."""
    lines = re.sub(r"\s*#.*|^-r .*", "", (ROOT / name).read_text(), flags=re.MULTILINE).split()
    return set(lines)


def test_extras_are_what_the_requirements_say():
    assert packages("tests/requirements.txt") == {*EXTRAS["dev"], *EXTRAS["serve"]}
    assert packages("tests/requirements-interop.txt") == set(EXTRAS["interop"])


def test_the_version_is_the_newest_of_the_changelog_and_what_is_cited():
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1]
    cited = re.search(r"^version: (\S+)", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)[1]
    assert transformer.__version__ == newest == cited


@pytest.mark.slow
def test_a_wheel_runs_in_another_folder(tmp_path):
    def run(*arguments, **variables):
        command, environment = [sys.executable, *arguments], {**os.environ, **variables}
        made = subprocess.run(
            command, cwd=tmp_path, env=environment, text=True, capture_output=True, timeout=600
        )
        assert made.returncode == 0, made.stderr
        return made.stdout

    run("-m", "pip", "wheel", "--quiet", "--no-deps", f"--wheel-dir={tmp_path}", str(ROOT))
    [wheel] = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    run("-m", "pip", "install", "--quiet", "--no-deps", f"--target={site}", str(wheel))
    assert {path.name for path in site.iterdir()} >= {"transformer"}
    assert not (site / "configs").exists()
    (tmp_path / "mine.py").write_text("from configs.quickstart import get_config as get_config\n")
    command = functools.partial(run, "-m", "transformer", PYTHONPATH=str(site), JAX_PLATFORMS="cpu")
    assert "--config.data.corpus=builtin" in command("--config=quickstart", "--help")
    planned = command("--config=mine.py", "--mode=plan")
    assert json.loads(planned.splitlines()[-1])
