"""The tree of a beam: what became of each candidate, by hand and as the search found it."""

import pytest
from helpers import insides, workdirs

from transformer.data.tokenizer import END
from transformer.decoding.translator import Translator
from transformer.tasks import vocabularies
from transformer.tools.pages import charts
from transformer.tools.pages.page import Plot
from transformer.tools.report import beam
from transformer.tools.report.beam_path import Candidate, Step

THE, A, CAT, DOG = 4, 5, 6, 7
STEPS = [
    Step(
        [
            Candidate((THE,), -0.5, -0.5, "lives"),
            Candidate((A,), -1.2, -1.2, "lives"),
            Candidate((END,), -2.3, -2.3, "dropped"),
        ],
        [],
    ),
    Step(
        [
            Candidate((THE, CAT), -1.2, -0.8, "lives"),
            Candidate((THE, END), -1.4, -0.9, "finished"),
            Candidate((A, DOG), -1.7, -1.1, "lives"),
        ],
        [((THE, END), -0.9)],
    ),
    Step(
        [
            Candidate((THE, CAT, END), -1.3, -0.6, "finished"),
            Candidate((A, DOG, END), -1.8, -0.8, "finished"),
            Candidate((THE, CAT, A), -3.5, -1.6, "lives"),
            Candidate((A, DOG, A), -4.0, -1.9, "lives"),
            Candidate((A, DOG, CAT), -4.1, -2.0, "dropped"),
        ],
        [((THE, CAT, END), -0.6), ((A, DOG, END), -0.8)],
    ),
]


def test_fates_by_hand():
    nodes = beam.nodes(STEPS)
    assert {node.ids: node.fate for node in nodes} == {
        (THE,): "best",
        (A,): "alive",
        (END,): "dropped",
        (THE, CAT): "best",
        (THE, END): "finished",
        (A, DOG): "alive",
        (THE, CAT, END): "best",
        (A, DOG, END): "finished",
        (THE, CAT, A): "dead",
        (A, DOG, A): "dead",
        (A, DOG, CAT): "dropped",
    }
    assert {node.ids: (node.step, node.rank, node.parent) for node in nodes} == {
        (THE,): (1, 1, 1),
        (A,): (1, 2, 1),
        (END,): (1, 3, 1),
        (THE, CAT): (2, 1, 1),
        (THE, END): (2, 2, 1),
        (A, DOG): (2, 3, 2),
        (THE, CAT, END): (3, 1, 1),
        (A, DOG, END): (3, 2, 3),
        (THE, CAT, A): (3, 3, 1),
        (A, DOG, A): (3, 4, 3),
        (A, DOG, CAT): (3, 5, 3),
    }


def test_what_has_lived_dies_when_nothing_of_it_is_kept():
    dropped = STEPS[1].candidates[2]._replace(fate="dropped")
    middle = STEPS[1]._replace(candidates=[*STEPS[1].candidates[:2], dropped])
    last = STEPS[2]._replace(candidates=[STEPS[2].candidates[0], STEPS[2].candidates[2]])
    fates = {node.ids: node.fate for node in beam.nodes([STEPS[0], middle, last])}
    assert fates[A,] == "dead"


def test_the_tree_is_of_the_run_s_translations(tmp_path):
    this = insides.translating(tmp_path / "run")
    section = beam.section(this)
    texts, plots = section.parts[1::2], section.parts[2::2]
    assert texts == ["b b", "a b c", "d e f g"]
    vocabulary = vocabularies.read(this.run.workdir, this.run.config)
    translator = Translator(this.model, vocabulary, **this.run.config.decode)
    expected = list(translator.translate(this.params, texts))
    for translation, plot in zip(expected, plots, strict=True):
        assert isinstance(plot, Plot)
        ends = [row for row in plot.table.rows if row[2] == "</s>" and row[-1] != "dropped"]
        [best] = [row for row in ends if row[-1] == beam.FATES["best"]]
        assert best[3] == f"{translation} </s>"
        assert best[5] == max(row[5] for row in ends)
        assert f"“{translation}” with score {best[5]:.3f}" in plot.description
        kept = [row for row in plot.table.rows if row[-1] != "dropped"]
        assert len(plot.spec["data"]["values"]) == 1 + len(kept)
        assert max(row[1] for row in plot.table.rows) == 2 * this.run.config.decode.beam_width


class Words:
    """The vocabulary of a side, of one long word and the end."""

    def pieces(self, ids):
        return ["</s>" if i == END else "▁incomprehensible" for i in ids]

    def decode(self, ids):
        return [" ".join(self.pieces(x)) for x in ids]


def test_a_long_path_is_cut_and_says_so():
    """The table has all of it; a piece is cut off where it would touch the next."""
    ids = [(THE,) * i for i in range(1, 31)]
    steps = [
        Step([Candidate(x, -1.0, -1.0, "lives"), Candidate((*x[1:], A), -2.0, -2.0, "lives")], [])
        for x in ids
    ]
    end = (*ids[-1], END)
    path = beam.nodes([*steps, Step([Candidate(end, -1.0, -1.0, "finished")], [(end, -1.0)])])
    plot = beam.plot("", path, Words())
    values = plot.spec["data"]["values"]
    assert max(value["step"] for value in values) == beam.MOST_STEPS
    assert len(values) == 1 + 2 * beam.MOST_STEPS
    assert max(row[0] for row in plot.table.rows) == 31
    assert "Found after 31 steps" in plot.description
    assert f"The first {beam.MOST_STEPS} steps are drawn" in plot.description
    for width, count in ((600, 2 * beam.MOST_STEPS), (150, 0)):
        assert charts.svg({"width": width, **plot.spec}).count(">incomprehensible<") == count


@pytest.mark.parametrize(
    ("task", "changes"), [("classification", {}), ("translation", {"decode.method": "sample"})]
)
def test_only_a_beam_has_a_path(tmp_path, task, changes):
    run = workdirs.load(workdirs.write(tmp_path / "run", task=task, **changes))
    assert beam.section(insides.of(run, None, None, [{"source": "a b"}])) is None
