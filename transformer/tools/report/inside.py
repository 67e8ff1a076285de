"""Loads a trained model and its test set, for the sections about the model."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import flax.linen as nn
import numpy as np

from transformer.checkpoints import store, weights
from transformer.errors import UserError
from transformer.tasks import saved_model, vocabularies
from transformer.tools.pages.run import Run

Tree = Any
MAX_CHARACTERS = 100  # of a sentence; a longer one makes an unreadable plot


class Inside(NamedTuple):
    """A run's trained model, and items of its newest test set."""

    run: Run
    model: nn.Module
    params: Tree
    items: list[dict[str, str]]  # {"input": text, "output": text}, and the result's other roles
    numbers: list[int]  # of the items' lines, from 1
    columns: dict[str, str]  # {role in the result: name of the column}, {"input": "source", ...}


def load(run: Run) -> Inside | None:
    """Loads a run's params, and its newest test set; None without a complete checkpoint."""
    config = run.config
    if config.evaluate.ensemble:
        raise UserError("--mode=report needs a single model: leave config.evaluate.ensemble empty")
    if not store.complete_steps(run.workdir / weights.FOLDERS[config.evaluate.weights]):
        return None
    loaded = saved_model.load(config, run.workdir)
    # Lists of lines, one per column, become items: [a b], [x y] -> {input: a, output: x}, ...
    columns, items = {}, []
    if run.evaluations:
        result = run.evaluations[-1].result
        columns = result.get("columns", {})
        lines = run.evaluations[-1].columns(*columns) or []
        items = [dict(zip(columns, item, strict=True)) for item in zip(*lines, strict=True)]
        if "tag" in result.get("decode", {}):  # "" if its sources have tags of their own
            run = run._replace(config=config.copy_and_resolve_references())
            run.config.decode.tag = result["decode"]["tag"]
    return Inside(run, loaded.model, loaded.params, items, [*range(1, len(items) + 1)], columns)


def translation_model(inside: Inside) -> saved_model.SavedModel | None:
    """Returns the model with its vocabulary; None for a model that does not translate."""
    config = inside.run.config
    if "shared" not in config.get("vocabulary", {}):  # one vocabulary, or one for each side
        return None
    vocabulary = vocabularies.read(inside.run.workdir, config)
    return saved_model.SavedModel(inside.model, inside.params, [], 0, vocabulary)


def sentences(inside: Inside, count: int, max_characters: int = MAX_CHARACTERS) -> Inside:
    """Keeps `count` items whose inputs have different lengths, short ones first.

    The items are evenly spaced among the inputs of 2 to `max_characters` characters; with fewer
    than `count` such inputs, the `count` shortest items.
    """
    # Indices of items by length; then without empty items; then without long ones, but at least
    # `count`.
    lengths = np.array([len(item["input"].strip()) for item in inside.items], int)
    ordered = np.argsort(lengths, kind="stable")
    ordered = ordered[lengths[ordered] > 1]
    ordered = ordered[: max(count, int((lengths[ordered] <= max_characters).sum()))]
    return _kept(inside, ordered[_spaced(len(ordered), count)])


def labelled(inside: Inside, count: int) -> Inside:
    """Keeps `count` items, a third of them with a wrong prediction; more if few are right."""
    is_right = np.array([item["reference"] == item["output"] for item in inside.items], bool)
    right, wrong = np.flatnonzero(is_right), np.flatnonzero(~is_right)
    # 9 items: 3 wrong and 6 right, but 7 wrong if only 2 are right.
    wrong = wrong[_spaced(len(wrong), max(count // 3, count - len(right)))]
    right = right[_spaced(len(right), count - len(wrong))]
    return _kept(inside, np.concatenate([right, wrong]))


def _spaced(total: int, count: int) -> np.ndarray:
    """Returns up to `count` different indices below `total`, evenly spaced: 2 of 9 are 2 and 6."""
    count = min(total, count)
    return ((np.arange(count) + 0.5) * total / max(1, count)).astype(int)


def _kept(inside: Inside, indices: Sequence[int]) -> Inside:
    """Returns the items at some indices, with their numbers."""
    chosen = [inside.items[i] for i in indices]
    return inside._replace(items=chosen, numbers=[inside.numbers[i] for i in indices])
