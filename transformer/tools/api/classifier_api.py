"""Classifies texts and images from Python."""

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from ml_collections import ConfigDict

from transformer.decoding import batch_sizes
from transformer.distributed import layout
from transformer.tasks import saved_model
from transformer.tasks.task import load_task
from transformer.tools.api.loading import like_input, several

# One item: a text, the path of an image, two texts (a tuple), or an image.
SINGLE = (str, Path, tuple, np.ndarray)


@dataclasses.dataclass(frozen=True)
class Classifier:
    """A trained classifier of texts, of pairs of texts, or of images. Several threads may call it.

    An item is a text, a tuple of two texts, the path of a PNG or JPEG, or an image: uint8
    [height, width, channels].
    """

    config: ConfigDict = dataclasses.field(repr=False)
    run: saved_model.SavedModel = dataclasses.field(repr=False)  # the Flax module and its params
    names: tuple[str, ...]  # of the classes
    # (item, number) -> the model's inputs
    _read: Callable[[Any, int], dict[str, np.ndarray]] = dataclasses.field(repr=False)
    workdir: Path

    @classmethod
    def from_run(cls, config: ConfigDict, folder: Path) -> "Classifier":
        from transformer.families.labels import class_names

        names = class_names.read(folder, config.vocabulary.labels_fingerprint)
        read = load_task(config.task).reader(config, folder)
        return cls(config, saved_model.load(config, folder), names, read, folder)

    def classify(self, items: Any) -> str | list[str] | Iterator[str]:
        """Returns the class of one item; a list for a list, a generator for a generator."""
        likeliest = (max(x, key=x.get) for x in self._probabilities(items))
        return like_input(items, likeliest, SINGLE)

    def probabilities(self, items: Any) -> Any:
        """Returns {class: probability} of one item, or of each of several, as in `classify`."""
        return like_input(items, self._probabilities(items), SINGLE)

    def _probabilities(self, items: Any) -> Iterator[dict[str, float]]:
        from transformer.families.labels import classify

        def answers() -> Iterator[dict[str, float]]:
            options = self.config.classify
            for chunk in batch_sizes.chunks(several(items, SINGLE), options.chunk_lines):
                rows = [self._read(line(item), number) for number, item in enumerate(chunk, 1)]
                with layout.launching(self.run.params):
                    shares = list(classify.probabilities(self.run, rows, options.batch_size))
                yield from (dict(zip(self.names, row.tolist(), strict=True)) for row in shares)

        return answers()


def line(item: Any) -> Any:
    """Returns an item as --mode=classify reads it; an image stays an array."""
    if isinstance(item, tuple):
        return "\t".join(item)
    return str(item) if isinstance(item, Path) else item
