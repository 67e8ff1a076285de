"""Confidence of a run: learnt from validation text, and one number by every way of asking."""

import http.client
import json
import shutil
import socket
import threading

import numpy as np
import pytest
import uvicorn
from helpers import reversal

import transformer
from transformer.decoding.translator import Hypothesis
from transformer.errors import UserError
from transformer.tasks import translation
from transformer.tools.confidence import confidence
from transformer.tools.confidence.confidence import Calibration
from transformer.tools.serve import application, served
from transformer.workdir import key_tables
from transformer.workdir.saved_config import read_config

LINES = ["a b c", "h g", "c a b d d e", ""]
WEIGHTS = {"mean log P": 1.0, "lowest log P": 0.0}
ASKED = {"translate.confidence": True, "translate.flag_below": 0.3}


def calibrated(folder, **changes):
    """Writes the confidence.json of a run, by which P(good) = logistic(mean log P + 1)."""
    params = translation.load(read_config(folder), folder).params
    learnt = Calibration(
        **{"measure": "chrF", "quality": 50.0, "lines": 2, "good": 1, "weights": WEIGHTS},
        **{"bias": 1.0, "error": 0.0, "error_by_chance": 0.0, "auc": 1.0, "auc_of_score": 1.0},
        **{"bins": [[0.5, 1, 2]], "thresholds": [], "of": "latest params of step 7"},
        params=confidence.fingerprint(params),
    )
    content = json.dumps(learnt._replace(**changes)._asdict())
    (folder / confidence.NAME).write_text(content)
    return folder


@pytest.fixture
def workdir(reversal_run, tmp_path):
    """A calibrated run that can reverse; of its n-best lists, all but the first are unlikely."""
    return calibrated(shutil.copytree(reversal_run, tmp_path / "run"))


def of_http(workdir):
    """What the service answers to LINES."""
    config = key_tables.set_mode_keys(read_config(workdir), "serve")
    config.update_from_flattened_dict(ASKED | {"serve.batch_lines": 1})
    model = served.load(config, workdir, "random", ["random"], config.serve)
    app = application.application({"random": model}, config.serve)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, log_level="critical"))
    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    connection = http.client.HTTPConnection(*listening.getsockname(), timeout=60)
    body = json.dumps({"text": LINES, "num_hypotheses": 4})
    connection.request("POST", "/translate", body, {"Content-Type": "application/json"})
    answer = json.loads(connection.getresponse().read())
    connection.close()
    server.should_exit = True
    thread.join(60)
    return answer["hypotheses"]


def test_one_number_by_every_way_of_asking(workdir, answered, caplog):
    """It is that of the mean log P of --mode=score, and words multiply to P(translation)."""
    model = transformer.load(workdir, ASKED)
    found = model.hypotheses(LINES, 4)
    assert found[3] == [Hypothesis("", 0.0, confidence=1.0)]
    for source, x in [(y, x) for y, best in zip(LINES[:3], found, strict=False) for x in best]:
        forced = model.score(source, x.text)
        expected = confidence.logistic(forced.log_prob / forced.length + 1)
        assert x.confidence == pytest.approx(expected, abs=1e-4)
        assert x.flagged == (x.confidence < 0.3)
        *words, (end, _) = x.words
        assert ([word for word, _ in words], end) == (x.text.split(), "</s>")
        assert np.log([p for _, p in x.words]).sum() == pytest.approx(forced.log_prob, abs=0.01)
    content = "\n".join(json.dumps({"source": x}) for x in [*LINES, "a " * 40]).encode()
    changes = ASKED | {"translate.format": "json", "decode.num_hypotheses": 4}
    lines = answered("translate", workdir, content, **changes)
    *by_mode, of_parts = map(json.loads, lines.splitlines())
    assert "1 of 5 lines flagged" in caplog.text
    assert (of_parts["flagged"], "confidence" in of_parts) == (True, False)
    by_python = json.loads(
        json.dumps([[{"text": x.text, **x.details()} for x in y] for y in found])
    )
    assert [x["hypotheses"] for x in by_mode] == by_python
    assert [x["confidence"] for x in by_mode] == [x[0].confidence for x in found]
    assert of_http(workdir) == by_python


def test_without_being_asked_nothing_changes(workdir, answered):
    content = json.dumps({"source": "a b"}).encode()
    answer = json.loads(answered("translate", workdir, content, **{"translate.format": "json"}))
    assert answer.keys() == {"source", "translation", "score"}


def write_validation(folder, *, seed):
    """Writes 400 pairs: half in capitals, unknown to the model; of the rest 70 % are right."""
    random, pairs = np.random.default_rng(seed), []
    for i, line in enumerate(reversal.sentences(400, seed=seed, shortest=2, longest=7)):
        source, is_right = (line.upper() if i % 2 else line), random.random() < 0.7
        pairs.append((source, reversal.reverse(line) if is_right and i % 2 == 0 else "x y z"))
    for name, side in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
        (folder / f"validation.{name}").write_text("".join(f"{x}\n" for x in side))
    return {
        **{"data.corpus": "parallel_text", "data.directory": str(folder)},
        **{"data.source_language": "source", "data.target_language": "target"},
        "data.validation": "validation",
    }


def test_a_known_quality_is_learnt(reversal_run, tmp_path, answered):
    workdir = shutil.copytree(reversal_run, tmp_path / "run")
    changes = write_validation(tmp_path, seed=3)
    learnt = json.loads(answered("calibrate", workdir, b"", **changes))
    assert learnt == json.loads((workdir / confidence.NAME).read_text())
    assert learnt["lines"] == 200
    assert learnt["error"] < 0.1
    model = transformer.load(workdir, ASKED)
    known, unknown = model.hypotheses([["a b c d", "A B C D"][i] for i in (0, 1)], 1)
    assert known[0].confidence == pytest.approx(0.7, abs=0.1)
    assert unknown[0].confidence < 0.1
    # A judge that likes all lines teaches nothing.
    (tmp_path / "judged").write_text("7\n" * 400)
    judged = changes | {"calibrate.scores": str(tmp_path / "judged"), "calibrate.quality": 5.0}
    with pytest.raises(UserError, match=r"quality=5 must divide the lines: 400 of 400 .* 7 would"):
        answered("calibrate", workdir, b"", **judged)
    (tmp_path / "judged").write_text("7\n")
    with pytest.raises(UserError, match=r"a number for each of the 400 lines .* found 1"):
        answered("calibrate", workdir, b"", **judged)


def test_what_is_missing_stale_or_damaged_is_told(reversal_run, tmp_path, answered):
    workdir = shutil.copytree(reversal_run, tmp_path / "run")
    ask = lambda: answered("translate", workdir, b"a b\n", **ASKED)
    with pytest.raises(UserError, match=r"is not calibrated: python launch.py --mode=calibrate "):
        ask()
    calibrated(workdir)
    assert ask() == "b a\n"
    calibrated(workdir, params=1)
    with pytest.raises(
        UserError, match=r"of the latest params of step 7, found those of step 7: cal"
    ):
        ask()
    for change in (
        {"weights": {"mean log P": 1.0}},
        {"bins": ["1"]},
        {"bias": float("nan")},
        {"good": 1.5},
    ):
        calibrated(workdir, **change)
        with pytest.raises(UserError, match=r"damaged: .*confidence.json is not of --mode=calib"):
            ask()
