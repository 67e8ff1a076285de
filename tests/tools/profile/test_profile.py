"""A trace has the given number of steps, and nothing is saved."""

import gzip
import json

import pytest
from ml_collections import ConfigDict

from transformer.errors import UserError
from transformer.tools.profile.profile import WARM_UP, profile
from transformer.tools.profile.profile_keys import keys


def with_steps(config, steps):
    config = ConfigDict(config.to_dict())
    config.profile = {**keys().profile, "steps": steps}
    return config


def test_a_trace_has_the_given_number_of_steps(tiny_config, tmp_path):
    profile(with_steps(tiny_config({}), 2), tmp_path / "run")
    [file] = (tmp_path / "run" / "profile").rglob("perfetto_trace.json.gz")
    events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    steps = {x["args"]["step_num"] for x in events if x.get("name") == "train"}
    assert steps == {str(WARM_UP), str(WARM_UP + 1)}
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_a_trace_of_no_steps_is_refused(tiny_config, tmp_path):
    with pytest.raises(UserError, match=r"config\.profile\.steps must be at least 1, found 0"):
        profile(with_steps(tiny_config({}), 0), tmp_path / "run")
    assert not (tmp_path / "run").exists()
