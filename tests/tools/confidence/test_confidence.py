"""Confidence of a run: learnt from validation text, and one number by every way of asking."""

import json
import shutil

import numpy as np
import pytest
from helpers import reversal
from tools.serve.test_application import running

import transformer
from transformer.errors import UserError
from transformer.tools.confidence import calibrate, confidence
from transformer.tools.serve import application, served
from transformer.workdir import key_tables
from transformer.workdir.saved_config import read_config

LINES = ["a b c", "h g", "c a b d d e", "", "A B C"]
ASKED = {"translate.confidence": True, "translate.flag_below": 0.3, "translate.format": "json"}


def configured(workdir, mode, **changes):
    config = key_tables.set_mode_keys(read_config(workdir), mode)
    config.update_from_flattened_dict(changes)
    return config


@pytest.fixture(scope="module")
def validation(tmp_path_factory):
    """1,200 pairs: half in capitals, unknown to the model; of the rest 70 % are right."""
    random, pairs = np.random.default_rng(3), []
    for i, line in enumerate(reversal.sentences(1200, seed=3, shortest=2, longest=7)):
        source, is_right = (line.upper() if i % 2 else line), random.random() < 0.7
        pairs.append((source, reversal.reverse(line) if is_right and i % 2 == 0 else "x y z"))
    folder = tmp_path_factory.mktemp("text")
    for name, side in zip(("from", "to"), zip(*pairs, strict=True), strict=True):
        (folder / f"validation.{name}").write_text("".join(f"{x}\n" for x in side))
    files = {"data.corpus": "parallel_text", "data.directory": str(folder)}
    languages = {"data.source_language": "from", "data.target_language": "to"}
    return files | languages | {"data.validation": "validation"}


@pytest.fixture(scope="module")
def workdir(reversal_run, validation, tmp_path_factory):
    """A calibrated run that can reverse; of its n-best lists, all but the first are unlikely."""
    folder = shutil.copytree(reversal_run, tmp_path_factory.mktemp("runs") / "run")
    calibrate.calibrate(configured(folder, "calibrate", **validation), folder)
    return folder


def http_hypotheses(workdir):
    """What the service answers to LINES."""
    config = configured(workdir, "serve", **ASKED)
    model = served.load(config, workdir, "run", ["run"], config.serve)
    with running(application.application({"run": model}, config.serve)) as service:
        return service.ask(body={"text": LINES, "num_hypotheses": 4})[1]["hypotheses"]


def test_a_known_quality_is_learnt_and_one_number_is_given_by_every_way(workdir, answered, caplog):
    """The words multiply to P(translation) of --mode=score."""
    learnt = json.loads((workdir / confidence.NAME).read_text())
    assert (learnt["lines"], sum(x[2] for x in learnt["bins"])) == (600, 600)
    assert learnt["error"] < 1.5 * learnt["error_by_chance"] + 0.02
    model = transformer.load(workdir, ASKED)
    hypotheses = model.hypotheses(LINES, 4)
    for source, best in zip(LINES, hypotheses, strict=True):
        true = {"": 1.0, "A B C": 0.0}.get(source, 0.7)
        assert best[0].confidence == pytest.approx(true, abs=0.1)
        assert not source.islower() or best[0].confidence == max(x.confidence for x in best)
        for x in best if source else ():
            *words, (end, _) = x.words
            assert ([word for word, _ in words], end) == (x.text.split(), "</s>")
            product = np.log([p for _, p in x.words]).sum()
            assert product == pytest.approx(model.score(source, x.text).log_prob, abs=0.01)
    asked = ({"source": x, "flagged": 7} for x in [*LINES, "a " * 40])
    content = "\n".join(map(json.dumps, asked)).encode()
    lines = answered("translate", workdir, content, **ASKED, **{"decode.num_hypotheses": 4})
    *by_mode, of_parts = map(json.loads, lines.splitlines())
    assert "2 of 6 lines are flagged" in caplog.text
    assert [x["flagged"] for x in by_mode] == [False] * 4 + [True]
    assert (of_parts["flagged"], of_parts["confidence"]) == (True, None)
    expected = [[{"text": x.text, **x.details()} for x in best] for best in hypotheses]
    assert [x["hypotheses"] for x in by_mode] == json.loads(json.dumps(expected))
    assert http_hypotheses(workdir) == json.loads(json.dumps(expected))


def test_what_is_missing_stale_or_damaged_is_told(workdir, validation, tmp_path, answered):
    folder = shutil.copytree(workdir, tmp_path / "run")
    learnt = json.loads((folder / confidence.NAME).read_text())
    for change, told in (
        (
            {"params": 1},
            "of other params, the latest params of step 7: calibrate again, with the same",
        ),
        ({"weights": {"mean log P": 1.0}}, "damaged: .* is not of --mode=calibrate"),
        ({"bins": [[float("nan"), 1, 2]]}, "damaged: .* is not of --mode=calibrate"),
        (None, "is not calibrated: python launch.py --mode=calibrate --workdir="),
    ):
        (folder / confidence.NAME).write_text(json.dumps(learnt | (change or {})))
        if change is None:
            (folder / confidence.NAME).unlink()
        with pytest.raises(UserError, match=told):
            answered("translate", folder, b"", **ASKED)
    (tmp_path / "judge").write_text("7\n" * 1200)  # likes all lines
    judged = {**validation, "calibrate.scores": str(tmp_path / "judge"), "calibrate.quality": 5.0}
    with pytest.raises(
        UserError, match=r"quality=5 must divide the lines: 1,200 of 1,200 .* is 7$"
    ):
        answered("calibrate", folder, b"", **judged)
    (tmp_path / "judge").write_text("7\nnan\n")
    with pytest.raises(UserError, match=r"a number for each of the 1,200 .* found 1 in 2 lines"):
        answered("calibrate", folder, b"", **judged)
