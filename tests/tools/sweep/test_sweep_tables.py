"""The page of a sweep as a golden text: means, deviations, differences, and what is missing."""

from tools.pages import golden
from tools.sweep.sweeps import read

from transformer.tools.pages import page
from transformer.tools.sweep import sweep_page
from transformer.tools.sweep.outcomes import Outcome, PValue

SCORES = {"base": [20.0, 21.0, 25.0], "rotary": [30.0, None], "worse": [1.0], "failed": [None]}
P = {
    "rotary": PValue(0.0001, 10.0, "bleu", 0, "paired bootstrap"),
    "worse": PValue(0.5, -24.0, "bleu", 2, "paired bootstrap"),
}


def summary(row):
    """The summary of a row of SCORES: a score a seed, None of a run that failed."""
    outcomes = [Outcome(run, "out of memory") for run in row.runs]
    for run, score in zip(row.runs, SCORES[row.name], strict=True):
        if score:
            steps = 1000 - 100 * run.seed
            pace = 0.1 if row.name != "worse" else float("nan")  # it logged no step
            result = {"bleu": score, "loss": score / 10, "set": "test"}
            outcomes[run.seed] = Outcome(run, "", 12345, steps, steps * pace, result)
    return sweep_page.Summary(row, outcomes, P.get(row.name))


def test_a_reader_sees(tmp_path):
    """The page of all rows, and how to read p where each row has the same seed."""
    rows = [f"[rows.{x}]\nseeds = {[*range(len(y))]}\n" for x, y in SCORES.items()]
    text = "".join(rows).replace("[rows.worse]", "model.positions = 'rotary'\n[rows.worse]")
    summaries = [summary(row) for row in read(tmp_path, text)]
    shown = golden.read(page.html("some", sweep_page.sections(summaries, "bleu", "highest")))
    about = "\n".join(sweep_page.about(summaries[:2], "bleu", "highest"))
    golden.check(f"{shown}\n{about}", __file__, "sweep", FOLDER=tmp_path)
