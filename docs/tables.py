"""Writes the tables that are measured, from docs/results.json, into README.md and docs/.

    python -m docs.tables
    python -m docs.tables --commands
    python -m docs.tables --sweep boxes=FOLDER --measured "e782601, Xeon"
    python -m docs.tables --times boxes=ms.json

The file is {title: table}; one page has each table behind the comment <!-- title -->. A table has
columns, {name: format}, and rows, {column: value}. Text may quote a row that has a name, as in
"{multi30k[BLEU]}"; so may a figure of a sentence, behind <!-- multi30k[BLEU] -->. All else that a
row or its table has says how it was measured: commands, commit, CPU, seeds, source.

The second command prints the commands, but for those that need a FOLDER of one's own. The third
first takes the rows that a sweep has finished in FOLDER, measured at a commit on a CPU. The fourth
takes the milliseconds of a step of each row, as `benchmarks.step_time_by_length --json` wrote them.
"""

import argparse
import json
import math
import re
import statistics
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from scipy import stats

DOCS = Path(__file__).parent
RESULTS = DOCS / "results.json"
PAGES = (*DOCS.parent.glob("README*.md"), *DOCS.glob("*.md"))
SCORES = ("bleu", "chrf", "nats_per_token")


def filled(page: str, results: dict[str, dict]) -> str:
    """Returns a page with its tables and figures as they are in the results."""
    named = {row["name"]: row for x in results.values() for row in x["rows"] if "name" in row}
    for title, content in results.items():
        if f"<!-- {title} -->" in page:
            page = written(page, title, rows_of(content, named))
    figure = lambda match: match[1] + ("{" + match[2] + "}").format(**named)
    return re.sub(r"(<!-- (\w+\[.+?) -->)[\d.]+\d", figure, page)


def written(page: str, title: str, rows: list[list[str]], others: str = "---") -> str:
    """Returns a page with a table behind the comment with its title; its first row is the head.

    `others` is how the columns after the first are aligned.
    """
    head, *rest = (f"| {' | '.join(row)} |\n" for row in rows)
    text = head + "|---" + f"|{others}" * (len(rows[0]) - 1) + "|\n" + "".join(rest)
    page, count = re.subn(rf"(<!-- {title} -->\n)(\|.*\n)*", lambda x: f"{x[1]}{text}", page)
    assert count == 1, f"the page has no place for {title}"
    return page


def rows_of(content: dict[str, Any], named: dict[str, dict]) -> list[list[str]]:
    """Returns the rows of a table, the first of which is the head."""
    if "columns" not in content:
        return sweep_rows(content["rows"], content.get("without", ()))
    columns = content["columns"]
    rows = [[cell(row.get(x), columns[x], named) for x in columns] for row in content["rows"]]
    return [[*columns], *rows]


def cell(value: Any, form: str, named: dict[str, dict]) -> str:
    """Returns the text of a value, of [score, half its interval], or of {seed: score}."""
    match value:
        case None:
            return ""
        case str():
            return value.format(**named)
        case list():
            return " ± ".join(map(form.format, value))
        case dict():
            return ", ".join(map(form.format, value.values()))
    return form.format(value)


def commands(results: dict[str, dict]) -> list[str]:
    """Returns the commands that measure the rows, but for those that need a FOLDER of one's own."""
    measured = [x for content in results.values() for x in (content, *content["rows"])]
    groups = [x["commands"] for x in measured if "FOLDER" not in str(x.get("commands", "FOLDER"))]
    return [*dict.fromkeys(command for group in groups for command in group)]


def compact(results: dict[str, dict]) -> str:
    """Returns the results as JSON, a value a line; a list of values is one line."""
    text = json.dumps(results, indent=1, ensure_ascii=False) + "\n"
    return re.sub(r"\[[^][{}]*\]", lambda x: f"[{' '.join(x[0][1:-1].split())}]", text)


def sweep_rows(results: list[dict], without: Collection[str]) -> list[list[str]]:
    """Returns the rows of a sweep, the first of which is the head.

    A column with the same text in all rows is left out, such as one of which nothing is known; so
    are those of `without`.
    """
    head = ["row", "of `config.model`", "parameters", "the paper", "BLEU, seed 0", "p"]
    head += ["three seeds", "p of seeds", "nats a token", "ms a step", "commit, CPU"]
    rows = [[*cells(result, results[0]["runs"])] for result in results]
    varied = [i for i in range(len(head)) if len({row[i] for row in rows}) > 1]
    shown = [i for i in varied if head[i] not in without]
    return [[row[i] for i in shown] for row in (head, *rows)]


def cells(row: dict, baseline: list[dict]) -> Iterator[str]:
    """Yields the cells of a row, compared with the runs of the first row."""
    runs = row["runs"]
    yield f"`{row['row']}`"
    keys = {key.removeprefix("model."): value for key, value in row["keys"].items()}
    yield ", ".join(f"`{key}={value}`" for key, value in keys.items()) or "the paper's"
    yield f"{row['parameters']:,}" if row["parameters"] else ""
    yield f"*{row['paper']}*" if "paper" in row else ""
    low, high = row["interval"] or (0, 0)
    yield f"{runs[0]['bleu']:.1f}" + (f" ± {(high - low) / 2:.1f}" if high else "")
    yield p_text(row["p"])
    yield over_seeds(runs, "bleu", ".1f") if len(runs) > 1 else ""
    yield p_text(None if runs is baseline else seed_p_value(baseline, runs))
    yield over_seeds(runs, "nats_per_token", ".2f")
    yield f"{row['ms']:.0f}" if row.get("ms") else ""
    yield row["measured"]


def p_text(p: float | None) -> str:
    """Returns a p-value as text; "" for None, and for the NaN of seeds with equal scores."""
    if p is None or math.isnan(p):
        return ""
    return f"{p:.3f}" if p >= 0.001 else "<0.001"


def seed_p_value(baseline: list[dict], runs: list[dict]) -> float | None:
    """Returns the p-value of Welch's t-test on BLEU across seeds; None if a row has one seed.

    It compares two methods. The paired bootstrap in `take` compares two trained models.
    """
    if min(len(baseline), len(runs)) < 2:
        return None
    scores = ([run["bleu"] for run in row] for row in (baseline, runs))
    return stats.ttest_ind(*scores, equal_var=False).pvalue


def over_seeds(runs: list[dict], score: str, form: str) -> str:
    """Returns the mean of a score over seeds and, of several, its standard deviation."""
    values = [run[score] for run in runs]
    text = f"{statistics.fmean(values):{form}}"
    return f"{text} ± {statistics.stdev(values):{form}}" if len(values) > 1 else text


def take(results: list[dict], folder: Path, measured: str) -> list[dict]:
    """Returns results with the finished rows of a sweep; a row measured again keeps its place."""
    rows = json.loads((folder / "sweep.json").read_text("utf-8"))["rows"]
    rows = [row for row in rows if row["runs"][0]["scores"]]
    compared = compare([row["runs"][0]["workdir"] for row in rows])
    known = {row["row"]: row for row in results}
    for row, first_run in zip(rows, compared, strict=True):
        score = first_run["scores"]["bleu"]
        runs = [run for run in row["runs"] if run["scores"]]
        known[row["row"]] = {
            **known.get(row["row"], {}),
            "row": row["row"],
            "keys": row["overrides"],
            "parameters": runs[0]["parameters"],
            "runs": [{"seed": x["seed"]} | {k: x["scores"][k] for k in SCORES} for x in runs],
            "interval": score["interval"],
            "p": None if row is rows[0] else score["p"],
            "measured": measured,
        }
    return [*known.values()]


def compare(workdirs: list[str]) -> list[dict]:
    """Returns the runs of --mode=compare, each with scores, intervals and p against the first."""
    keys = {"page": "", "sentences": 0}
    arguments = [f"--config.compare.{key}={value}" for key, value in keys.items()]
    command = [sys.executable, "launch.py", "--mode=compare", *workdirs, *arguments]
    return json.loads(subprocess.check_output(command))["runs"]


def main() -> None:
    parser = argparse.ArgumentParser("docs.tables", description=__doc__.splitlines()[0])
    parser.add_argument("--sweep", metavar="NAME=FOLDER", help="a sweep whose rows are taken")
    parser.add_argument("--measured", metavar="COMMIT, CPU", help="how these were measured")
    parser.add_argument("--times", metavar="NAME=FILE", help="milliseconds a step of its rows")
    parser.add_argument("--commands", action="store_true", help="print the commands, write nothing")
    arguments = parser.parse_args()
    results = json.loads(RESULTS.read_text("utf-8"))
    if arguments.commands:
        print("\n".join(commands(results)))
        return
    if arguments.sweep:
        name, _, folder = arguments.sweep.partition("=")
        rows = results[name]["rows"]
        results[name]["rows"] = take(rows, Path(folder), arguments.measured)
    if arguments.times:
        name, _, file = arguments.times.partition("=")
        times = json.loads(Path(file).read_text("utf-8"))
        for row in results[name]["rows"]:
            row["ms"] = round(times[row["row"]][0], 1)
    RESULTS.write_text(compact(results), "utf-8")
    for page in PAGES:
        page.write_text(filled(page.read_text("utf-8"), results), "utf-8")


if __name__ == "__main__":
    main()
