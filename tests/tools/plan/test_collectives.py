"""Which collectives a compiled program runs, read from its text."""

import pytest
from tools.plan.programs import GPU_PROGRAM, HERE, TRIPS

from transformer.tools.plan import collectives
from transformer.tools.plan.program import Cost

PROGRAM = (HERE / "collectives.hlo").read_text()  # with GROUPS and TRIPS to fill in


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
    program = PROGRAM.replace("GROUPS", groups).replace("TRIPS", TRIPS)
    assert collectives.find_collectives(program, 8) == [
        collectives.Collective("all-reduce", 4 + 4 * 32, first, 3),
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
