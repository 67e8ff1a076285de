"""--mode=rescore: the scores that it adds, and the order that follows."""

import json
import math

import numpy as np
import pytest

from transformer.errors import UserError
from transformer.families.scoring import score
from transformer.tasks import attention_weights, translation
from transformer.workdir import saved_config

SOURCES = ["a b c", "d e"]
TEXTS = [["c b a", "c a b", "c a b", ""], ["e d", "d"]]
OLD = [[-3.0, -1.0, -1.0, 0.5], [-0.1, 0.0]]


def added(run, options, by, source, text):
    if by == "coverage":
        weights_TS = attention_weights.pair_weights(run, source, text)["cross"].mean(axis=(0, 1))
        return sum(math.log(min(1, max(x, 1e-6))) for x in np.sum(weights_TS, axis=0))
    pair = (
        {"source": text, "target": source} if by == "source" else dict(source=source, target=text)
    )
    [(_, result)] = score.forced(run, [pair], options)
    return result.score


@pytest.mark.parametrize("by", ["target", "source", "coverage"])
def test_a_weighted_score_is_added_and_the_best_is_first(answered, reversal_run, by):
    asked = [
        {
            "id": source,
            "source": source,
            "hypotheses": [{"text": x, "score": s} for x, s in zip(texts, old, strict=True)],
        }
        for source, texts, old in zip(SOURCES, TEXTS, OLD, strict=True)
    ]
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
        assert (line["id"], line["translation"], line["score"]) == (
            before["id"],
            expected[0][0],
            found[0],
        )


@pytest.mark.parametrize(
    "hypotheses", [None, [], ["a"], [{"text": "a"}], [{"text": 1, "score": 0}]]
)
def test_a_line_without_scored_hypotheses_is_named(answered, reversal_run, hypotheses):
    right = {"source": "a", "hypotheses": [{"text": "a", "score": 0}]}
    content = "\n".join(map(json.dumps, [right, right | {"hypotheses": hypotheses}])).encode()
    with pytest.raises(UserError, match=r'line 2: expected "hypotheses" of --mode=translate with'):
        answered("rescore", reversal_run, content)
