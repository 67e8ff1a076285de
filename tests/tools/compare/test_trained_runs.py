"""From training to the comparison, with nothing written by hand."""

import json

import pytest
from families.language_model import language

import launch
from transformer.modes import train
from transformer.workdir.log import read


@pytest.mark.slow
def test_trained_language_models_are_compared(tmp_path, monkeypatch, capsys):
    language.write_text(tmp_path)
    for seed in (0, 1):
        config = language.config(tmp_path, {"train.seed": seed, "evaluate.every": 0})
        train.train(config, tmp_path / f"seed{seed}")
    capsys.readouterr()
    monkeypatch.chdir(tmp_path)
    launch.main(["--mode=compare", "seed0", "seed1"])
    compared = json.loads(capsys.readouterr().out)
    assert compared["config"] == {"train.seed": [0, 1]}
    saved = [read(tmp_path / f"seed{seed}", "evaluations.jsonl")[-1] for seed in (0, 1)]
    for run, result in zip(compared["runs"], saved, strict=True):
        bits = run["scores"]["bits_per_character"]
        assert bits["value"] == pytest.approx(result["bits_per_character"], rel=1e-4)
        assert bits["interval"][0] < bits["value"] < bits["interval"][1]
    assert compared["runs"][0]["parameters"] == compared["runs"][1]["parameters"] > 0
