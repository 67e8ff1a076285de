"""The tree of a beam: what became of each candidate, by hand; a long one is cut off."""

from transformer.data.tokenizer import END
from transformer.tools.pages import beam_view, charts
from transformer.tools.pages.beam_view import Candidate, Step

THE, A, CAT, DOG = 4, 5, 6, 7
# (ids, score, fate after the step, fate in the end)
BY_HAND = [
    [
        ((THE,), -0.5, "lives", "best"),
        ((A,), -1.2, "lives", "alive"),
        ((END,), -2.3, "dropped", "dropped"),
    ],
    [
        ((THE, CAT), -0.8, "lives", "best"),
        ((THE, END), -0.9, "finished", "finished"),
        ((A, DOG), -1.1, "lives", "alive"),
        ((A, CAT), -1.2, "lives", "dead"),
    ],
    [
        ((THE, CAT, END), -0.6, "finished", "best"),
        ((A, DOG, END), -0.8, "finished", "finished"),
        ((THE, CAT, A), -1.6, "lives", "dead"),
        ((A, CAT, DOG), -2.0, "dropped", "dropped"),
    ],
]


def test_fates_by_hand():
    steps = []
    for row in BY_HAND:
        steps.append(Step([Candidate(ids, -1.0, x, fate) for ids, x, fate, _ in row], []))
    steps[-1].finished.append(((THE, CAT, END), -0.6))
    path = beam_view.final_fates(steps)
    assert [[x.ids for x in row] for row in path] == [[x[0] for x in row] for row in BY_HAND]
    assert [[x.fate for x in row] for row in path] == [[x[-1] for x in row] for row in BY_HAND]


class Words:
    """The vocabulary of a side, of one long word and the end."""

    def pieces(self, ids):
        return ["</s>" if i == END else "▁incomprehensible" for i in ids]

    def decode(self, ids):
        return [" ".join(self.pieces(x)) for x in ids]


def test_a_long_path_is_cut_and_says_so():
    """The table has all of it; a piece is cut off where it would touch the next."""
    path = []
    for ids in [(THE,) * i for i in range(1, 31)]:
        second = (*ids[1:], A)
        path.append([Candidate(ids, -1.0, -1.0, "best"), Candidate(second, -2.0, -2.0, "dead")])
    path.append([Candidate((*ids, END), -1.0, -1.0, "best")])
    plot = beam_view.plot(path, Words())
    values = plot.spec["data"]["values"]
    assert max(value["step"] for value in values) == beam_view.MAX_STEPS
    assert len(values) == 1 + 2 * beam_view.MAX_STEPS
    assert max(row[0] for row in plot.table.rows) == 31
    assert "Found after 31 steps" in plot.description
    assert f"The first {beam_view.MAX_STEPS} steps are drawn" in plot.description
    for width, count in ((600, 2 * beam_view.MAX_STEPS), (150, 0)):
        assert charts.svg({"width": width, **plot.spec}).count(">incomprehensible<") == count
