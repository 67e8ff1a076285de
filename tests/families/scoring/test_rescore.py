"""--mode=rescore: the scores that it adds, and the order that follows."""

import json
import math

import numpy as np
import pytest

from transformer.errors import UserError
from transformer.families.scoring import rescore, score
from transformer.tasks import attention_weights, translation
from transformer.workdir import saved_config

SOURCES = ["a b c", "d e"]
TEXTS = [["c b a", "c a b", "c a b", ""], ["e d", "d"]]
OLD = [[-3.0, -1.0, -1.0, 0.5], [-0.1, 0.0]]


def added(run, options, by, source, text):
    if by == "coverage":
        weights_TS = attention_weights.pair_weights(run, source, text)["cross"].mean(axis=(0, 1))
        return sum(math.log(min(1, max(x, 1e-6))) for x in np.sum(weights_TS, axis=0))
    names = ("target", "source") if by == "source" else ("source", "target")
    pair = dict(zip(names, (source, text), strict=True))
    [(_, result)] = score.forced(run, [(1, pair)], options)
    return result.score


@pytest.mark.parametrize("by", ["target", "source", "coverage"])
def test_a_weighted_score_is_added_and_the_best_is_first(answered, reversal_run, by):
    asked = []
    for source, texts, old in zip(SOURCES, TEXTS, OLD, strict=True):
        hypotheses = [{"text": x, "score": s} for x, s in zip(texts, old, strict=True)]
        asked.append({"id": source, "source": source, "hypotheses": hypotheses})
    content = "\n".join(map(json.dumps, asked)).encode()
    out = answered("rescore", reversal_run, content, **{"rescore.by": by, "rescore.weight": 2.0})
    config = saved_config.read_config(reversal_run)
    run = translation.load(config, reversal_run)
    for line, before in zip(map(json.loads, out.splitlines()), asked, strict=True):
        expected = [
            (x["text"], x["score"] + 2 * added(run, config.decode, by, before["source"], x["text"]))
            for x in before["hypotheses"]
        ]
        expected.sort(key=lambda x: -x[1])
        assert [x["text"] for x in line["hypotheses"]] == [text for text, _ in expected]
        found = [x["score"] for x in line["hypotheses"]]
        assert found == pytest.approx([s for _, s in expected], abs=1e-4)
        best = (line["id"], line["translation"], line["score"])
        assert best == (before["id"], expected[0][0], found[0])


def test_an_over_long_hypothesis_is_last_in_each_call(answered, reversal_run, caplog):
    """And the line's own fields are those of the best, not of the best before."""
    long, short = {"text": "a " * 600, "score": 9.0}, {"text": "c b", "score": -1.0}
    long, short = long | {"missing": ["x"]}, short | {"confidence": 0.1}
    asked = {"source": "b c", "missing": ["x"], "confidence": 0.9, "hypotheses": [long, short]}
    content = f"{json.dumps(asked)}\n{json.dumps(asked)}\n"
    for by in ("target", "coverage"):
        caplog.clear()
        content = answered("rescore", reversal_run, content.encode(), **{"rescore.by": by})
        warned = [x.getMessage()[:7] for x in caplog.records if "pieces" in x.getMessage()]
        assert warned == ["line 1:", "line 2:"]
        for line in map(json.loads, content.splitlines()):
            assert (line["translation"], line["confidence"]) == ("c b", 0.1)
            assert "missing" not in line
            assert [x["score"] is None for x in line["hypotheses"]] == [False, True]


def test_coverage_needs_the_attention_of_one_model(answered, reversal_run):
    asked = {"source": "b c", "hypotheses": [{"text": "c b", "score": -1.0}]}
    changes = {"rescore.by": "coverage", "evaluate.ensemble": str(reversal_run)}
    with pytest.raises(UserError, match="attention weights need one model with cross-attention"):
        answered("rescore", reversal_run, json.dumps(asked).encode(), **changes)


def test_a_tag_need_not_be_covered(reversal_run):
    config = saved_config.read_config(reversal_run)
    run, options = translation.load(config, reversal_run), config.decode
    cross_LHTS = attention_weights.pair_weights(run, "a b c", "c b")["cross"]
    covered_S = np.log(np.clip(cross_LHTS.mean(axis=(0, 1)).sum(axis=0), 1e-6, 1))
    assert rescore.coverage(run, 1, "a b c", "c b", options) == pytest.approx(covered_S.sum())
    options.tag = "a"
    assert rescore.coverage(run, 1, "b c", "c b", options) == pytest.approx(covered_S[1:].sum())


@pytest.mark.parametrize(
    "hypotheses", [None, [], ["a"], [{"text": "a"}], [{"text": 1, "score": 0}]]
)
def test_a_line_without_scored_hypotheses_is_named(answered, reversal_run, hypotheses):
    right = {"source": "a", "hypotheses": [{"text": "a", "score": 0}]}
    content = "\n".join(map(json.dumps, [right, right | {"hypotheses": hypotheses}])).encode()
    with pytest.raises(UserError, match=r'line 2: expected "hypotheses" of --mode=translate with'):
        answered("rescore", reversal_run, content)
