"""BatchDecoder: few static shapes, padded rows, stages, limits, hypotheses of ids."""

import collections
import time

import jax
import numpy as np
import pytest
from helpers import reversal
from helpers.decoders import DECODE, LINES, METHODS, build, make_batch_decoder, parts

from transformer.data import tokenizer
from transformer.decoding import beam_search, compiled
from transformer.decoding.batch_decoder import Part
from transformer.decoding.compiled import proceed, resize, start


@pytest.mark.slow
def test_few_shapes_are_compiled(untrained):
    """For any number and length of lines, any number of translators and workers."""
    model, params = untrained
    options = {"beam_width": 2, "max_length": 32, "batch_tokens": 288, "extra_length": 2}

    def sizes():
        return np.array([function._cache_size() for function in (start, proceed, resize)])

    def compiled(seed, workers):
        for count in (1, 3, 9, 33):
            lines = reversal.sentences(count, seed=seed, shortest=1, longest=31)
            for longest in (3, 11, 32):
                cut = [line[: 2 * longest] for line in lines]
                decoder = build(model, **options, workers=workers)
                assert len(list(decoder.translate(params, cut))) == count
        return sizes() - before

    # A source of up to 16 ids with its extra_length takes 18 of batch_tokens, so 16 fit: 1, 4 or 16
    # rows, of 2, 4, 6, 8, 12 or 16 ids. One of up to 32 ids takes 34, so 8 fit: 1 or 4 rows, of 24
    # or 32 ids.
    starts = 3 * 6 + 2 * 2
    # Few rows have all the room that they can need from the start: 32 tokens, of the long ones 64.
    advances = 3 + 2
    resizes = 1  # from 16 rows to 4
    # The cache counts 4 x 32 twice: its bounds come from NumPy, or from a batch that has shrunk.
    bounds = np.array([starts, advances + 1, resizes])

    before = sizes()
    lines = [" ".join("a" * n) for n in range(16, 32)]
    list(build(model, **options, chunk_lines=1).translate(params, lines))
    assert 0 < (sizes() - before)[0] <= 2  # 24 and 32 ids
    once = compiled(0, 1)
    assert (once > 0).all()
    assert (once <= bounds).all()
    assert (compiled(0, 1) == once).all()
    compiled(1, 2)
    assert (compiled(2, 3) <= bounds).all()


def test_workers_compile_each_shape_once(untrained, monkeypatch):
    """While one of three runs a shape for the first time, the others wait; stages that do nothing.

    Each batch starts with room for 64 tokens and grows to 128, where all end.
    """
    num_running, seen = collections.Counter(), collections.Counter()

    def run(*shape):
        num_running[shape] += 1
        if not seen[shape]:
            time.sleep(0.1)  # so that another worker gets here, if it may
            assert num_running[shape] == 1
        seen[shape] += 1

    def start(params, source_BS, keys, *, room, **_):
        run("start", room)
        return {}, beam_search.initial_state({}, len(source_BS), 1, room), np.zeros(len(source_BS))

    def proceed(params, memory, state, bounds, rng_B, **_):
        B, _, room = state.tokens_BWT.shape
        run("proceed", room)
        tokens_BWT = np.full((B, 1, room), tokenizer.END)
        active_B = np.full(B, room < 128)
        return state._replace(
            t=room, tokens_BWT=tokens_BWT, scores_BW=np.zeros((B, 1)), active_B=active_B
        )

    def resize(search, rows, *, room):
        run("resize", room)
        return search._replace(state=beam_search.initial_state({}, len(rows), 1, room))

    for stage in (start, proceed, resize):
        monkeypatch.setattr(compiled, stage.__name__, stage)
    find = make_batch_decoder(
        untrained[0], beam_width=1, extra_length=80, batch_tokens=400, workers=3
    )
    assert find(untrained[1], parts(*[9] * 12)) == [[([], 0.0)]] * 12
    stages = [("start", 64), ("proceed", 64), ("resize", 128), ("proceed", 128)]
    assert seen == dict.fromkeys(stages, 3)


@pytest.mark.slow
@pytest.mark.parametrize("extra_length", [3, 60])  # all the room from the start, or from 64 to 128
def test_an_output_is_at_most_its_source_and_extra_length_long(extra_length):
    """With an improbable end symbol the limit ends outputs; the room grows up to it."""
    model, params = reversal.untrained(num_layers=1, tied_embeddings="none")
    params["output_embedding"]["embedding"][20:28] *= 10  # outshine the end symbol's
    find = make_batch_decoder(model, beam_width=1, extra_length=extra_length)
    lengths = [len(ids) for [(ids, _)] in find(params, parts(1, 4, 9))]
    assert lengths == [1 + extra_length, 4 + extra_length, 9 + extra_length]


@pytest.mark.parametrize("method", METHODS)
def test_no_translation_is_shorter_than_min_length(method, untrained):
    model, params = untrained
    sources = reversal.ids([line for line in LINES if len(line.split()) == 11] + ["a", "c d"])
    asked = [Part(tuple(ids), random_key=(0, i)) for i, ids in enumerate(sources)]
    options = {"method": method, "num_hypotheses": 2}
    free = make_batch_decoder(model, **options)(params, asked)
    assert min(len(ids) for hypotheses in free[:-2] for ids, _ in hypotheses) < 10
    found = make_batch_decoder(model, min_length=10, **options)(params, asked)
    for part, hypotheses in zip(asked, found, strict=True):
        for ids, _ in hypotheses:
            assert 10 <= len(ids) <= max(10, len(part.source) - 1 + DECODE["extra_length"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "longest"),
    [({}, 9), ({}, 60), ({"extra_length": 50}, 9)]
    + [({"method": method, "num_hypotheses": 10}, 9) for method in METHODS[1:]],
    ids=str,
)
def test_no_search_is_larger_than_the_rehearsed_one(untrained, changes, longest):
    """At any stage, in rows x room and in rows x source length."""
    model, params = untrained
    options = {"beam_width": 2, "batch_tokens": 600, "extra_length": 2, "workers": 1}
    search = make_batch_decoder(model, **{**options, **changes})
    stage, sizes = search._proceed, []

    def record(params, memory, state, *arguments, **options):
        rows, _, room = state.tokens_BWT.shape
        sizes.append((rows * room, rows * jax.tree.leaves(memory)[0].shape[1]))
        return stage(params, memory, state, *arguments, **options)

    search._proceed = record
    lengths = np.random.default_rng(0).integers(1, longest + 1, 100).tolist()
    search.rehearse(params, lengths)
    rehearsed = np.max(sizes, axis=0)
    sizes.clear()
    search(params, [Part((5,) * (length - 1) + (tokenizer.END,)) for length in lengths])
    found = np.max(sizes, axis=0)
    assert (found <= rehearsed).all()
    assert rehearsed[1] == found[1]  # nothing is refused that would fit
