"""Forced decoding gives the scores of beam search, and the log-probabilities of the logits."""

import json

import numpy as np
import pytest
from helpers import reversal

from configs import wmt_base
from transformer.data import tokenizer
from transformer.decoding import beam_search
from transformer.decoding.batch_decoder import BatchDecoder, Part
from transformer.families.scoring import score
from transformer.models.ensemble import Ensemble
from transformer.tasks import translation
from transformer.tasks.saved_model import SavedModel
from transformer.workdir import saved_config

PAIRS = [
    ("a b c", "c b a"),
    ("h", "h h g"),
    ("a b c d e f g h a b c d", "a"),
    ("b", "a b c d e f g h a b c d e f"),
    ("a b c", "c b a"),
    ("", "d"),
    ("d e", ""),
]


def options(**changes):
    config = wmt_base.get_config().decode
    config.update({**reversal.DECODE, **changes})
    return config


def random_run(ensemble=False):
    """A small model with random params and the toy task's vocabulary, or an ensemble of two."""
    models, params = zip(*(reversal.untrained(seed, num_layers=1) for seed in (0, 1)), strict=True)
    if not ensemble:
        return SavedModel(models[0], params[0], [7], 7, reversal.vocabulary())
    both = {"members_0": params[0], "members_1": params[1]}
    return SavedModel(Ensemble(models), both, [7], 7, reversal.vocabulary())


def numbered(pairs):
    return ((n, {"source": x, "target": y}) for n, (x, y) in enumerate(pairs, start=1))


def forced(run, pairs, **changes):
    return [result for _, result in score.forced(run, numbered(pairs), options(**changes))]


@pytest.mark.slow
@pytest.mark.parametrize("ensemble", [False, True], ids=["one", "ensemble"])
def test_ids_score_what_the_beam_search_gives_them(ensemble):
    """For sentences of several lengths and all W hypotheses, some cut off at their length limit."""
    run, chosen = random_run(ensemble), options(num_hypotheses=4)
    decoder = BatchDecoder(run.model, None, **chosen)
    sources = reversal.ids(reversal.sentences(6, seed=5))
    found = decoder(run.params, [Part(tuple(ids)) for ids in sources])
    pairs, expected = [], []
    for source, hypotheses in zip(sources, found, strict=True):
        assert len(hypotheses) > 1
        for ids, value in hypotheses:
            pairs.append((source, [*ids, tokenizer.END]))
            expected.append(value)
    token_log_probs = score.token_log_probs(run, pairs, chosen)
    log_probs = [log_probs_T.sum() for log_probs_T in token_log_probs]
    lengths = np.array([len(target) for _, target in pairs])
    kind, alpha = chosen.length_penalty, chosen.length_alpha
    penalties = np.asarray(beam_search.length_penalty(lengths, kind, alpha))
    assert len(set(lengths)) > 1
    np.testing.assert_allclose(np.array(log_probs) / penalties, expected, rtol=0, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes", [{"batch_tokens": 1}, {"batch_tokens": 8192}, {"chunk_lines": 3, "max_length": 256}]
)
def test_batches_and_order_change_nothing(changes):
    run = random_run()
    expected = forced(run, PAIRS)
    assert expected[0] == pytest.approx(expected[4], abs=1e-5)
    assert [one.length for one in expected] == [len(x) for x in reversal.ids(y for _, y in PAIRS)]
    order = [3, 0, 6, 2, 5, 1, 4]
    found = forced(run, [PAIRS[i] for i in order], **changes)
    for i, one in zip(order, found, strict=True):
        assert one == pytest.approx(expected[i], abs=1e-4)
    unpenalised = forced(run, PAIRS, length_penalty="none")
    assert [one.score for one in unpenalised] == pytest.approx([x.log_prob for x in expected])


def test_no_more_than_a_chunk_is_read_ahead():
    read = []

    def pairs():
        for number in range(1000):
            read.append(number)
            yield "a b", "b a"

    scored = score.forced(random_run(), numbered(pairs()), options(chunk_lines=4))
    for number, _ in zip(range(1, 14), scored, strict=False):
        assert len(read) <= -(-number // 4) * 4


def test_over_long_pairs_have_no_score(caplog):
    """A target may be as long as the longest translation."""
    pairs = [PAIRS[0], ("a " * 16, "b"), PAIRS[1], PAIRS[3], ("b", "a " * 20)]
    pairs += [("a " * 15, "a " * 19)]
    run = random_run()
    scores = forced(run, pairs, chunk_lines=2, max_length=16, extra_length=4)
    assert [np.isfinite(one.score) for one in scores] == [True, False, True, True, False, True]
    assert scores[1].score == scores[1].log_prob == scores[4].score == -np.inf
    assert [scores[1].length, scores[4].length] == [2, 21]
    assert scores[2] == pytest.approx(forced(run, PAIRS)[1], abs=1e-4)
    warnings = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert [warning.partition(":")[0] for warning in warnings] == ["line 2", "line 5"]
    assert "17 and 2 pieces, config.decode.max_length (and extra_length)" in warnings[0]
    assert "2 and 21 pieces" in warnings[1]
    assert all("allow 16 and 20:" in warning for warning in warnings)


@pytest.mark.slow
def test_a_score_a_line(answered, reversal_run):
    lines = [f"{source}\t{target}" for source, target in [*PAIRS, ("a " * 16, "b")]]
    out = answered("score", reversal_run, "\n".join(lines).encode())
    expected = forced(translation.load(saved_config.read_config(reversal_run), reversal_run), PAIRS)
    *found, end = out.split("\n")
    assert (len(found), end) == (len(lines), "")
    for text, one in zip(found, expected, strict=False):
        assert float(text) == pytest.approx(one.score, abs=1e-5)
        assert len(text.partition(".")[2]) == 6
    assert found[-1] == "-inf"
    assert float(found[0]) > -0.1 > -1 > float(found[1])
    assert answered("score", reversal_run, b"") == ""
    # JSON objects; their further keys stay.
    asked = [
        {"source": "a b c", "target": "c b a", "id": [1, {"나": None}]},
        {"target": "c\tb", "source": "a\tb", "score": "old"},
    ]
    content = "\n".join(map(json.dumps, asked)).encode()
    out = answered("score", reversal_run, content, **{"translate.format": "json"})
    answers = list(map(json.loads, out.splitlines()))
    assert answers[0].keys() == {"source", "target", "id", "score", "log_prob", "length"}
    for one, before in zip(answers, asked, strict=True):
        assert {**one, **before} | {"score": 0} == one | {"score": 0}
        assert one["score"] == pytest.approx(one["log_prob"] / ((5 + one["length"]) / 6) ** 0.6)
    assert answers[0]["length"] == 4
    assert answers[0]["score"] == pytest.approx(float(found[0]), abs=1e-5)
