"""Writes the tables of docs/ that are measured, from docs/results.json.

    python -m docs.tables
    python -m docs.tables --sweep boxes=FOLDER --measured "e782601, Xeon" --times ms.json

The second command first takes the rows that a sweep has finished in FOLDER, measured at a commit on
a CPU. `--times` is what `benchmarks.step_time_by_length --json` wrote. NAME is that of a page,
which has the table behind the comment <!-- worth -->.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parent
RESULTS = DOCS / "results.json"
SCORES = ("bleu", "chrf", "nats_per_token")


def written(page: str, title: str, rows: list[list[str]]) -> str:
    """Returns a page with the rows of a table behind the comment with its title."""
    text = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    page, count = re.subn(rf"(<!-- {title} -->\n)(\|.*\n)*", lambda x: f"{x[1]}{text}", page)
    assert count == 1, f"the page has no place for {title}"
    return page


def table(results: list[dict]) -> list[list[str]]:
    """Returns the rows of a sweep, the first of which is the head.

    A column of which nothing is known is left out.
    """
    head = ["row", "of `config.model`", "parameters", "BLEU, seed 0", "p", "three seeds"]
    head += ["chrF", "nats a token", "ms a step", "commit, CPU"]
    rows = [[*cells(result)] for result in results]
    known = [i for i in range(len(head)) if any(row[i] for row in rows)]
    return [[row[i] for i in known] for row in (head, ["---"] * len(head), *rows)]


def cells(row: dict) -> Iterator[str]:
    """Yields the cells of a row."""
    runs = row["runs"]
    mean = lambda score: statistics.fmean(run[score] for run in runs)
    yield f"`{row['row']}`"
    keys = {key.removeprefix("model."): value for key, value in row["keys"].items()}
    yield ", ".join(f"`{key}={value}`" for key, value in keys.items()) or "the paper's"
    yield f"{row['parameters']:,}" if row["parameters"] else ""
    low, high = row["interval"] or (0, 0)
    yield f"{runs[0]['bleu']:.1f}" + (f" ± {(high - low) / 2:.1f}" if high else "")
    yield "" if row["p"] is None else f"{row['p']:.3f}" if row["p"] >= 0.001 else "< 0.001"
    deviation = statistics.stdev(run["bleu"] for run in runs) if len(runs) > 1 else 0
    yield f"{mean('bleu'):.1f} ± {deviation:.1f}" if deviation else ""
    yield f"{mean('chrf'):.1f}"
    yield f"{mean('nats_per_token'):.2f}"
    yield f"{row['ms']:.0f}" if row["ms"] else ""
    yield row["measured"]


def take(
    results: list[dict], folder: Path, measured: str, times: dict[str, list[float]]
) -> list[dict]:
    """Returns results with the finished rows of a sweep; a row measured again keeps its place."""
    rows = json.loads((folder / "sweep.json").read_text("utf-8"))["rows"]
    rows = [row for row in rows if row["runs"][0]["scores"]]
    compared = compare([row["runs"][0]["workdir"] for row in rows])
    known = {row["row"]: row for row in results}
    for row, first_run in zip(rows, compared, strict=True):
        score = first_run["scores"]["bleu"]
        runs = [run for run in row["runs"] if run["scores"]]
        known[row["row"]] = {
            "row": row["row"],
            "keys": row["overrides"],
            "parameters": runs[0]["parameters"],
            "runs": [{"seed": x["seed"]} | {k: x["scores"][k] for k in SCORES} for x in runs],
            "interval": score["interval"],
            "p": None if row is rows[0] else score["p"],
            "ms": times.get(row["row"], [None])[0],
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
    parser.add_argument("--times", type=Path, help="the milliseconds of a step of each row")
    arguments = parser.parse_args()
    results = json.loads(RESULTS.read_text("utf-8"))
    if arguments.sweep:
        name, _, folder = arguments.sweep.partition("=")
        times = json.loads(arguments.times.read_text()) if arguments.times else {}
        results[name] = take(results[name], Path(folder), arguments.measured, times)
        RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", "utf-8")
    for name, rows in results.items():
        page = DOCS / f"{name}.md"
        page.write_text(written(page.read_text("utf-8"), "worth", table(rows)), "utf-8")


if __name__ == "__main__":
    main()
