"""The memory task: copying or associative recall, trained short and tested long.

Items are generated: a training item from (seed, t, item), a validation or test item from (split,
length, item), the same for all runs. Scores are accuracies by length.
"""

import functools
from collections.abc import Callable
from pathlib import Path

import flax.linen as nn
import jax
import numpy as np
from ml_collections import ConfigDict

from transformer.data.batches import Batches, example_of
from transformer.data.packing import Rows
from transformer.errors import UserError, check_value
from transformer.families.memory import problems
from transformer.families.memory.problems import PROBLEMS, Item
from transformer.tasks import losses, saved_model
from transformer.tasks.evaluation import Evaluation, SplitSums
from transformer.tasks.task import Task, abstract_params, build_model, make_task

FREE = ()
# 'accuracy' is at trained lengths. Params chosen by longer lengths would be fitted to them, and
# their accuracy would not show how a model generalises to unseen lengths.
SCORE = {"best_by": "accuracy", "best_is": "highest", "unit": "answer"}
SPLITS = ("train", "validation", "test")  # their indices make their items differ
# Answers are certain, so smoothing is useless; the logits are small.
LOSS = {"label_smoothing": 0.0, "smoothed_over": "all_classes", "blocks": 1}
model = build_model


def check(config: ConfigDict) -> None:
    """Raises UserError for invalid values, before anything is written or compiled."""
    data = config.data
    check_value("data.max_length", data.max_length, f"at least {data.min_length}")
    lengths = data.test_lengths
    if any(type(length) is not int or length < 2 for length in lengths):
        raise UserError(f"config.data.test_lengths must be integers of 2 or more, found {lengths}")
    if not tested_lengths(config, "validation"):
        raise UserError(
            f"config.data.test_lengths={lengths} must have a length of at most "
            f"config.data.max_length={data.max_length}, by which validation chooses the best params"
        )
    tokens = row_length(config, data.max_length)
    check_value("data.batch_tokens", data.batch_tokens, f"at least {tokens}")
    checked = model(config, sizes(config, None))
    longest = max(data.max_length, *lengths)
    positions = row_length(config, longest)
    what = (
        f"the {positions} of an item of length {longest} (config.data.test_lengths); other "
        "config.model.positions have no limit"
    )
    saved_model.check_all_positions(config, checked, positions, what)
    abstract_params(checked, example(config, 1))


def prepare(config: ConfigDict, workdir: Path, saved_config: ConfigDict | None) -> ConfigDict:
    """Returns the config, as nothing needs building."""
    return config


def identity(config: ConfigDict) -> dict[str, str]:
    """Returns the meaning of ids: the problem and its number of symbols."""
    return {"problem": f"{config.data.problem} of {config.data.symbols} symbols"}


def sizes(config: ConfigDict, workdir: Path | None) -> dict[str, int]:
    """Returns {'vocab_size'}: the alphabets of the problem, padding and the separator."""
    alphabets = len(PROBLEMS[config.data.problem].prefixes)
    return {"vocab_size": problems.FIRST_SYMBOL + alphabets * config.data.symbols}


def example(config: ConfigDict, rows: int) -> dict:
    """Returns a batch of jax.ShapeDtypeStruct; `rows` 0 for a full training batch."""
    length = row_length(config, config.data.max_length)
    assemble = functools.partial(problems.assemble, None)  # draws nothing
    return example_of(assemble, rows or config.data.batch_tokens // length, length)


def row_length(config: ConfigDict, length: int) -> int:
    """Returns the tokens of an item of this length."""
    return problems.row_length(PROBLEMS[config.data.problem], length, config.data.symbols)


def loss(config: ConfigDict, model: nn.Module) -> Callable:
    """Returns the training loss, (params, batch, *, rng) -> {name: sum over the answers}."""
    token_loss = functools.partial(losses.token_loss, model=model, **LOSS)
    return functools.partial(losses.with_filled, token_loss)


def build(config: ConfigDict, workdir: Path) -> Task:
    """Builds the `Task` of a prepared workdir."""
    data, problem = config.data, PROBLEMS[config.data.problem]

    def draw(seed: int, t: int, i: int) -> Item:
        """Returns item i of batch t, of a random length."""
        random = np.random.default_rng((SPLITS.index("train"), seed, t, i))
        length = int(random.integers(data.min_length, data.max_length + 1))
        return problem.draw(random, length, data.symbols)

    room = row_length(config, data.max_length)
    count = data.batch_tokens // room
    # An epoch is one batch, because no item comes twice.
    rows = Rows(room, np.arange(count), np.arange(count + 1))
    assemble = functools.partial(problems.assemble, draw)
    batches = Batches([rows], data.batch_tokens, config.train.seed, assemble)
    about = (
        f"{data.problem} of {data.symbols} symbols, lengths {data.min_length} to "
        f"{data.max_length}, {count} new items a batch"
    )
    return make_task(config, workdir, sizes(config, workdir), batches, about)


def tested_lengths(config: ConfigDict, split: str) -> list[int]:
    """Returns the lengths of a split: in 'validation' the trained lengths, in 'test' all."""
    longest = config.data.max_length if split == "validation" else np.inf
    return [length for length in config.data.test_lengths if length <= longest]


def evaluator(config: ConfigDict, workdir: Path, model: nn.Module, split: str) -> Evaluation:
    """Returns the evaluator of 'validation' or 'test'.

    An answer is right if its token has the largest logit. Scores are shares of right answers,
    'accuracy_32' for length 32 and 'accuracy' for all trained lengths, and their mean nats, 'loss'.
    Outputs are 'item', 'answer' and 'prediction', one line per item.
    """
    data, problem = config.data, PROBLEMS[config.data.problem]
    lengths, count = tested_lengths(config, split), data.test_items

    drawn, groups = [], []
    for length in lengths:
        # Number items over all lengths: 64 of length 32 are 0 to 63, length 64 starts at 64.
        numbers = len(drawn) + np.arange(count)
        groups.append(Rows(row_length(config, length), numbers, np.arange(count + 1)))
        for i in range(count):
            random = np.random.default_rng((SPLITS.index(split), length, i))
            drawn.append(problem.draw(random, length, data.symbols))
    assemble = functools.partial(problems.assemble, lambda _, t, i: drawn[i])
    split_sums = SplitSums(
        Batches(groups, config.evaluate.batch_tokens, None, assemble),
        functools.partial(_outcome, model=model),
        what=f"score {split}",
        remedy="lower config.evaluate.batch_tokens",
    )
    items, expected = zip(*drawn, strict=True)
    text = functools.partial(problems.text, problem=problem, symbols=data.symbols)
    dataset = {"item": [*map(text, items)], "answer": [*map(text, expected)]}
    answer_counts = [*map(len, expected)]
    # Item lengths 4 4 6 with 2 2 3 answers give 4 4 4 4 6 6 6.
    length_of_answer = np.repeat(np.repeat(lengths, count), answer_counts)

    def score(params: dict) -> tuple[dict, dict]:
        _, [predicted, nats] = split_sums.score(params)
        right = predicted == np.concatenate(expected)
        seen = length_of_answer <= data.max_length
        scores = {"accuracy": float(right[seen].mean()), "loss": float(nats[seen].mean())}
        scores |= {f"accuracy_{x}": float(right[length_of_answer == x].mean()) for x in lengths}
        # Split the answers by item.
        predictions = np.split(predicted, np.cumsum(answer_counts)[:-1])
        return scores, {**dataset, "prediction": [*map(text, predictions)]}

    def rows(scores: dict) -> dict[str, str]:
        by_length = {f"length {x}": f"{scores[f'accuracy_{x}']:.2%}" for x in lengths}
        words = f"{scores['accuracy']:.2%} of the answers at lengths up to {data.max_length}"
        return {"accuracy": words, **by_length}

    return Evaluation(
        split=split,
        files=[],
        dataset=dataset,
        settings={"items": len(items)},
        columns={"input": "item", "reference": "answer", "output": "prediction"},
        score=score,
        rehearse=split_sums.rehearse,
        rows=rows,
    )


@functools.partial(jax.jit, static_argnames="model")
def _outcome(params: dict, batch: dict, *, model: nn.Module) -> tuple[dict, tuple]:
    """Returns no sums, and the prediction and the nats of each position [B, T]."""
    logits_BTV, _ = losses.forward(model, params, batch, train=False)
    return {}, (logits_BTV.argmax(axis=-1), losses.token_nats(logits_BTV, batch["targets"]))
