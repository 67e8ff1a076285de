"""Which collectives a compiled program runs, read from its text."""

import pytest
from tools.plan.programs import GPU_PROGRAM

from transformer.tools.plan import collectives
from transformer.tools.plan.program import Cost

PROGRAM = """
HloModule step, is_scheduled=true

%add (x: f32[], y: f32[]) -> f32[] {
  ROOT %sum = f32[] add(%x, %y)
}

%body (p: (s32[], f32[4,8])) -> (s32[], f32[4,8]) {
  %all-reduce.1 = (f32[], /*index=1*/f32[4,8]{1,0:T(8,128)}) all-reduce(%a), GROUPS, to_apply=%add
  %get = f32[] get-tuple-element(%all-reduce.1), index=0
}

%branch (p: f32[8]) -> f32[8] {
  ROOT %permute = bf16[8]{0} collective-permute(%p), source_target_pairs={{2,3},{3,2}}
}

ENTRY %main (p: f32[8]) -> f32[8] {
  %loop = (s32[], f32[4,8]) while(%t), condition=%add, body=%body, TRIPS
  %gather = (f32[2]{0}, f32[8]{0}) all-gather-start(%p), replica_groups=[2,4]<=[4,2]T(1,0)
  %done = f32[8]{0} all-gather-done(%gather)
  %scatter = pred[3]{0} reduce-scatter(%p), replica_groups={{0,1},{2,3},{4,5},{6,7}}
  %alone = f32[8]{0} all-reduce(%p), replica_groups={{0},{1},{2},{3},{4},{5},{6},{7}}
  ROOT %choice = f32[8] conditional(%p), branch_computations={%add, %branch}
}
"""


@pytest.mark.parametrize(
    ("groups", "first"),
    [
        ("replica_groups={{0,3},{1,2}}", (0, 3)),
        ("replica_groups={}", tuple(range(8))),
        ("replica_groups=[2,4]<=[8]", (0, 1, 2, 3)),
        ("replica_groups=mesh['data'=2,'fsdp'=2,'tensor'=2] {'fsdp'}", (0, 2)),
        ("replica_groups=mesh['data'=2,'fsdp'=2,'tensor'=2] {'data','tensor'}", (0, 1, 4, 5)),
        ("replica_groups=mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'b'}", (0, 2, 4, 6)),
        ("replica_groups=mesh['a'=2,'b'=2,'c'=2], device_ids=([2,2,2]T(2,1,0)) {'a'}", (0, 1)),
        ("replica_groups=mesh['axis_0'=8] {'axis_0':(1)2}", (0, 4)),
        ("replica_groups=mesh['axis_0'=8] {'axis_0':(2)4}", (0, 1, 2, 3)),
    ],
)
def test_collectives_are_read_from_a_programs_text(groups, first):
    trips = 'backend_config={"known_trip_count":{"n":"5"}}'
    program = PROGRAM.replace("GROUPS", groups).replace("TRIPS", trips)
    assert collectives.find_collectives(program, 8) == [
        collectives.Collective("all-reduce", 4 + 4 * 32, first, 5),
        collectives.Collective("all-gather", 32, (0, 2, 4, 6), 1),
        collectives.Collective("reduce-scatter", 6, (0, 1), 1),
        collectives.Collective("collective-permute", 16, (2, 3), 1),
    ]


def test_a_collective_overlaps_with_what_runs_between_its_start_and_its_end():
    """Names do not count, nor another collective; in a loop each execution has its own."""
    first, last = collectives.find_collectives(GPU_PROGRAM, 2)
    assert first == ("all-reduce", 4000, (0, 1), 3, Cost(400 + 4 + 400 + 8000, 0, 2))
    assert last == ("all-reduce", 4000, (0, 1), 1, Cost())
    assert (first.overlaps, last.overlaps) == (True, False)
    [total] = collectives.summed([first, last])
    assert (total["count"], total["overlapping"], total["bytes"]) == (4, 3, 4 * 4000)
    more = GPU_PROGRAM.replace("%bitcast =", "%other = f32[2]{0} all-reduce(%loop), GROUPS\n  %b =")
    assert not any(one.overlaps for one in collectives.find_collectives(more, 2)[1:])
