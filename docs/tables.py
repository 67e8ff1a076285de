"""Writes the tables of docs/ that are measured, from docs/results.json.

    python -m docs.tables
    python -m docs.tables --sweep boxes=FOLDER --measured "e782601, Intel Xeon" --times ms.json

The second command first takes the rows that a sweep has finished in FOLDER, measured at a commit on
a machine. `--times` is what `benchmarks.step_time_by_length --json` wrote. A page has a table
between the comments <!-- table: NAME --> and <!-- end of table -->.
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
PLACE = re.compile(r"(<!-- table: (\w+) -->\n).*?(?=<!-- end of table -->)", re.DOTALL)


def written(page: str, results: dict) -> str:
    """Returns a page with its tables as `results` have them."""
    return PLACE.sub(lambda found: f"{found[1]}\n{table(results[found[2]])}\n", page)


def table(result: dict) -> str:
    """Returns the rows of a sweep in Markdown, and notes on where they were measured.

    A column of which nothing is known is left out.
    """
    columns = ["row", "of `config.model`", "parameters", "BLEU, seed 0", "p", "three seeds"]
    columns += ["chrF", "nats a token", "ms a step"]
    rows = [[*cells(row, result["measured"])] for row in result["rows"]]
    known = [i for i in range(len(columns)) if any(row[i] for row in rows)]
    lines = [[row[i] for i in known] for row in (columns, ["---"] * len(columns), *rows)]
    text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    notes = [f"{mark(i)} Commit {x}." for i, x in enumerate(result["measured"])]
    return f"{text}\n{' '.join(notes)}\n"


def cells(row: dict, measured: list[str]) -> Iterator[str]:
    """Yields the cells of a row."""
    runs = row["runs"]
    mean = lambda score: statistics.fmean(run[score] for run in runs)
    yield f"`{row['row']}`" + (mark(row["measured"]) if len(measured) > 1 else "")
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
    yield f"{row['ms']:.0f}" if row.get("ms") else ""


def mark(i: int) -> str:
    """Returns the sign of footnote i: ¹, ², ..."""
    return "¹²³⁴⁵"[i]


def take(result: dict, folder: Path, measured: str, times: dict[str, list[float]]) -> None:
    """Takes the finished rows of a sweep in `folder` into `result`, in the order of its file."""
    rows = json.loads((folder / "sweep.json").read_text("utf-8"))["rows"]
    rows = [row for row in rows if row["runs"][0]["scores"]]
    compared = compare([row["runs"][0]["workdir"] for row in rows])
    if measured not in result["measured"]:
        result["measured"].append(measured)
    known = {row["row"]: row for row in result["rows"]}  # measured again, a row keeps its place
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
            "measured": result["measured"].index(measured),
        }
    result["rows"] = [*known.values()]


def compare(workdirs: list[str]) -> list[dict]:
    """Returns the runs of --mode=compare, each with scores, intervals and p against the first."""
    keys = {"page": "", "sentences": 0}
    arguments = [f"--config.compare.{key}={value}" for key, value in keys.items()]
    command = [sys.executable, "launch.py", "--mode=compare", *workdirs, *arguments]
    return json.loads(subprocess.check_output(command))["runs"]


def main() -> None:
    parser = argparse.ArgumentParser("docs.tables", description=__doc__.splitlines()[0])
    parser.add_argument("--sweep", metavar="NAME=FOLDER", help="a sweep whose rows are taken")
    parser.add_argument("--measured", metavar="COMMIT, MACHINE", help="how these were measured")
    parser.add_argument("--times", type=Path, help="the milliseconds of a step of each row")
    arguments = parser.parse_args()
    results = json.loads(RESULTS.read_text("utf-8"))
    if arguments.sweep:
        name, _, folder = arguments.sweep.partition("=")
        times = json.loads(arguments.times.read_text()) if arguments.times else {}
        take(results[name], Path(folder), arguments.measured, times)
        RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", "utf-8")
    for page in DOCS.glob("*.md"):
        text = page.read_text("utf-8")
        if (new := written(text, results)) != text:
            page.write_text(new, "utf-8")
            print(page)


if __name__ == "__main__":
    main()
