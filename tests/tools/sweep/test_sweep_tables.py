"""The table: means, deviations and differences, and what is missing."""

import pytest
from tools.sweep.sweeps import read

from transformer.tools.pages import page
from transformer.tools.sweep import sweep_page as tables
from transformer.tools.sweep.outcomes import Outcome, PValue

SCORES = {"base": [20.0, 21.0, 25.0], "rotary": [30.0, None], "worse": [1.0], "failed": [None]}


@pytest.fixture
def summaries(tmp_path):
    """A summary for each of SCORES: a score a seed, None of a run that failed."""
    text = "".join(f"[rows.{x}]\nseeds = {[*range(len(y))]}\n" for x, y in SCORES.items())
    made = []
    for row in read(tmp_path, text):
        outcomes = [Outcome(run, "out of memory") for run in row.runs]
        for run, score in zip(row.runs, SCORES[row.name], strict=True):
            if score:
                steps = 1000 - 100 * run.seed
                result = {"bleu": score, "loss": score / 10, "set": "test"}
                outcomes[run.seed] = Outcome(run, "", 12345, steps, steps / 10, result)
        p = PValue(0.0001, 10.0, "bleu", 0, "paired bootstrap") if row.name == "rotary" else None
        made.append(tables.Summary(row, outcomes, p))
    return made


def test_the_table_of_a_sweep(summaries):
    table = tables.score_table(summaries, "bleu")
    assert page.text(table).splitlines() == [
        "row     parameters         steps        time  seed 0  seed 1  seed 2  BLEU, mean ± sd"
        "  difference                p",
        "base        12,345  800 to 1,000  1 min 30 s   20.00   21.00   25.00     22.00 ± 2.65"
        "           -                -",
        "rotary      12,345         1,000  1 min 40 s   30.00    none       -            30.00"
        "       +8.00  <0.001 (+10.00)",
        "worse       12,345         1,000  1 min 40 s    1.00       -       -             1.00"
        "      -21.00                -",
        "failed           -             -           -    none       -       -                -"
        "           -                -",
    ]
    further = tables.further_table(summaries, "bleu")
    assert further.columns == ["row", "loss", "s a step"]
    assert further.rows[0] == ["base", "2.2000 ± 0.2646", "0.1000 ± 0.0000"]
    assert further.rows[3] == ["failed", "-", "-"]


def test_what_p_is_of_is_said(summaries):
    [words] = tables.about(summaries, "bleu", "highest")[2:]
    assert words.startswith("p is of BLEU, each row with seed 0 against base with seed 0, by")
    other = summaries[2]._replace(p=PValue(0.5, -24.0, "bleu", 2, "paired bootstrap"))
    both = tables.about([*summaries[:2], other], "bleu", "highest")[2:]
    assert [words.partition(" against")[0] for words in both] == [
        *("p is of BLEU, rotary with seed 0", "p is of BLEU, worse with seed 2")
    ]
