"""The path of a beam against the search itself, and from step to step."""

import pytest
from helpers import decoders

from transformer import registry
from transformer.data.tokenizer import END
from transformer.decoding.batch_decoder import Part
from transformer.tools.pages.beam_view import beam_path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "count", "penalty", "alpha", "least"),
    [(1, 1, "gnmt", 0.6, 0), (3, 1, "power", 1.0, 0), (4, 4, "none", 0.0, 2)],
)
def test_the_path_ends_where_the_search_does(untrained, width, count, penalty, alpha, least):
    """With the same hypotheses and scores, though the search has other rows and stages."""
    model, params = untrained
    options = {"beam_width": width, "length_penalty": penalty, "length_alpha": alpha}
    options |= {"num_hypotheses": count, "min_length": least}
    options |= {"rules": "no_repeat_ngram(size=1)" if least and registry.RULES else ""}
    decoder = decoders.make_batch_decoder(model, **options)
    parts = [Part((*ids, END)) for ids in [(5,), (6, 7, 8, 5), (9, 5, 6, 6, 7, 8, 9)]]
    parts += [parts[1]._replace(prefix=(7, 8))]
    lengths = set()
    for part, expected in zip(parts, decoder(params, parts), strict=True):
        steps = list(beam_path(decoder, params, part))
        lengths.add(len(steps))
        assert len(expected) == count
        returned = steps[-1].finished[:count]
        assert [ids for ids, _ in returned] == [(*ids, END) for ids, _ in expected]
        scores = [score for _, score in returned]
        assert scores == pytest.approx([score for _, score in expected], abs=1e-5)
    assert len(lengths) > 1


def test_fates_agree_from_step_to_step(untrained):
    model, params = untrained
    decoder = decoders.make_batch_decoder(model, beam_width=3, length_alpha=1.0)
    steps = list(beam_path(decoder, params, Part((6, 7, 8, 5, 9, END))))
    alive, finished = {(): 0.0}, {}
    for t, step in enumerate(steps):
        assert {ids[:-1] for ids, *_ in step.candidates} <= alive.keys()
        log_probs = [candidate.log_prob for candidate in step.candidates]
        assert log_probs == sorted(log_probs, reverse=True)
        for ids, log_prob, score, fate in step.candidates:
            assert len(ids) == t + 1
            assert log_prob <= alive[ids[:-1]]
            assert fate == "dropped" or (fate == "finished") == (ids[-1] == END)
            assert score == pytest.approx(log_prob / ((6 + t) / 6), rel=1e-6)
            finished |= {ids: score} if fate == "finished" else {}
        alive = {ids: p for ids, p, _, fate in step.candidates if fate == "lives"}
        assert len(alive) == 3 or step is steps[-1]  # at the limit all end
        best = sorted(finished.items(), key=lambda hypothesis: -hypothesis[1])[:3]
        assert [ids for ids, _ in step.finished] == [ids for ids, _ in best]
    assert len(steps[-1].finished) == 3
