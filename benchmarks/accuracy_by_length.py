"""Draws accuracy by length of runs of `configs/memory.py`: trained on short items, tested on long.

    python launch.py --mode=sweep configs/sweeps/copy.toml
    python -m benchmarks.accuracy_by_length copy=runs/copy recall=runs/recall --picture memory.svg

Each folder is that of a sweep; a panel has a curve for each row. Prints the same as a table.
"""

import argparse
import json
import statistics
from pathlib import Path

from benchmarks import table1
from transformer.tools.pages import charts


def accuracies(folder: Path) -> dict[str, dict[int, float]]:
    """Returns {row: {length: accuracy, the mean over seeds}} of a sweep."""
    curves = {}
    for file in sorted(folder.glob("*/evaluations.jsonl"), key=lambda file: file.stat().st_mtime):
        row = file.parent.name.rpartition("-seed")[0]
        result = json.loads(file.read_text().splitlines()[-1])
        for name, value in result.items():
            if name.startswith("accuracy_"):
                length = int(name.removeprefix("accuracy_"))
                curves.setdefault(row, {}).setdefault(length, []).append(value)
    return {
        row: {length: statistics.mean(values) for length, values in sorted(points.items())}
        for row, points in curves.items()
    }


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
    panels = []
    for title, _, folder in (sweep.partition("=") for sweep in arguments.sweeps):
        curves = accuracies(Path(folder))
        lengths = sorted({length for points in curves.values() for length in points})
        print(f"{title:24}" + "".join(f"{length:>8}" for length in lengths))
        for row, points in curves.items():
            print(f"{row:24}" + "".join(f"{points.get(length, 0):8.3f}" for length in lengths))
        panels.append(panel(title, curves))
    if arguments.picture:
        arguments.picture.write_text(charts.svg({"hconcat": panels}))


if __name__ == "__main__":
    main()
