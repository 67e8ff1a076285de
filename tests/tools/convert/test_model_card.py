"""The model card of an exported folder, as a golden text."""

import json

import numpy as np
import pytest
from tools.pages import golden

from transformer.tasks.saved_model import SavedModel
from transformer.tools.convert import model_card
from transformer.workdir import key_tables
from transformer.workdir.config_files import default_config

RESULT = {"set": "news", "split": "test", "step": 9, "weights": "average", "checksum": "0"}
RESULT |= {"steps": [9], "bleu": 30.0, "loss": 1.5, "signature": "s"}


@pytest.mark.parametrize(
    ("name", "task", "step", "data"),
    [
        ("translation", "translation", 9, {}),
        ("another_task", "language_modelling", 9, {}),
        ("imported", "translation", 0, {"source_language": "source", "target_language": "target"}),
    ],
)
def test_a_reader_sees(tmp_path, name, task, step, data):
    """Of a translation model also languages, licence and scores; no folder of this machine."""
    config = key_tables.set_mode_keys(default_config(task), "export")
    config.data.update(directory="/home/somebody/texts", **data)
    config.model, config.vocabulary = {"d_model": 8}, {"size": 9, "fingerprint": ""}
    if name == "translation":
        config.export.licence = "mit"
        (tmp_path / "run").mkdir()
        of_others = {"steps": [7, 9], "bleu": 1}, {"weights": "best", "bleu": 2}
        lines = [json.dumps(RESULT | x) for x in ({}, *of_others)]
        (tmp_path / "run" / "evaluations.jsonl").write_text("\n".join([*lines, ""]))
    run = SavedModel(None, {"bias": np.zeros(1234)}, [step], step)
    text = model_card.text(config, tmp_path / "run", run, tmp_path / "mine")
    golden.check(text, __file__, name)
