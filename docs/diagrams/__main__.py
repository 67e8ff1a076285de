"""Draws the diagrams of structure that docs/tour.md and docs/boxes.md show.

python -m docs.diagrams
"""

import argparse
import importlib
from pathlib import Path

DIAGRAMS = ("boxes", "model", "layer", "multi_head", "seq2seq")
PICTURES = Path(__file__).parents[1] / "pictures"


def draw(name: str) -> str:
    """Returns a diagram as SVG."""
    return importlib.import_module(f"docs.diagrams.{name}").draw()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser("docs.diagrams", description="Draws the diagrams of docs/.")
    parser.add_argument("--folder", type=Path, default=PICTURES, help="of the SVG files")
    folder = parser.parse_args(arguments).folder
    folder.mkdir(parents=True, exist_ok=True)
    for name in DIAGRAMS:
        (folder / f"{name}.svg").write_text(draw(name), "utf-8")
        print(folder / f"{name}.svg")


if __name__ == "__main__":
    main()
