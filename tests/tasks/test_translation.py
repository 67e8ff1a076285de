"""What the translation task refuses, and its scores: those of sacreBLEU and of a plain loop."""

import contextlib
import hashlib
import io
import json
import logging
import math
import re
import shutil
import sys
import unicodedata
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import sacrebleu
from helpers.checkpoints import steps
from helpers.command_line import trained
from helpers.runs import SUMS

import launch
from transformer import registry
from transformer.data import tokenizer
from transformer.errors import UserError
from transformer.modes import evaluate
from transformer.tasks import losses, translation
from transformer.workdir import log, saved_config

# Two sentences are longer than a training row, one also than decode.max_length; one is blank.
SOURCES = [
    "나는 사과를 좋아해",
    "책을 읽었어요. " * 9,
    "",
    "그 학생은 학교에 가요 " * 12,
    "1 2 3 !?",
    "안녕",
]
SECOND = ["1 2 3 !", "bé"]
TARGETS = ["I like apples .", "He read a book. " * 9, "", "the student " * 30, "1 2 3 !?", "né"]


def test_per_token():
    sums = {"loss": 6.0, "nats_per_token": 8.0, "accuracy": 1.0, "weight": 4.0}
    means = losses.per_token({**dict.fromkeys(SUMS, 0.0), **sums})
    expected = {"loss": 1.5, "nats_per_token": 2.0, "perplexity": math.exp(2), "accuracy": 0.25}
    assert expected.items() <= means.items()
    rare = {**dict.fromkeys(SUMS, 1.0), "nats_per_token": 1e9}
    assert math.isfinite(losses.per_token(rare)["perplexity"])


@pytest.fixture(scope="module")
def run(tiny_run, data_dir, tmp_path_factory):
    """The tiny run with a small test set: (workdir, changes of its config)."""
    folder = tmp_path_factory.mktemp("text")
    for split, keep in (("test", slice(None)), ("other", slice(4, 6))):
        for language, lines in (("ko", SOURCES[keep]), ("en", TARGETS[keep])):
            text = "".join(f"{line}\n" for line in lines)
            # As macOS writes it: what is read, scored and written is composed again.
            (folder / f"{split}.{language}").write_text(unicodedata.normalize("NFD", text))
    (folder / "2.en").write_text("".join(f"{line}\n" for line in SECOND))
    workdir = shutil.copytree(tiny_run.workdir, folder / "run")
    changes = {"data.directory": str(folder), "data.data_dir": str(data_dir)}
    return workdir, {**changes, "evaluate.weights": "average"}


def configured(run, **changes):
    config = saved_config.read_config(run[0])
    config.update_from_flattened_dict(run[1])
    config.update_from_flattened_dict(
        {f"evaluate.{name}": value for name, value in changes.items()}
    )
    return config


def evaluated(run, config=None, **changes):
    """Returns what --mode=evaluate prints, parsed."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        evaluate.evaluate(config or configured(run, **changes), run[0])
    [line] = out.getvalue().splitlines()
    return json.loads(line)


@pytest.fixture(scope="module")
def result(run):
    return evaluated(run)


def test_the_result_says_what_it_is(result, run):
    assert result["split"] == "test"
    assert result["weights"] == "average"
    assert result["steps"] == steps(run[0] / "params")
    assert len(result["steps"]) == 3
    assert result["step"] == result["steps"][-1]
    assert result["sentences"] == len(SOURCES)
    assert {"bleu", "chrf", "length_ratio", "signature", "loss", "perplexity"} <= result.keys()
    assert result["files"] == [f"{run[1]['data.directory']}/test.{side}" for side in ("ko", "en")]
    text = "".join(f"{line}\n" for line in SOURCES + TARGETS)
    assert result["checksum"] == hashlib.sha256(text.encode()).hexdigest()
    assert "jax" in result["versions"]


def test_loss_and_bleu_are_both_of_the_tagged_sources(run, monkeypatch):
    monkeypatch.setattr(tokenizer, "tags", lambda vocabulary: ["사과"])  # a word for a tag
    config, tagged = configured(run, split="other"), configured(run, split="tagged")
    folder = Path(config.data.directory)
    (folder / "tagged.ko").write_text("".join(f"사과 {x}\n" for x in SOURCES[4:6]))
    shutil.copy(folder / "other.en", folder / "tagged.en")
    config.decode.tag = "사과"
    results = [evaluated(run, x) for x in (config, tagged, configured(run, split="other"))]
    scores = [[result[name] for name in ("bleu", "loss", "accuracy")] for result in results]
    assert scores[0] == scores[1] != scores[2]


@pytest.mark.slow
def test_an_ensemble_of_two_steps_is_another_model(run, tmp_path):
    """Of which one, models/test_ensemble.py says."""
    workdir, early = (shutil.copytree(run[0], tmp_path / name) for name in ("run", "early"))
    shutil.rmtree(early / "checkpoints" / "160")
    copy = workdir, run[1]
    changes = {"weights": "latest", "split": "other"}
    alone, both = (evaluated(copy, **changes, ensemble=x) for x in ("", str(early)))
    assert (both["step"], both["steps"]) == (160, [160, 120])  # the step of the workdir itself
    assert both["nats_per_token"] != pytest.approx(alone["nats_per_token"], abs=1e-3)


def test_a_value_that_cannot_work_is_said_before_anything_is_read(tmp_path):
    arguments = ["--mode=evaluate", trained(tmp_path, {}), "--config.evaluate.tokenize=14a"]
    with pytest.raises(UserError, match=r"evaluate\.tokenize must be one of .*'13a'"):
        launch.main(arguments)


def written(run, split, name):
    return (run[0] / "evaluation" / f"{split}.{name}").read_text().removesuffix("\n").split("\n")


def test_files_hold_every_sentence_in_order_and_scores_follow_from_them(result, run):
    """Beside the files of the run's own test set, which has the same name."""
    assert result in log.read(run[0], "evaluations.jsonl")
    name = f"test-{result['checksum'][:16]}"
    assert result["set"] == name
    assert written(run, name, "source") == SOURCES
    assert written(run, name, "reference") == TARGETS
    hypotheses = written(run, name, "hypothesis")
    assert len(hypotheses) == len(SOURCES)
    assert hypotheses[2] == ""
    bleu = sacrebleu.BLEU(tokenize="13a")
    expected = bleu.corpus_score(hypotheses, [TARGETS])
    assert result["bleu"] == pytest.approx(expected.score)
    assert result["length_ratio"] == pytest.approx(expected.sys_len / expected.ref_len)
    assert result["signature"] == str(bleu.get_signature())
    assert result["chrf"] == pytest.approx(sacrebleu.corpus_chrf(hypotheses, [TARGETS]).score)


def test_samples_and_the_further_scores_of_the_registry_are_shown(run, monkeypatch, caplog):
    """Against two references; validations lack further scores."""
    caplog.set_level(logging.INFO)
    monkeypatch.setitem(registry.SCORES, "words", f"{__name__}:words")
    monkeypatch.setitem(sys.modules, __name__, SimpleNamespace(words=lambda config: mean_words))
    changes = {"samples": 2, "references": "2.en,2.en", "tokenize": "char"}
    result = evaluated(run, split="other", scores="words,", **changes)
    translations = written(run, "other", "hypothesis")
    assert result["words"] == np.mean([len(line.split()) for line in translations + TARGETS[4:6]])
    references = [TARGETS[4:6], SECOND, SECOND]
    assert [written(run, "other", f"reference{i}") for i in ("", 2, 3)] == references
    expected = sacrebleu.corpus_bleu(translations, references, tokenize="char")
    assert result["bleu"] == expected.score
    assert re.match(r"nrefs:3\|case:mixed\|.*\|tok:char\|", result["signature"])
    assert [*result["columns"]] == ["input", "reference", "reference2", "reference3", "output"]
    assert f"source       {SOURCES[4]}\n" in caplog.text
    assert f"reference    {TARGETS[5]}\n" in caplog.text
    assert caplog.text.count("translation  ") == 2


def mean_words(sources, hypotheses, references, vocabulary):
    return {"words": float(np.mean([len(x.split()) for x in [*hypotheses, *references[0]]]))}


def test_a_score_is_printed_though_it_cannot_be_written(run, no_file_over, capsys):
    """On a full disk, as on a read-only one: then one line names the file."""
    evaluated(run, split="other")  # compiled, its ids cached
    before = (run[0] / "evaluations.jsonl").read_bytes()
    capsys.readouterr()
    with no_file_over(0), pytest.raises(OSError, match="File too large") as raised:
        evaluate.evaluate(configured(run, split="other"), run[0])
    assert json.loads(capsys.readouterr().out)["sentences"] == 2
    line = launch.one_line(raised.value)
    assert line == f"{run[0] / 'evaluations.jsonl'}: File too large"
    assert (run[0] / "evaluations.jsonl").read_bytes() == before


@pytest.mark.parametrize(("pack", "max_length", "row_length"), [(True, 48, 64), (False, 64, 48)])
def test_every_position_of_training_is_learned(tiny_config, pack, max_length, row_length):
    """Positions restart in each sentence of a packed row; a row of one pair may be longer."""
    values = {"data.pack": pack, "data.max_length": max_length, "data.row_length": row_length}
    values |= {"model.positions": "learned", "decode.max_length": 16}
    translation.check(tiny_config({**values, "model.max_positions": max_length}))
    few = max_length - 1
    expected = (
        rf"config\.model\.max_positions={few} .* fewer than config\.data\.max_length={max_length}"
    )
    with pytest.raises(UserError, match=expected):
        translation.check(tiny_config({**values, "model.max_positions": few}))


def test_a_tokeniser_without_its_package_says_what_to_install(tiny_config, monkeypatch):
    monkeypatch.setitem(sys.modules, "mecab_ko", None)
    expected = r"\Aconfig\.evaluate\.tokenize='ko-mecab' .*pip install sacrebleu\[ko\].*\Z"
    with pytest.raises(UserError, match=expected):
        translation.check(tiny_config({"evaluate.tokenize": "ko-mecab"}))
