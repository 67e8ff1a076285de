"""Draws accuracy by length of runs of `configs/memory.py`: trained on short items, tested on long.

    python launch.py --mode=sweep configs/sweeps/copy.toml
    python -m benchmarks.accuracy_by_length copy=runs/copy recall=runs/recall --picture memory.svg

Each folder is that of a sweep, a row of the picture: attention by its positions, and the other
mixers, with a curve for each row of the sweep. Prints the same as a table.
"""

import argparse
import json
import math
import statistics
from pathlib import Path

from benchmarks import table1
from transformer.tools.pages import charts

PREFIX = "accuracy_"  # of the names of scores; a length follows
OWN_COLOURS = {"resolve": {"scale": {"color": "independent"}}}


def accuracies(folder: Path) -> dict[str, dict[str, dict[int, float]]]:
    """Returns {'attention' or 'other mixers': {row: {length: accuracy, the mean over seeds}}}."""
    groups = {"attention": {}, "other mixers": {}}
    for row in json.loads((folder / "sweep.json").read_text())["rows"]:
        group = "other mixers" if "model.mixer" in row["overrides"] else "attention"
        scores = [run["scores"] for run in row["runs"] if run["scores"]]
        for name in scores[0] if scores else ():
            if name.startswith(PREFIX):
                accuracy = statistics.mean(x[name] for x in scores)
                curve = groups[group].setdefault(row["row"], {})
                curve[int(name.removeprefix(PREFIX))] = accuracy
    return groups


def panel(title: str, curves: dict[str, dict[int, float]]) -> dict:
    """Returns the chart of a sweep."""
    values = [
        {"length": length, "accuracy": accuracy, "row": row}
        for row, points in curves.items()
        for length, accuracy in points.items()
    ]
    return table1.panel(title, values, "length", "accuracy", "row", {"domain": [0, 1]})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sweeps", nargs="+", help="TITLE=FOLDER, the folder of a sweep")
    parser.add_argument("--picture", type=Path, help="an SVG file to draw into")
    arguments = parser.parse_args()
    rows = []
    for title, _, folder in (sweep.partition("=") for sweep in arguments.sweeps):
        groups = accuracies(Path(folder))
        for group, curves in groups.items():
            lengths = sorted({length for points in curves.values() for length in points})
            print(f"{f'{title}, {group}':24}" + "".join(f"{length:>8}" for length in lengths))
            for row, points in curves.items():
                print(
                    f"{row:24}"
                    + "".join(f"{points.get(length, math.nan):8.3f}" for length in lengths)
                )
        panels = [panel(f"{title}, {group}", curves) for group, curves in groups.items()]
        rows.append({"hconcat": panels, **OWN_COLOURS})
    if arguments.picture:
        arguments.picture.write_text(charts.svg({"vconcat": rows, **OWN_COLOURS}))


if __name__ == "__main__":
    main()
