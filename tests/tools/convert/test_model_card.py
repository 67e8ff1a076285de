"""The model card of an exported folder."""

import json

import numpy as np
import pytest

from transformer.tasks.saved_model import SavedModel
from transformer.tools.convert import model_card
from transformer.workdir import key_tables
from transformer.workdir.config_files import default_config


@pytest.fixture
def card(tmp_path):
    """A function of a task, a licence and config.data's values: the card of a run of step 9."""

    def text(task="translation", licence="mit", step=9, **data):
        config = default_config(task)
        key_tables.set_mode_keys(config, "export")
        config.data.update(directory="/home/somebody/texts", **data)
        config.export.licence = licence
        run = SavedModel(None, {"bias": np.zeros(1234)}, [step], step)
        return model_card.text(config, tmp_path / "run", run, tmp_path / "mine")

    return text


def test_a_card_begins_with_what_the_hub_reads(card, tmp_path):
    (tmp_path / "run").mkdir()
    result = {"set": "news", "split": "test", "step": 9, "weights": "best", "checksum": "0"}
    result |= {"bleu": 30.0, "loss": 1.5, "signature": "s"}
    (tmp_path / "run" / "evaluations.jsonl").write_text(json.dumps(result) + "\n")
    header, rest = card().removeprefix("---\n").split("\n---\n")
    assert header.split("\n")[:4] == ["language:", "- en", "- de", "license: mit"]
    assert "| parameters | 1,234 |" in rest
    assert "| scores on news | BLEU 30.00, loss 1.5000 (s) |" in rest
    assert "licence is not stated" not in rest
    assert "of the task `translation` from `en` to `de`, trained on\n`wmt14" in rest
    assert "(train in texts)." in rest
    assert "    python launch.py --mode=export mine --workdir=run --config.export." in rest


def test_a_card_of_another_task_has_the_hub_s_name_of_it_and_no_languages(card):
    text = card("language_modelling")
    assert "pipeline_tag: text-generation" in text
    assert "language:" not in text
    assert "`language_modelling`, trained on\ntrain.txt in texts." in text


def test_what_an_imported_model_does_not_name_is_not_invented(card):
    text = card(step=0, source_language="source", target_language="target")
    assert "language:" not in text
    assert "`translation`, imported." in text
