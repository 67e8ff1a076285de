"""Reads images of a test set, and encodes them as data URLs for a page."""

import base64
import io
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from transformer.errors import UserError
from transformer.tools.pages.run import Evaluation, Run

SIZE = 96  # pixels of an image's longer side


def read(run: Run, evaluation: Evaluation, lines: Sequence[int]) -> list[Image.Image]:
    """Returns the images of some lines of the test set, of any size, with the model's channels.

    UserError if the images are not on this machine, or are not those of the result.
    """
    from transformer.families.images import image_classification, image_corpora, images

    config = run.config
    prepared = Path(config.data.data_dir).expanduser() / config.data.corpus
    if config.data.corpus != image_corpora.OWN and not prepared.is_dir():
        raise UserError(f"the corpus {config.data.corpus} is not in {prepared.parent}")
    corpus = image_classification.labelled_images(config, evaluation.result["split"])
    names = evaluation.outputs["image"]
    if len(corpus) != len(names):
        raise UserError(f"there are {len(corpus)} images now, and {len(names)} in the result")
    encoded, _, read_names = corpus.read(lines)
    if read_names != [names[line] for line in lines]:
        raise UserError("they differ from those of the result")
    view = image_classification.evaluation_view(config)
    named = zip(encoded, read_names, strict=True)
    return [images.decode(x, name, view.channels) for x, name in named]


def url(image: Image.Image) -> str:
    """Returns an image as a PNG in a data URL; a small one is enlarged by an integer factor."""
    image.thumbnail((SIZE, SIZE))
    # 28 x 28 pixels are enlarged 3 times, to 84 x 84, without blur.
    factor = SIZE // max(image.size)
    image = image.resize([factor * x for x in image.size], Image.Resampling.NEAREST)
    file = io.BytesIO()
    image.save(file, "png", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
