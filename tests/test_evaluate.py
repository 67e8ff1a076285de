"""Scores against sacreBLEU and a plain loop; every sentence counts; results are where they say."""

import contextlib
import io
import json
import logging
import math
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
import sacrebleu
import tiny

from transformer import evaluate, tokenizer, trained

ROOT = Path(__file__).resolve().parents[1]

REFERENCES = [
    "The cat sat on the mat .",
    "He does not like big apples, she does!",
    "¿ a b c d ?",
    "",
]
HYPOTHESES = ["The cat sat on mat .", "He does not like big apples , she did!", "a b c d", "x y"]

# Two sentences are longer than a training row, one also than decode.max_length; one is blank.
SOURCES = [
    "나는 사과를 좋아해",
    "책을 읽었어요. " * 9,
    "",
    "그 학생은 학교에 가요 " * 12,
    "1 2 3 !?",
    "안녕",
]
TARGETS = ["I like apples .", "He read a book. " * 9, "", "the student " * 30, "1 2 3 !?", "hi"]


@pytest.mark.parametrize("tokenize", ["13a", "char", "zh", "none"])
def test_score_is_sacrebleu(tokenize):
    found = evaluate.score(HYPOTHESES, REFERENCES, tokenize=tokenize)
    expected = sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES], tokenize=tokenize)
    assert found["bleu"] == pytest.approx(expected.score)
    assert 20 < found["bleu"] < 95
    assert found["chrf"] == pytest.approx(sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score)
    assert found["length_ratio"] == pytest.approx(expected.sys_len / expected.ref_len)
    assert f"tok:{tokenize}|" in found["signature"]
    assert "case:mixed" in found["signature"]
    assert f"version:{sacrebleu.__version__}" in found["signature"]


def test_score_of_the_references_is_100_and_of_nothing_0():
    perfect = evaluate.score(REFERENCES, REFERENCES, tokenize="13a")
    assert perfect["bleu"] == pytest.approx(100)
    assert perfect["length_ratio"] == 1
    assert evaluate.score([""] * 4, REFERENCES, tokenize="13a")["bleu"] == 0


def test_per_token():
    found = evaluate.per_token({"loss": 6.0, "nll": 8.0, "correct": 1.0, "tokens": 4.0})
    expected = {
        "loss": 1.5,
        "nats_per_token": 2.0,
        "perplexity": math.exp(2),
        "accuracy": 0.25,
    }
    assert found == expected
    assert math.isfinite(
        evaluate.per_token({"loss": 1.0, "nll": 1e9, "correct": 0.0, "tokens": 1.0})["perplexity"]
    )


@pytest.fixture(scope="module")
def run(tiny_run, tmp_path_factory):
    """The tiny run, and a small test set for it: (workdir, changes of its config)."""
    folder = tmp_path_factory.mktemp("text")
    for split, keep in (("test", slice(None)), ("other", slice(4, 6))):
        for language, lines in (("ko", SOURCES[keep]), ("en", TARGETS[keep])):
            (folder / f"{split}.{language}").write_text("".join(f"{line}\n" for line in lines))
    workdir = folder / "run"
    shutil.copytree(tiny_run.workdir, workdir)
    changes = {"data.corpus": "parallel_text", "data.directory": str(folder)}
    return workdir, {**changes, "evaluate.weights": "average"}


def configured(run, **changes):
    config = trained.read_config(run[0])
    config.update_from_flattened_dict(run[1])
    config.update_from_flattened_dict(
        {f"evaluate.{name}": value for name, value in changes.items()}
    )
    return config


def evaluated(run, **changes):
    """What evaluating prints, parsed."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        evaluate.evaluate(configured(run, **changes), run[0])
    [line] = out.getvalue().splitlines()
    return json.loads(line)


def saved_steps(run, folder="checkpoints/parameters"):
    return sorted(int(path.name) for path in (run[0] / folder).iterdir() if path.name.isdigit())


@pytest.fixture(scope="module")
def result(run):
    return evaluated(run)


def test_the_result_says_what_it_is(result, run):
    assert result["split"] == "test"
    assert result["weights"] == "average"
    assert result["steps"] == saved_steps(run)
    assert len(result["steps"]) == 3
    assert result["step"] == result["steps"][-1]
    assert result["sentences"] == len(SOURCES)
    assert {"bleu", "chrf", "length_ratio", "signature", "loss", "perplexity"} <= result.keys()


def written(run, split, name):
    return (run[0] / "evaluation" / f"{split}.{name}").read_text().removesuffix("\n").split("\n")


@pytest.mark.slow
def test_files_hold_every_sentence_in_order_and_scores_follow_from_them(result, run):
    result = evaluated(run)  # another test may have scored another split since
    assert json.loads((run[0] / "evaluation.json").read_text()) == result
    assert written(run, "test", "source") == SOURCES
    assert written(run, "test", "reference") == TARGETS
    hypotheses = written(run, "test", "hypothesis")
    assert len(hypotheses) == len(SOURCES)
    assert hypotheses[2] == ""
    bleu = sacrebleu.BLEU(tokenize="13a")
    assert result["bleu"] == pytest.approx(bleu.corpus_score(hypotheses, [TARGETS]).score)
    assert result["signature"] == str(bleu.get_signature())
    assert result["chrf"] == pytest.approx(sacrebleu.corpus_chrf(hypotheses, [TARGETS]).score)


def test_loss_is_that_of_a_plain_loop(result, run):
    """One sentence at a time, without cutting any, its smoothed target written down."""
    config = configured(run)
    model, vocabulary, parameters, _ = trained.load(run[0], config)
    parameters = {"params": parameters}
    log_probs = tiny.jit(
        lambda inputs: jax.nn.log_softmax(model.apply(parameters, **inputs, train=False))
    )
    epsilon = config.loss.label_smoothing
    V = len(vocabulary.target)
    smoothed = nll = correct = tokens = 0
    for source, target in zip(
        tokenizer.encode(vocabulary.source, SOURCES),
        tokenizer.encode(vocabulary.target, TARGETS),
        strict=True,
    ):
        # A multiple of 64 positions, so that few lengths are compiled.
        S, T = (-(-len(side) // 64) * 64 for side in (source, target))
        found = np.asarray(log_probs(tiny_inputs(source, target, S, T)), np.float64)[0]
        for t, token in enumerate(target):
            goal = np.full(V, epsilon / V)
            goal[token] += 1 - epsilon
            smoothed += (goal * (np.log(goal) - found[t])).sum()
            nll -= found[t, token]
            correct += found[t].argmax() == token
            tokens += 1
    assert max(len(ids) for ids in tokenizer.encode(vocabulary.source, SOURCES)) > 64
    assert result["loss"] == pytest.approx(smoothed / tokens, rel=1e-5)
    assert result["nats_per_token"] == pytest.approx(nll / tokens, rel=1e-5)
    assert result["perplexity"] == pytest.approx(math.exp(nll / tokens), rel=1e-4)
    assert result["accuracy"] == pytest.approx(correct / tokens)


def tiny_inputs(source, target, source_length, target_length):
    inputs = {}
    for side, ids, length in (
        ("source", source, source_length),
        ("target", [tokenizer.START, *target[:-1]], target_length),
    ):
        behind = [0] * (length - len(ids))
        inputs[side] = np.array([ids + behind])
        inputs[f"{side}_positions"] = np.array([[*range(len(ids)), *behind]])
        inputs[f"{side}_segments"] = np.array([[1] * len(ids) + behind])
    return inputs


@pytest.mark.slow
def test_another_split_and_other_weights(run):
    """'other' is no key of the config, but the corpus knows it."""
    saved, best = saved_steps(run), saved_steps(run, "best")
    losses = {}
    for weights, steps in (("average", saved), ("latest", saved[-1:]), ("best", best)):
        found = evaluated(run, split="other", weights=weights)
        assert found["split"] == "other"
        assert found["weights"] == weights
        assert found["steps"] == steps
        assert found["step"] == steps[-1]
        assert found["sentences"] == 2
        losses[weights] = found["loss"]
    assert losses["average"] != losses["latest"]
    assert written(run, "other", "source") == SOURCES[4:6]
    assert json.loads((run[0] / "evaluation.json").read_text())["split"] == "other"


@pytest.mark.parametrize("average_last", [1, 2, 100])
def test_average_of_as_many_as_asked_for(run, average_last):
    found = evaluated(run, split="other", average_last=average_last)
    assert found["steps"] == saved_steps(run)[-average_last:]


def test_samples_are_shown(run, caplog):
    caplog.set_level(logging.INFO)
    evaluated(run, samples=2)
    assert f"source       {SOURCES[0]}\n" in caplog.text
    assert f"reference    {TARGETS[-1]}\n" in caplog.text
    assert caplog.text.count("translation  ") == 2


@pytest.mark.slow
def test_standard_output_is_one_json_line(run, result):
    changes = [f"--config.{key}={value}" for key, value in run[1].items()]
    done = subprocess.run(
        [sys.executable, ROOT / "launch.py", "--mode=evaluate", f"--workdir={run[0]}", *changes],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    [line] = done.stdout.splitlines()
    found = json.loads(line)
    assert found.keys() == result.keys()
    for name, value in found.items():
        assert value == (pytest.approx(result[name]) if isinstance(value, float) else result[name])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"weights": "bets"}, "config.evaluate.weights"),
        ({"split": "nowhere"}, "nowhere"),
        ({"tokenize": "14a"}, "config.evaluate.tokenize"),
    ],
)
def test_mistakes_are_said_in_a_line(run, changes, said):
    with pytest.raises(ValueError, match=said) as error:
        evaluated(run, **changes)
    assert "\n" not in str(error.value)


def test_a_missing_kind_of_checkpoint_is_named(run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(run[0], copy)
    shutil.rmtree(copy / "best")
    with pytest.raises(ValueError, match=r"\A.*copy/best does not exist.*\Z"):
        evaluated((copy, run[1]), weights="best")
