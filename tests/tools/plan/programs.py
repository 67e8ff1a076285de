"""The texts of small programs for a TPU and a GPU, as XLA writes them, and abstract devices."""

import os
import pathlib
from unittest import mock

import pytest

from transformer.errors import UserError
from transformer.tools.plan import topologies

HERE = pathlib.Path(__file__).parent
# Arrays with S(1) are on the chip. A step that takes two rows of a table [1000, 128], prefetches a
# slice of 512 bytes, and in a loop of three iterations around one of four reads 512 bytes and
# writes 1024.
PROGRAM = (HERE / "tpu_step.hlo").read_text()
# A loop of three iterations all-reduces 4,000 bytes while it takes a row of a table and scales an
# array; after it, an all-reduce starts, and nothing runs until it ends.
GPU_PROGRAM = (HERE / "gpu_step.hlo").read_text()
TRIPS = 'backend_config={"known_trip_count":{"n":"3"}}'


def devices(topology):
    """Returns abstract devices; skips the test without their compiler, leaves os.environ alone."""
    try:
        topologies.check(topology)
    except UserError as error:
        pytest.skip(str(error))
    with mock.patch.dict(os.environ):
        return topologies.abstract_devices(topology)
