"""The texts of small programs for a TPU and a GPU, as XLA writes them, and abstract devices."""

import os
import re
from unittest import mock

import pytest

from transformer.errors import UserError
from transformer.tools.plan import topologies

# Arrays with S(1) are on the chip. A step that takes two rows of a table [1000, 128], prefetches a
# slice of 512 bytes, and in a loop of three iterations around one of four reads 512 bytes and
# writes 1024.
PROGRAM = """
HloModule step, is_scheduled=true

%rows (param_0: f32[1000,128], param_1: s32[2]) -> f32[2,128] {
  %param_0 = f32[1000,128]{1,0:T(8,128)} parameter(0)
  %param_1 = s32[2]{0:T(128)S(1)} parameter(1)
  ROOT %gather.1 = f32[2,128]{1,0:T(8,128)} gather(%param_0, %param_1), offset_dims={1}
}

%twice (param_2: f32[128]) -> f32[256] {
  %param_2 = f32[128]{0:T(128)} parameter(0)
  ROOT %concatenate.1 = f32[256]{0:T(128)} concatenate(%param_2, %param_2), dimensions={0}
}

%four (counters: (s32[], f32[128])) -> pred[] {
  %limit = s32[]{:T(128)S(6)} constant(4), metadata={op_name="jit(step)/while"}
  %counter = s32[]{:T(128)S(6)} get-tuple-element(%counters), index=0
  ROOT %less = pred[]{:T(512)S(6)} compare(%counter, %limit), direction=LT
}

%body (carry: f32[128]) -> f32[128] {
  %x = f32[128]{0:T(128)} parameter(0)
  ROOT %fusion.2 = f32[256]{0:T(128)} fusion(%x), kind=kLoop, calls=%twice, CYCLES(30)
}

%outer (carry: f32[128]) -> f32[128] {
  ROOT %while.1 = f32[128]{0} while(%carry), condition=%four, body=%body
}

ENTRY %main (table: f32[1000,128], ids: s32[2]) -> f32[2,128] {
  %table = f32[1000,128]{1,0:T(8,128)} parameter(0)
  %ids = s32[2]{0:T(128)S(1)} parameter(1)
  %start = ((f32[1000,128]{1,0}), f32[1,128]{1,0:S(1)}, s32[]{:S(2)}) slice-start(%table)
  %taken = f32[2,128]{1,0:T(8,128)S(1)} fusion(%table, %ids), calls=%rows, CYCLES(7)
  %done = f32[1,128]{1,0:S(1)} slice-done(%start)
  ROOT %while.2 = f32[128]{0} while(%taken), condition=%unknown, body=%outer, TRIPS(3)
}
"""
PROGRAM = re.sub(r"CYCLES\((\d+)\)", r'backend_config={"estimated_cycles":"\1"}', PROGRAM)
TRIPS = 'backend_config={"known_trip_count":{"n":"3"}}'
PROGRAM = PROGRAM.replace("TRIPS(3)", TRIPS)

# A loop of three iterations all-reduces 4,000 bytes while it takes a row of a table and scales an
# array; after it, an all-reduce starts, and nothing runs until it ends.
GPU_PROGRAM = """
HloModule step, is_scheduled=true

%add (x: f32[], y: f32[]) -> f32[] {
  ROOT %sum = f32[] add(%x, %y)
}

%row (param_0: f32[4,100], param_1: s32[]) -> f32[1,100] {
  %param_0 = f32[4,100]{1,0} parameter(0)
  %param_1 = s32[] parameter(1)
  ROOT %dynamic_slice = f32[1,100]{1,0} dynamic-slice(%param_0, %param_1, %param_1)
}

%scaled (param_2: f32[1000]) -> f32[1000] {
  %param_2 = f32[1000]{0} parameter(0)
  ROOT %twice = f32[1000]{0} add(%param_2, %param_2)
}

%body (carry: f32[1000]) -> f32[1000] {
  %carry = f32[1000]{0} parameter(0)
  %table = f32[4,100]{1,0} get-tuple-element(%carry), index=1
  %i = s32[] get-tuple-element(%carry), index=2
  %first = ((f32[1000]{0}), f32[1000]{0}) all-reduce-start(%carry), GROUPS, to_apply=%add
  %start = ((f32[4,100], s32[]), f32[1,100], u32[]) fusion-start(%table, %i), calls=%row
  %fusion-done = f32[1,100]{1,0} fusion-done(%start)
  %fusion = f32[1000]{0} fusion(%carry), kind=kCustom, calls=%scaled
  ROOT %first-done = f32[1000]{0} all-reduce-done(%first)
}

ENTRY %main (gradient: f32[1000]) -> f32[1000] {
  %gradient = f32[1000]{0} parameter(0)
  %loop = f32[1000]{0} while(%gradient), condition=%unknown, body=%body, TRIPS
  %last = ((f32[1000]{0}), f32[1000]{0}) all-reduce-start(%loop), GROUPS, to_apply=%add
  %bitcast = f32[1,1000]{1,0} bitcast(%gradient)
  ROOT %last-done = f32[1000]{0} all-reduce-done(%last)
}
"""
GPU_PROGRAM = GPU_PROGRAM.replace("TRIPS", TRIPS).replace("GROUPS", "replica_groups={{0,1}}")


def devices(topology):
    """Returns abstract devices; skips the test without their compiler, leaves os.environ alone."""
    try:
        topologies.check(topology)
    except UserError as error:
        pytest.skip(str(error))
    with mock.patch.dict(os.environ):
        return topologies.abstract_devices(topology)
