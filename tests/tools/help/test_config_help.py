"""--help of a config: its keys, their values, and what the config files say of them."""

import pathlib

import pytest

from transformer import registry
from transformer.tools.help import config_help
from transformer.workdir import key_tables


def paragraph(text, key):
    """Returns what is said of a key in the last group that has it."""
    lines = text.splitlines()
    [*_, start] = [i for i, line in enumerate(lines) if line.startswith(f"  --config.{key}=")]
    said = []
    for line in lines[start + 1 :]:
        if not line.startswith(" " * 6):
            break
        said.append(line.strip())
    return lines[start].strip(), " ".join(said)


def test_a_comment_is_behind_its_key_or_above_it():
    source = (pathlib.Path(__file__).parent / "commented.txt").read_text()
    expected = {"data.size": "Of the whole text, in pieces. and more", "model.name": "what it is"}
    expected |= {"cell": "or 'lstm'", "train.num_steps": "updates"}
    assert config_help.comments(source) == expected


def test_keys_are_shown_with_value_default_and_comment():
    text = config_help.text(["--config=multi30k_rnn:dot", "--config.decode.beam_width=7"])
    shown = paragraph(text, "decode.beam_width")
    assert shown == ("--config.decode.beam_width=7", "default 4; at least 1")
    assert paragraph(text, "model.cell")[1].startswith("or 'lstm'; ")
    # The comment of the config's own key, and no default of another architecture.
    assert paragraph(text, "model.d_model")[1].startswith("of embeddings and states; half of it")
    shown = paragraph(text, "train.num_steps")
    assert shown == ("--config.train.num_steps=4000", "default 100000; at least 1; updates")
    assert "fingerprint" not in text
    assert max(map(len, text.splitlines())) <= config_help.WIDTH
    first, *groups = text.split("\n\n")
    assert first.startswith("Most used\n  --config.data.directory=")
    titles = [group.partition("\n")[0] for group in groups]
    assert titles[:3] == ["config", "config.data", "config.decode"]


# Those that start from one run, one config or one file of configs.
STARTS = {"config": "--config=parallel_text", "workdir": "--workdir={}", "configs": "rows.toml"}
FROM_ONE = [x for x, m in registry.MODES.items() if m.keys and m.start in STARTS and not m.folder]


@pytest.mark.parametrize("mode", FROM_ONE)
def test_help_has_the_keys_of_a_mode(mode, tiny_run):
    start = STARTS[registry.MODES[mode].start].format(tiny_run.workdir)
    text = config_help.text([f"--mode={mode}", start])
    for key in key_tables.mode_table(mode):
        assert paragraph(text, key)[1], key


@pytest.mark.parametrize("task", registry.TASKS)
def test_most_keys_of_a_task_are_explained(task):
    lines = config_help.text([f"--config={task}"]).splitlines()
    keys = [i for i, line in enumerate(lines) if line.startswith("  --config.")]
    explained = [i for i in keys if lines[i + 1 : i + 2] and lines[i + 1].startswith(" " * 6)]
    assert len(explained) > 0.75 * len(keys)
