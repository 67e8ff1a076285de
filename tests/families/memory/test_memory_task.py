"""The task of remembering: what is drawn, the accuracy of each length, and what is refused."""

import functools
import json

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from configs import memory
from transformer.errors import UserError
from transformer.families.memory import memory_task
from transformer.families.memory.problems import PROBLEMS, SEPARATOR
from transformer.modes import train
from transformer.workdir.log import read


def configure(variant="copy", **changes):
    """A tiny config; keys with '__' for the dot."""
    config = memory.get_config(variant).copy_and_resolve_references()
    values = {
        **{"data.symbols": 8, "data.min_length": 2, "data.max_length": 6, "data.test_items": 5},
        **{"data.batch_tokens": 240, "data.test_lengths": (4, 6, 8), "compilation_cache": ""},
        **{"model.d_model": 16, "model.d_ff": 32, "model.num_heads": 2, "model.num_layers": 1},
        **{key.replace("__", "."): value for key, value in changes.items()},
    }
    config.update_from_flattened_dict(values)
    return config


class Window(nn.Module):
    """Copies the first `size` symbols right, and answers padding after them."""

    size: int

    def __call__(self, tokens, positions, segments, *, train):
        back_BT = jnp.maximum(positions - (tokens == SEPARATOR).argmax(axis=1, keepdims=True), 0)
        copied_BT = jnp.take_along_axis(tokens, back_BT, axis=1)
        return jax.nn.one_hot(jnp.where(back_BT < self.size, copied_BT, 0), 10)


def evaluation(config, size=3, split="test"):
    return memory_task.evaluator(config, None, Window(size), split)


PARAMS = {"not read": jnp.zeros(1)}  # their devices are asked for


def items_of(batch):
    """The items of a batch, as tuples of tokens and answers."""
    arrays = batch["inputs"]["tokens"], batch["inputs"]["segments"], batch["targets"]
    rows = zip(*arrays, batch["weights"], strict=True)
    return [(*tokens[s > 0].tolist(), *targets[w > 0].tolist()) for tokens, s, targets, w in rows]


def test_the_accuracy_of_each_length_is_that_of_its_answers():
    """The first 3 answers of each item are right; batches of a few items change nothing."""
    scores, outputs = evaluation(configure()).score(PARAMS)
    expected = {"accuracy_4": 3 / 4, "accuracy_6": 3 / 6, "accuracy_8": 3 / 8}
    expected["accuracy"] = (3 + 3) / (4 + 6)  # of the lengths that training has
    assert {x: scores[x] for x in expected} == pytest.approx(expected)
    for answer, predicted in zip(outputs["answer"], outputs["prediction"], strict=True):
        symbols = answer.split()
        assert predicted.split() == [*symbols[:3], *["_"] * (len(symbols) - 3)]
    assert [len(x.split()) for x in outputs["answer"]] == [4] * 5 + [6] * 5 + [8] * 5
    few = evaluation(configure(evaluate__batch_tokens=24)).score(PARAMS)
    assert few == (pytest.approx(scores), outputs)


def test_the_best_params_are_not_chosen_by_longer_lengths():
    scores, outputs = evaluation(configure(), split="validation").score(PARAMS)
    assert scores.keys() == {"accuracy", "loss", "accuracy_4", "accuracy_6"}
    longest = evaluation(configure(data__test_lengths=(4, 6, 60))).score(PARAMS)[0]
    # Validation has other items; on all of them the first 3 answers are right.
    assert longest["accuracy"] == scores["accuracy"] == pytest.approx(0.6)
    assert not {*outputs["item"]} & {*evaluation(configure()).dataset["item"]}


def test_all_runs_are_tested_on_the_same_items():
    """Whatever their seed, and their other lengths: (split, length, item) decide."""
    dataset = evaluation(configure()).dataset
    assert dataset == evaluation(configure(train__seed=3, data__max_length=4)).dataset
    fewer = evaluation(configure(data__test_lengths=(6, 4), data__test_items=2)).dataset
    assert fewer["item"] == [dataset["item"][i] for i in (5, 6, 0, 1)]
    assert len({*dataset["item"]}) == 15


@pytest.mark.parametrize("variant", ["copy", "recall"])
def test_training_draws_new_items_of_all_its_lengths(variant):
    config = configure(variant, data__max_length=6)
    batches = memory_task.build(config, None).batches
    items = [item for t in range(20) for item in items_of(batches[t])]
    draw = functools.partial(PROBLEMS[variant].draw, np.random.default_rng(0))
    sizes = [[*map(len, draw(length, 8))] for length in range(2, 7)]  # of tokens and answers
    assert len(items) == 20 * (240 // max(sizes)[0])
    assert {len(item) for item in items} == {*map(sum, sizes)}
    ids = {i for item in items for i in item}
    assert {*range(2, memory_task.sizes(config, None)["vocab_size"])} == ids - {0, SEPARATOR}
    long = [item for item in items if len(item) == max(map(len, items))]
    assert len({*long}) == len(long)
    config.train.seed = 1
    assert not {*long} & {*items_of(memory_task.build(config, None).batches[0])}


@pytest.mark.slow
def test_a_run_learns_and_its_result_has_the_accuracy_of_each_length(tmp_path, capsys):
    """The result is a line of evaluations.jsonl, from which curves over the lengths are drawn."""
    steps = {"train__num_steps": 40, "evaluate__every": 20, "train__log_every": 20}
    schedule = {"optimizer__schedule__warmup_steps": 5, "optimizer__schedule__peak_value": 1e-2}
    train.train(configure(**steps, **schedule, model__positions="alibi"), tmp_path / "run")
    lines = [x for x in read(tmp_path / "run") if x["kind"] == "validation"]
    assert lines[1]["loss"] < lines[0]["loss"] < np.log(10)
    assert lines[1]["accuracy"] > 0.2  # by chance 1 / 8
    [result] = read(tmp_path / "run", "evaluations.jsonl")
    assert result == json.loads(capsys.readouterr().out)
    assert {"accuracy_4", "accuracy_6", "accuracy_8", "accuracy"} < result.keys()
    assert (result["set"], result["items"], result["split"]) == ("test", 15, "test")
    [training, _] = [x for x in read(tmp_path / "run") if x["kind"] == "train"]
    assert "answers_per_second" in training
    assert 0.2 < training["padding"] < 0.5  # lengths 2 to 6 in rows for 6: a third


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data__max_length": 1}, r"data\.max_length must be at least 2, found 1"),
        ({"data__test_lengths": (4, 1)}, r"data\.test_lengths must be integers of 2 or more"),
        ({"data__test_lengths": (4.5,)}, r"data\.test_lengths must be integers of 2 or more"),
        ({"data__test_lengths": (8, 9)}, r"data\.test_lengths=\(8, 9\) must have a length of at "),
        ({"data__test_lengths": ()}, r"data\.test_lengths=\(\) must have a length of at most "),
        ({"data__batch_tokens": 11}, r"data\.batch_tokens must be at least 12, found 11"),
        (
            {"model__positions": "learned", "model__max_positions": 15},
            r"model\.max_positions=15 learned positions are fewer than the 16 of an item of "
            r"length 8 \(config\.data\.test_lengths\)",
        ),
    ],
)
def test_what_cannot_work_is_refused(changes, message):
    memory_task.check(configure())
    with pytest.raises(UserError, match=rf"^config\.{message}"):
        memory_task.check(configure(**changes))


def test_a_checkpoint_of_another_problem_is_another():
    identities = [memory_task.identity(configure(x)) for x in ("copy", "recall")]
    identities.append(memory_task.identity(configure(data__symbols=9)))
    assert len({x["problem"] for x in identities}) == 3
