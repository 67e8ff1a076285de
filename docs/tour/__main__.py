"""Runs a step of docs/tour.md: prints what it measures, and draws it.

python -m docs.tour tokens
python -m docs.tour tokens --language=ko
"""

import argparse
import importlib
from pathlib import Path

from docs.tour import korean, picture
from transformer.models import kernels

STEPS = (
    *("tokens", "pieces", "bottleneck", "forgetting", "attention", "hard", "lookup", "scaling"),
    *("heads", "masking", "positions", "order", "sum", "normalisation", "residuals", "ensemble"),
    *("position_probe", "training", "beam", "decoding", "parsing", "gpt", "bert"),
    *("sense", "vit", "mixers"),
)
# Of each language; not docs/pictures, which has those of the pages.
PICTURES = {"en": Path("runs/tour"), "ko": Path("runs/tour/ko")}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser("docs.tour", description="Runs a step of docs/tour.md.")
    parser.add_argument("step", choices=STEPS, help="a file docs/tour/STEP.py")
    parser.add_argument("--language", choices=PICTURES, default="en", help="of the picture")
    parser.add_argument("--picture", type=Path, help="the SVG file; without it one in runs/tour")
    options = parser.parse_args(arguments)
    file = options.picture or PICTURES[options.language] / f"{options.step}.svg"
    kernels.use("tuned")
    step = importlib.import_module(f"docs.tour.{options.step}")
    chart, draw = step.show(), getattr(step, "draw", None)
    if options.language == "ko" and draw:
        draw = lambda chart: korean.relabelled(step.draw(chart))
    elif options.language == "ko":
        chart = korean.translated(chart)
    picture.save(chart, file, draw)
    if hasattr(step, "page") and not options.picture:
        page = file.with_suffix(".html")
        page.write_text(step.page(file.read_text("utf-8")), "utf-8")
        print(f"page: {page}")
    print(f"picture: {file}")


if __name__ == "__main__":
    main()
