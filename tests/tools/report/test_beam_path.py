"""The path of a beam against the search itself, and against a path computed by hand."""

import math

import jax.numpy as jnp
import pytest
from helpers import decoders

from transformer.data.tokenizer import END, START
from transformer.decoding.parts import Part
from transformer.tools.report.beam_path import beam_path


@pytest.fixture(scope="module")
def untrained():
    """(model, params) of `decoders.untrained_model`."""
    return decoders.untrained_model()


@pytest.mark.parametrize(
    ("width", "count", "penalty", "alpha", "least"),
    [(1, 1, "gnmt", 0.6, 0), (3, 1, "power", 1.0, 0), (4, 4, "none", 0.0, 2)],
)
def test_the_path_ends_where_the_search_does(untrained, width, count, penalty, alpha, least):
    """With the same hypotheses and scores, though the search has other rows and stages."""
    model, params = untrained
    options = {"beam_width": width, "length_penalty": penalty, "length_alpha": alpha}
    options |= {"num_hypotheses": count, "min_length": least}
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


THE, A, CAT, DOG = 4, 5, 6, 7
NEXT = {  # P(next token | token)
    START: {THE: 0.6, A: 0.3, END: 0.1},
    THE: {CAT: 0.5, END: 0.4, DOG: 0.1},
    A: {DOG: 0.6, END: 0.3, CAT: 0.1},
    CAT: {END: 0.9, A: 0.1},
    DOG: {END: 0.9, A: 0.1},
}


class Bigrams:
    """A translation model that ignores the source."""

    dtype = "float32"

    @staticmethod
    def apply(variables, *arguments, method, train=False):
        if method == "encode":
            return arguments[0]
        if method == "prepare":
            return arguments[0], jnp.zeros((len(arguments[0]), arguments[3]))
        tokens_BWT, _, _, cache = arguments
        table = [
            [math.log(NEXT.get(token, {}).get(next_token, 1e-9)) for next_token in range(8)]
            for token in range(8)
        ]
        return jnp.array(table)[tokens_BWT], cache

    @staticmethod
    def reorder(cache, parents_BW):
        return cache

    @staticmethod
    def grow(cache, room):
        return cache


def test_a_path_by_hand():
    """Probabilities, without a length penalty: what lives, what is finished, what is dropped."""
    decoder = decoders.make_batch_decoder(
        Bigrams(), beam_width=2, length_penalty="none", length_alpha=0.0, num_hypotheses=2
    )
    steps = list(beam_path(decoder, {"none": jnp.zeros(1)}, Part((THE, END))))
    expected = [
        # The end symbol, third, is not among the best W = 2.
        {(THE,): (0.6, "lives"), (A,): (0.3, "lives"), (END,): (0.1, "dropped")},
        {
            (THE, CAT): (0.3, "lives"),
            (THE, END): (0.24, "finished"),
            (A, DOG): (0.18, "lives"),
            (A, END): (0.09, "dropped"),
        },
        # "A dog" ends among the best two, but two finished hypotheses are better.
        {
            (THE, CAT, END): (0.27, "finished"),
            (A, DOG, END): (0.162, "dropped"),
            (THE, CAT, A): (0.03, "lives"),
            (A, DOG, A): (0.018, "lives"),
        },
    ]
    for step, right in zip(steps, expected, strict=True):
        considered = {ids: (math.exp(p), fate) for ids, p, _, fate in step.candidates if p > -10}
        assert {ids: fate for ids, (_, fate) in considered.items()} == {
            ids: fate for ids, (_, fate) in right.items()
        }
        for ids, (probability, _) in right.items():
            assert considered[ids][0] == pytest.approx(probability, rel=1e-4)
    assert [[ids for ids, _ in step.finished] for step in steps] == [
        [],
        [(THE, END)],
        [(THE, CAT, END), (THE, END)],
    ]


def test_samples_have_no_path(untrained):
    decoder = decoders.make_batch_decoder(untrained[0], method="sample")
    with pytest.raises(ValueError, match="must be 'beam', found 'sample'"):
        next(beam_path(decoder, untrained[1], Part((5, END))))
