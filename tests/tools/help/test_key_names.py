"""What people type for a key of a config: names of other programs, and misspellings."""

import pytest
from helpers.command_line import TEXT, mistake

from transformer import registry
from transformer.tools.help import key_names
from transformer.workdir import config_files, key_tables


@pytest.mark.parametrize(
    ("typed_key", "meant"),
    [
        ("optimizer.lr", "optimizer.schedule.factor (now 1.0)"),
        ("optimizer.learning_rate", "optimizer.schedule.factor (now 1.0)"),
        ("optimizer.lr_schedule", "optimizer.schedule.name (now inverse_square_root)"),
        ("train.batch_size", "data.batch_tokens (now 8192)"),
        ("train.epochs", "train.num_steps (now 30000)"),
        ("model.hidden_size", "model.d_model (now 256)"),
        ("heads", "model.num_heads (now 4)"),
        ("model.layers", "model.num_layers (now 6)"),
        ("model.dropout", "model.dropout_rate (now 0.2)"),
        ("data.max_len", "data.max_length (now 128) or config.decode.max_length (now 256)"),
        ("decode.beam", "decode.beam_width (now 4)"),
        ("data.max_lenght", "data.max_length"),  # not decode's, which is spelt the same
    ],
)
def test_what_people_type_for_a_key(typed_key, meant):
    said = mistake(TEXT, f"--config.{typed_key}=1")
    meant = meant.replace(" or config.", " or --config.")
    assert said.endswith(f"there is no key config.{typed_key}; did you mean --config.{meant}?")


def test_no_likely_name_is_missing():
    """Each exists in some config: a renamed key shows here."""
    configs = [config_files.default_config(task) for task in registry.TASKS]
    keys = {key for config in configs for key in key_tables.flatten(config)}
    if len(configs) >= 5:  # in a fork, names of deleted families are there as well
        # Of optax's constant_schedule.
        assert key_names.ALSO_CALLED.keys() - keys == {"optimizer.schedule.value"}
