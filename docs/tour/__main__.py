"""Runs a step of docs/tour.md: prints what it measures, and draws it.

python -m docs.tour tokens
"""

import argparse
import importlib
from pathlib import Path

from docs.tour import picture

STEPS = (
    *("tokens", "pieces", "bottleneck", "forgetting", "attention", "hard", "lookup", "scaling"),
    *("heads", "masking", "positions", "order", "sum", "residuals", "training"),
    *("beam", "decoding", "gpt", "bert", "sense", "vit", "mixers"),
)
PICTURES = Path("runs/tour")  # not docs/pictures, which has those of the page


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser("docs.tour", description="Runs a step of docs/tour.md.")
    parser.add_argument("step", choices=STEPS, help="a file docs/tour/STEP.py")
    parser.add_argument("--picture", type=Path, help="the SVG file; runs/tour/STEP.svg")
    options = parser.parse_args(arguments)
    file = options.picture or PICTURES / f"{options.step}.svg"
    step = importlib.import_module(f"docs.tour.{options.step}")
    picture.save(step.show(), file, getattr(step, "draw", None))
    if hasattr(step, "page"):
        page = file.with_suffix(".html")
        page.write_text(step.page(file.read_text("utf-8")), "utf-8")
        print(f"page: {page}")
    print(f"picture: {file}")


if __name__ == "__main__":
    main()
