"""Draws how far the heads of Vision Transformers look, by layer (Dosovitskiy et al., figure 7).

    python launch.py --mode=sweep configs/sweeps/vision.toml --config.data.directory=FOLDER
    python -m benchmarks.attention_distance both=runs/vision/both-seed0 \
        patches=runs/vision/patches-seed0 --picture attention-distance.svg

Each folder is a trained workdir, a panel of the picture. Prints the mean, the least and the largest
distance of a layer's heads in pixels, and that of attention to all patches alike. The mean is over
the first IMAGES images of the test set.
"""

import argparse
from pathlib import Path

import numpy as np

from transformer.families.images import image_classification, images
from transformer.tasks import attention_weights, saved_model, splits
from transformer.tools.pages import charts
from transformer.tools.report import image_attention
from transformer.workdir.saved_config import read_config

IMAGES = 500


def measure(workdir: Path) -> tuple[np.ndarray, float]:
    """Returns the distance of each head [L, H] of a trained run, and that of attention to all."""
    config = read_config(workdir)
    model, params, *_ = saved_model.load(config, workdir)
    corpus = image_classification.labelled_images(config, splits.final_split(config))
    view = image_classification.evaluation_view(config)
    first = np.arange(min(IMAGES, len(corpus)))
    no_ids = np.zeros(len(corpus.classes), np.int32)
    inputs = images.assemble(corpus, no_ids, view, 1, first, first, (len(first), 1))["inputs"]
    weights = attention_weights.batch_weights(params, inputs, model=model)["encoder"]
    return image_attention.distances(np.asarray(weights), config.data.size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", help="TITLE=FOLDER, a trained workdir")
    parser.add_argument("--picture", type=Path, help="an SVG file to draw into")
    arguments = parser.parse_args()
    panels = []
    for title, _, folder in (run.partition("=") for run in arguments.runs):
        pixels_LH, alike = measure(Path(folder))
        for layer, pixels_H in enumerate(pixels_LH, start=1):
            about = f"mean {pixels_H.mean():.1f}, {pixels_H.min():.1f} to {pixels_H.max():.1f}"
            print(f"{title}, layer {layer}: {about}; to all patches alike {alike:.1f}")
        spec = image_attention.distance_plot(pixels_LH, alike).spec
        panels.append({"title": title, "width": 120, **spec})
    if arguments.picture:
        arguments.picture.write_text(charts.svg({"hconcat": panels}))


if __name__ == "__main__":
    main()
