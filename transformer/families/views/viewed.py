"""A corpus -> the corpus of its views -> batches, whose epochs read one view after the other."""

import bisect
import dataclasses
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from random import Random

import numpy as np
from ml_collections import ConfigDict

from transformer import registry
from transformer.data import corpora, tokenizer
from transformer.data.batches import Batches
from transformer.data.tokens import Tokens
from transformer.errors import check_value
from transformer.models import boxes

TAG = re.compile(f"(?:{tokenizer.TAG[1:]} )?")  # of a source, or nothing
VERSION = 2  # of the draws; part of the fingerprint, so that ids of other draws are not read


def corpus(config: ConfigDict, pairs: corpora.Corpus) -> corpora.Corpus:
    """Returns all views of a corpus of pairs, one after the other, as config.data.views has them.

    UserError for an unknown view or a wrong field.
    """
    data, seed, size = config.data, config.train.seed, len(pairs)
    named = boxes.parse_names(registry.VIEWS, "data.views", data.views, several=True)
    views = [boxes.constructor(view)() for view in named]

    def items(indices: Sequence[int]) -> Iterator[tuple[str, str]]:
        """Yields the views at sorted indices; a source keeps its tag."""
        for k in range(data.num_views):
            start, stop = (bisect.bisect_left(indices, n * size) for n in (k, k + 1))
            chosen = np.asarray(indices[start:stop], int) - k * size
            for i, (source, target) in zip(chosen.tolist(), pairs.items(chosen), strict=True):
                random = Random(f"{seed} {k} {i}")
                tag = TAG.match(source)[0]
                source = source[len(tag) :]
                for view in views:
                    source, target = view.texts(source, target, random)
                yield tag + source, target

    content = pairs.fingerprint, data.views, data.num_views, seed, VERSION
    fingerprint = corpora.fingerprint("views", content)
    changed = {"fingerprint": fingerprint, "size": data.num_views * size, "items": items}
    viewed = dataclasses.replace(pairs, **changed)
    for ids in (view.ids for view in views if view.ids):
        check_value("vocabulary.kind of sub-words", config.vocabulary.kind, ("bpe", "unigram"))
        viewed = dataclasses.replace(viewed, encode=functools.partial(_encode, ids, seed))
    return viewed


def _encode(
    ids: Callable, seed: int, side: tokenizer.Pieces, texts: Sequence[str], first: int
) -> list[list[int]]:
    """Returns the drawn ids of texts; `first` is the first one's index among all views."""
    texts = enumerate(tokenizer.normalised(texts, side.normalisation), start=first)
    return [ids(side, text, Random(f"{seed} {i} {text}")) for i, text in texts]


@dataclasses.dataclass(frozen=True)
class Epochs(Batches):
    """The batches of K views: epoch e reads views[e % K]. Other fields are the first view's."""

    views: tuple[Batches, ...]

    def _view(self, t: int) -> tuple[Batches, int]:
        """Returns (the batches of batch t's view, t among these).

        Example: of two views with 3 and 4 batches an epoch, batch 8 is batch 1 of epoch 2. Epoch 2
        is of the first view, whose batches 6 to 8 are those of its own epoch 2.
        """
        starts = np.cumsum([0, *map(len, self.views)])
        rounds, position = divmod(t, int(starts[-1]))
        k = int(np.searchsorted(starts, position, side="right")) - 1
        epoch = rounds * len(self.views) + k
        return self.views[k], epoch * len(self.views[k]) + position - int(starts[k])

    def rows(self, t: int, start: int, stop: int) -> dict:
        """Returns rows start to stop of batch t; rows past its end are empty."""
        view, number = self._view(t)
        return view.rows(number, start, stop)

    def shape(self, t: int) -> tuple[int, int]:
        """Returns (rows, positions per side) of batch t."""
        view, number = self._view(t)
        return view.shape(number)

    def num_filled(self, t: int) -> int:
        """Returns the number of rows of batch t that hold items; they come first."""
        view, number = self._view(t)
        return view.num_filled(number)

    def first_of_each_length(self) -> list[int]:
        """Returns the number t of a batch of each row length, longest rows first."""
        numbers, start = {}, 0  # {length: t}
        for k, view in enumerate(self.views):
            for t in view.first_of_each_length(epoch=k):
                numbers[view.shape(t)[1]] = start + t - k * len(view)
            start += len(view)
        return [numbers[length] for length in sorted(numbers, reverse=True)]


def batches(config: ConfigDict, tokens: Tokens, batches_of: Callable) -> Epochs:
    """Returns the batches of a corpus's views; batches_of(config, tokens) are those of one."""
    views = []
    size = len(tokens.lengths[0]) // config.data.num_views
    for k in range(config.data.num_views):
        cut = slice(k * size, (k + 1) * size + 1)
        sides = {x: side._replace(offsets=side.offsets[cut]) for x, side in tokens.sides.items()}
        place = {"sides": sides, "directory": tokens.directory / f"view-{k}"}
        views.append(batches_of(config, tokens._replace(**place)))
    return Epochs(**vars(views[0]), views=tuple(views))
