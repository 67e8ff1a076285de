"""The text of a small TPU program, as XLA writes it."""

import re

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
