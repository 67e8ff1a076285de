"""The table of keys: every key has its type and fulfils its rule before a run starts."""

import pytest
from ml_collections import ConfigDict

from configs import parallel_text
from transformer import registry
from transformer.errors import UserError
from transformer.workdir import config_files, key_tables

TABLE = {"a.rate": [0.5, "at least 0 and below 1"], "a.size": [4, "even and at least 2"]}
TABLE |= {"a.kind": ["bpe", ("bpe", "unigram")], "a.name": "", "a.above": [1.0, "above 0"]}
TABLE |= {"a.mesh": (0, 1), "a.pack": True, "a.most": [1, "at most 9"]}


@pytest.mark.parametrize(
    ("key", "value", "right"),
    [
        ("rate", -0.5, "at least 0 and below 1"),
        ("rate", 1, "at least 0 and below 1"),
        ("above", 0.0, "above 0"),
        ("most", 10, "at most 9"),
        ("size", 3, "even and at least 2"),
        ("kind", "unigrm", "one of 'bpe', 'unigram'"),
        ("size", "4", "an integer, such as 4"),
        ("size", 4.0, "an integer, such as 4"),
        ("size", True, "an integer, such as 4"),
        ("size", None, "an integer, such as 4"),
        ("rate", "x", "a number, such as 0.5"),
        ("pack", 1, "True or False, such as True"),
        ("name", 1, "a string, such as ''"),
        ("mesh", [1], "a tuple, such as (0, 1)"),
        ("rate", float("nan"), "a finite number in float32"),
        ("above", 1e39, "a finite number in float32"),
        ("size", 2**31, "below 2^31"),
        ("further", float("inf"), "a finite number in float32"),
    ],
)
def test_a_value_is_of_its_type_and_fulfils_its_rule(key, value, right):
    with pytest.raises(UserError) as error:
        key_tables.check_values({f"a.{key}": value}, TABLE)
    assert str(error.value).startswith(f"config.a.{key} must be {right}, found {value!r}")
    if key == "kind":
        assert str(error.value).endswith("; did you mean unigram?")


def test_what_is_right_passes():
    right = {"rate": 0, "size": 2, "kind": "unigram", "name": "x", "above": 1e-30, "mesh": ()}
    right |= {"pack": False, "most": 9, "further": "anything", "rate": 0.99}
    key_tables.check_values({f"a.{key}": value for key, value in right.items()}, TABLE)


# Numbers whose rule depends on another key: the task's or the mode's own check has it.
OWN_CHECKS = {"data.batch_tokens", "data.max_length", "data.num_classes", "data.row_length"}
OWN_CHECKS |= {"calibrate.quality", "evaluate.batch_tokens", "export.max_length"}
CHOICES = ["parallel.strategy", "evaluate.weights", "vocabulary.kind", "vocabulary.normalisation"]
CHOICES += ["loss.smoothed_over", "model.dtype", "model.tied_embeddings", "decode.length_penalty"]
CHOICES += ["decode.utility", "decode.method", "decode.stopping", "translate.format", "kernels"]


def test_every_number_and_choice_has_a_rule_and_every_default_fulfils_its_own():
    of_mode = lambda x: (key_tables.set_mode_keys(ConfigDict(), x), key_tables.mode_table(x))
    files = [str(config_files.CONFIGS / f"{task}.py") for task in registry.TASKS]
    for config, table in [*map(config_files.load, files), *map(of_mode, registry.MODES)]:
        key_tables.check_values(key_tables.flatten(config), table)
        for key, entry in table.items():
            default = key_tables.default_of(entry)
            key_tables.check_values({key: default}, table)
            is_free = key in OWN_CHECKS or type(default) not in (int, float)
            assert is_free if not isinstance(entry, list) else len(entry) == 2, key
            if key in CHOICES and isinstance(default, str):
                said = rf"^config\.{key} must be one of '.*, found 'wrong'"
                with pytest.raises(UserError, match=said):
                    key_tables.check_values({key: "wrong"}, table)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"train": {"num_steps": 5}}, "the config lacks config.train.accumulate, "),
        ({"task": "no"}, "config.task must be one of 'translation', "),
        ({"loss": 3}, "the config lacks config.loss."),
        (
            {"train": {**parallel_text.get_config().train, "keep": True}},
            "config.train.keep must be",
        ),
    ],
)
def test_a_config_has_all_keys_of_its_task(change, said):
    with pytest.raises(UserError) as error:
        key_tables.check(ConfigDict({**parallel_text.get_config(), **change}))
    assert said in str(error.value)


def test_another_architecture_has_keys_and_rules_of_its_own():
    config = parallel_text.get_config()
    config.architecture, config.model = "mine", {"d_model": 3, "width": 8}
    key_tables.check(config)
    config.optimizer.name, config.optimizer.arguments = "sgd", {}
    key_tables.check(config)
    config.optimizer.arguments = {"b1": 2.0}  # no optimizer's may be this
    with pytest.raises(UserError, match=r"config.optimizer.arguments.b1 must be at least 0"):
        key_tables.check(config)
