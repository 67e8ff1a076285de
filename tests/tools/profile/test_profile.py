"""A trace has the given number of steps, and nothing is saved."""

import gzip
import json

import pytest

from transformer.tools.profile.profile import WARM_UP, profile
from transformer.workdir import key_tables


@pytest.mark.slow
def test_a_trace_has_the_given_number_of_steps(tiny_config, tmp_path):
    config = key_tables.set_mode_keys(tiny_config(), "profile")
    config.profile.steps = 2
    profile(config, tmp_path / "run")
    [file] = (tmp_path / "run" / "profile").rglob("perfetto_trace.json.gz")
    events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    steps = {x["args"]["step_num"] for x in events if x.get("name") == "train"}
    assert steps == {str(WARM_UP), str(WARM_UP + 1)}
    assert not (tmp_path / "run" / "checkpoints").exists()
