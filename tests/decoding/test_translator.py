"""Translator: known answers, odd lines, prefixes, samples; the same however lines are batched."""

import threading
import time

import jax
import numpy as np
import pytest
from helpers import decoders, reversal, tiny
from helpers.decoders import DECODE, FEW, LINES, PIECES, Echo, build, found_by

from transformer.data import tokenizer
from transformer.decoding import batch_sizes, sampling, translator
from transformer.decoding.batch_decoder import Part
from transformer.decoding.translator import Hypothesis, Request, Translator
from transformer.distributed import layout
from transformer.errors import UserError
from transformer.models.ensemble import Ensemble
from transformer.tasks import translation

# Accuracy


@pytest.mark.slow
def test_reversal_to_bleu_100():
    """Over several chunks and batches: as many lines out as in, in order, blank where blank."""
    lines = reversal.sentences(250, seed=2000)
    for blank in (0, 17, 18, 99, 100, 249):
        lines[blank] = "" if blank % 2 else "   "
    found = list(build().translate(reversal.parameters(), iter(lines)))
    expected = list(map(reversal.reverse, lines))
    assert found == expected
    assert translation.score(found, expected, tokenize="13a")["bleu"] == pytest.approx(100)


# Lines


def test_no_more_than_a_chunk_is_read_ahead(untrained):
    read = []

    def lines():
        for number in range(1000):
            read.append(number)
            yield "a b"

    found = build(untrained[0], chunk_lines=4, beam_width=1).translate(untrained[1], lines())
    for number, _ in zip(range(1, 18), found, strict=False):
        assert len(read) <= -(-number // 4) * 4


def test_reading_ahead_searches_the_next_chunk_before_it_answers(untrained, monkeypatch):
    """The first chunk is small. A malformed line is refused after the answers to those before."""
    monkeypatch.setattr(translator, "FIRST_CHUNK", 2)
    echo = build(untrained[0], Echo(), chunk_lines=3)

    def requests():
        yield from map(Request, "abcdefgh")
        raise UserError("line 9")

    answers = echo.hypotheses(untrained[1], requests(), read_ahead=True)
    done = []  # each answer, and how many lines are being searched when it is given
    with pytest.raises(UserError, match=r"\Aline 9\Z"):
        done.extend((line.text, len(echo.batch_decoder.seen)) for [line] in answers)
    assert done == [(letter, 5 if letter in "ab" else 8) for letter in "abcdefgh"]


def test_decomposed_text_is_searched_as_composed(untrained):
    echo = build(untrained[0], Echo())
    assert list(echo.translate(untrained[1], ["a ne\u0301", "\u1112\u1161\u11ab"])) == [
        "a né",
        "한",
    ]


def test_a_text_in_place_of_a_list_is_not_read_letter_by_letter(untrained):
    with pytest.raises(TypeError, match=r"\Aexpected a list of texts, .*: give \['a b'\]\Z"):
        next(build(untrained[0]).translate(untrained[1], "a b"))


def test_long_lines_make_small_chunks(untrained, monkeypatch):
    """So that memory is bounded by characters, too; the line that exceeds them is read ahead."""
    monkeypatch.setattr(batch_sizes, "CHUNK_TEXT", 100)
    read = []

    def lines():
        for number in range(1000):
            read.append(number)
            yield "a b " * (50 if number == 5 else 10)

    echo = build(untrained[0], Echo())
    found = echo.translate(untrained[1], lines())
    for number, line in zip(range(1, 18), found, strict=False):
        assert len(read) <= number + 2
        assert len(line.split()) == (100 if number == 6 else 20)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["beam", "sample"])
def test_progress_is_told_before_lines_are_given_out(method, untrained):
    """After each batch; in the end each line is counted once: blank, split or duplicate."""
    counts = []
    decoder = build(untrained[0], method=method, chunk_lines=9, batch_tokens=20)
    found = decoder.translate(untrained[1], LINES, counts.append)
    for number, _ in enumerate(found, start=1):
        assert sum(counts) == min(len(LINES), -(-number // 9) * 9)
    assert min(counts) >= 0
    assert sum(count > 0 for count in counts) > 2 * -(-len(LINES) // 9)
    counts.clear()
    list(decoder.translate(untrained[1], ["", " "], counts.append))
    assert sum(counts) == 2


def test_a_model_without_a_method_of_decoding_is_one_line(untrained, monkeypatch):
    model = untrained[0]
    monkeypatch.delattr(type(model), "step")
    with pytest.raises(UserError, match="Transformer cannot be decoded without the methods step,"):
        Translator(model, None, **DECODE)


def test_no_lines(untrained):
    assert list(build(untrained[0]).translate(untrained[1], [])) == []
    blank = ["", " ", "\t", "\u3000", "\x0c ", "\u00a0"]
    assert list(build(untrained[0]).translate(untrained[1], blank)) == [""] * len(blank)
    nothing = build(untrained[0], num_hypotheses=3).hypotheses(untrained[1], [Request(" ")])
    assert list(nothing) == [[Hypothesis("", 0.0)]]


@pytest.mark.parametrize(
    "text", ["나는", "日本語 🏠", "\t a \t", "a\u00a0b", "\x00", "\ufeffa", "\ufffd", "</s> <pad>"]
)
def test_any_text_gives_one_line(text, untrained):
    [found] = build(untrained[0], beam_width=1).translate(untrained[1], [text])
    assert "\n" not in found


def test_a_generated_line_break_breaks_no_line(untrained):
    spelt = [
        PIECES.processor.piece_to_id(p) for p in ("▁a", "<0x0A>", "▁b", "<0x0D>", "<0x0A>", "▁c")
    ]
    assert len(PIECES.decode([spelt])[0].splitlines()) > 1
    breaks = build(untrained[0], Echo())
    breaks._sources = lambda lines, numbers: [[[*spelt, tokenizer.END]] for _ in lines]
    found = list(breaks.translate(untrained[1], ["a", "b c"]))
    assert [text.split() for text in found] == [["a", "b", "c"]] * 2
    assert not set("\r\n") & set("".join(found))


def test_source_and_target_have_their_own_vocabulary(untrained):
    other = tokenizer.learn_pieces(
        ["x y z"] * 9, size=4 + 256 + 7, kind="bpe", character_coverage=1.0
    )
    both = tokenizer.Vocabulary(reversal.vocabulary().source, tokenizer.load(other, "other"))
    decoder = Translator(untrained[0], both, **DECODE)
    [answer] = both.target.encode(["z y x"])
    decoder.batch_decoder = Echo(answer=lambda part: [(answer[:-1], 0.0)])
    [[found]] = decoder.hypotheses(untrained[1], [Request("a b", "y x")])
    assert found.text == "z y x"
    [source] = reversal.ids(["a b"])
    [prefix] = both.target.encode(["y x"])
    assert decoder.batch_decoder.seen == [Part(tuple(source), tuple(prefix[:-1]))]


# Invariance: to batching, order, workers, devices


def same(found, expected):
    assert [[h.text for h in line] for line in found] == [
        [h.text for h in line] for line in expected
    ]
    for line, other in zip(found, expected, strict=True):
        assert [h.score for h in line] == pytest.approx([h.score for h in other], rel=1e-4)


BATCHINGS = [
    {"chunk_lines": 1},
    {"chunk_lines": 5},
    {"batch_tokens": 1},
    {"batch_tokens": 20},
    {"batch_tokens": 4000},
    {"workers": 2},
    {"workers": 3},
    {"workers": 3, "chunk_lines": 9, "batch_tokens": 100},
]


@pytest.fixture(scope="module")
def best(untrained):
    found = found_by(untrained, LINES, num_hypotheses=2)
    assert len({line[0].text for line in found}) > 10  # it does depend on the line
    return found


@pytest.mark.parametrize("workers", [1, 3])
def test_translations_do_not_depend_on_reading_ahead(workers, untrained, best, monkeypatch):
    """With the next chunk's search in the same pool; progress counts each line once."""
    monkeypatch.setattr(translator, "FIRST_CHUNK", 3)
    decoder = build(untrained[0], num_hypotheses=2, chunk_lines=9, workers=workers)
    counts = []
    requests = map(Request, LINES)
    hypotheses = decoder.hypotheses(untrained[1], requests, counts.append, read_ahead=True)
    same(list(hypotheses), best)
    assert sum(counts) == len(LINES)


def test_the_search_of_the_next_chunk_ends_with_its_caller(untrained, monkeypatch):
    """Of the 40 batches of the next chunk, no further one begins once the caller has stopped."""
    monkeypatch.setattr(translator, "FIRST_CHUNK", 1)
    decoder = build(untrained[0], batch_tokens=1)
    searched, search_batch = [], decoder.batch_decoder._search_batch

    def slow(params, batch):
        time.sleep(0.05)
        searched.append(batch)
        return search_batch(params, batch)

    decoder.batch_decoder._search_batch = slow
    lines = reversal.sentences(41, seed=0)
    hypotheses = decoder.hypotheses(untrained[1], map(Request, lines), read_ahead=True)
    next(hypotheses)
    hypotheses.close()
    count = len(searched)
    time.sleep(0.2)
    assert count == len(searched) < 20


@pytest.mark.parametrize("num_devices", [1, 8])
def test_after_an_error_no_batch_is_searched(num_devices, untrained):
    """Such as a signal to stop, which `report` raises; the batch that was begun is waited for."""
    model, params = untrained
    layouts = layout.make_layout("pmap", num_devices=num_devices)
    params = layout.gather_params(jax.device_put(params, layouts.replicated), layouts)
    decoder = decoders.make_batch_decoder(model, batch_tokens=1, workers=1)
    running, search_batch, stopping = [], decoder._search_batch, threading.Event()

    def watched(params, batch):
        running.append("begun")
        if len(running) > 1:  # however late the thread is that waits for the first
            stopping.wait(timeout=60)
        hypotheses = search_batch(params, batch)
        running.append("done")
        return hypotheses

    def stop(share):
        stopping.set()
        raise InterruptedError

    decoder._search_batch = watched
    with pytest.raises(InterruptedError):
        decoder.submit(params, decoders.parts(*[3] * 64)).finish(stop)
    begun = running.count("begun")
    assert begun == running.count("done") < 8
    time.sleep(0.1)
    assert running.count("begun") == begun


@pytest.mark.parametrize("workers", [1, 3])
def test_translations_do_not_depend_on_the_order_of_lines(workers, untrained, best):
    order = np.random.default_rng(0).permutation(len(LINES))
    found = found_by(untrained, [LINES[i] for i in order], num_hypotheses=2, workers=workers)
    same(found, [best[i] for i in order])


SAMPLE = {"method": "sample", "num_hypotheses": 4, "temperature": 0.5}


@pytest.fixture(scope="module")
def drawn(untrained):
    return found_by(untrained, LINES, **SAMPLE)


@pytest.fixture(params=["beam", "sample"])
def asked(request, best, drawn):
    """(changed keys, what LINES are translated to): the best hypotheses, or samples."""
    return {"beam": ({"num_hypotheses": 2}, best), "sample": (SAMPLE, drawn)}[request.param]


@pytest.mark.parametrize("changes", BATCHINGS, ids=str)
def test_translations_do_not_depend_on_how_lines_are_batched(changes, untrained, asked):
    same(found_by(untrained, LINES, **asked[0], **changes), asked[1])


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 8])
def test_devices_search_together_as_one_does(count, untrained, asked):
    """Also for a single line on eight devices."""
    model, params = untrained
    spread = layout.make_layout("pmap", num_devices=count)
    placed = jax.device_put(params, layout.state_shardings(params, spread))
    assert layout.num_devices(placed) == count
    changes, expected = asked
    for lines in (slice(None), slice(0, 1)):
        same(found_by((model, placed), LINES[lines], **changes), expected[lines])


def test_lines_of_a_text_are_translated_apart_as_together(untrained, asked):
    """As by several processes, each with a share of the lines."""
    changes, expected = asked
    for numbers in (range(1, len(LINES), 3), range(2, len(LINES), 3)):
        requests = [Request(LINES[i]) for i in numbers]
        found = build(untrained[0], **changes).hypotheses(untrained[1], requests, numbers=numbers)
        same(list(found), [expected[i] for i in numbers])


@pytest.mark.parametrize(("method", "searched"), [("beam", 3), ("sample", 7), ("mbr", 7)])
def test_equal_lines_are_searched_once_but_drawn_each(method, searched, untrained):
    echo = build(untrained[0], Echo(method))
    lines = ["a b", "c", "a b", "", "a b", "c", "c " * 15, "a b"]
    found = list(echo.translate(untrained[1], lines))
    assert [text.strip() for text in found] == [line.strip() for line in lines]
    assert len(echo.batch_decoder.seen) == len(set(echo.batch_decoder.seen)) == searched


def test_equal_lines_with_different_prefixes_are_searched_each(untrained):
    echo = build(untrained[0], Echo())
    list(echo.hypotheses(untrained[1], [Request("a b", p) for p in ("", "c", "d", "c")]))
    assert len(echo.batch_decoder.seen) == 3


def test_non_finite_scores_are_an_error(untrained):
    model, params = untrained
    wrong = jax.tree.map(lambda x: x * np.nan, params)
    with pytest.raises(FloatingPointError, match=r"\A.*non-finite.*parameters\Z"):
        list(build(model, beam_width=1).translate(wrong, ["a b"]))


# Hypotheses of beam search


@pytest.mark.parametrize("count", [1, 2, 4])
def test_as_many_hypotheses_as_are_asked_for(count, untrained, best):
    """The first is what `translate` gives."""
    found = found_by(untrained, FEW, num_hypotheses=count)
    assert max(map(len, found)) == count
    texts = list(build(untrained[0]).translate(untrained[1], FEW))
    assert [line[0].text for line in found] == texts
    assert texts == [best[LINES.index(line)][0].text for line in FEW]


def test_hypotheses_of_a_line_in_parts_are_those_of_its_parts(untrained):
    """The k-th texts are joined, the k-th scores added."""
    line = "a b c d e f g h a b c d e f g a a b"
    whole, first, second = found_by(untrained, [line, line[:29], line[30:]], num_hypotheses=2)
    assert len(whole) == min(len(first), len(second)) > 1
    for joined, a, b in zip(whole, first, second, strict=False):
        assert joined.text == f"{a.text} {b.text}"
        assert joined.score == pytest.approx(a.score + b.score, rel=1e-5)


def test_a_part_with_fewer_hypotheses_limits_its_line(untrained):
    def several(part):
        return [([5], -1.0 - k) for k in range(3 if len(part.source) == 16 else 2)]

    echo = build(untrained[0], Echo(answer=several), num_hypotheses=3)
    [found] = echo.hypotheses(untrained[1], [Request("a " * 18)])
    assert [h.score for h in found] == [-2.0, -4.0]


# Prefixes and lengths


PREFIXES = ["a", "h g", "abc", "é", "나는 é", "a b " * 8]  # the last two are over the limit


@pytest.mark.parametrize("method", ["beam", "sample"])
def test_every_translation_begins_with_its_prefix(method, untrained):
    """Also where the prefix is over the source's limit, and where the line is over-long."""
    lines = [("c d e", prefix) for prefix in PREFIXES] + [("c " * 18, "a b")]
    decoder = build(untrained[0], method=method, num_hypotheses=2)
    found = list(decoder.hypotheses(untrained[1], [Request(*line) for line in lines]))
    for (_, prefix), hypotheses in zip(lines, found, strict=True):
        for hypothesis in hypotheses:
            assert hypothesis.text.startswith(prefix.strip())
        [ids] = PIECES.encode([prefix])
        limit = 3 + DECODE["extra_length"]
        if len(ids) > limit:
            assert {hypothesis.text for hypothesis in hypotheses} == {prefix.strip()}


def test_a_prefix_over_max_length_is_refused(untrained):
    """With its line number, also in a later chunk."""
    decoder = build(untrained[0], Echo(), chunk_lines=2)
    requests = [Request("a")] * 2 + [Request("a", "b " * 16), Request("a", "b " * 17)]
    found = decoder.hypotheses(untrained[1], requests)
    next(found), next(found)
    with pytest.raises(ValueError, match=r"\Aline 4: .*17 pieces.*config\.decode\.max_length=16\Z"):
        next(found)


def test_only_the_first_part_has_the_prefix(untrained):
    echo = build(untrained[0], Echo("sample"))
    list(echo.hypotheses(untrained[1], [Request("c " * 40, "a b")]))
    prefix = tuple(PIECES.encode(["a b"])[0][:-1])
    assert [part.prefix for part in echo.batch_decoder.seen] == [prefix, (), ()]


def test_an_empty_prefix_is_as_none(untrained, best):
    decoder = build(untrained[0], num_hypotheses=2)
    for empty in ("", "  "):
        requests = [Request(line, empty) for line in FEW]
        found = list(decoder.hypotheses(untrained[1], requests))
        same(found, [best[LINES.index(line)] for line in FEW])


# Samples


def test_samples_are_seeded(untrained, drawn):
    same(found_by(untrained, LINES, **SAMPLE), drawn)
    lines = LINES[:8]
    other = found_by(untrained, lines, **SAMPLE, seed=1)
    for line, hypotheses, before in zip(lines, other, drawn, strict=False):
        assert (hypotheses != before) == bool(line.strip())
        assert (len(set(hypotheses)) > 1) == bool(line.strip())


def test_equal_lines_and_equal_parts_have_their_own_samples(untrained):
    found = found_by(untrained, ["e f g h a b c"] * 5, **SAMPLE)
    assert len({tuple(line) for line in found}) == 5
    echo = build(untrained[0], Echo("sample"))
    list(echo.translate(untrained[1], ["e f g " * 10]))
    first, second = echo.batch_decoder.seen
    assert first.source == second.source
    assert first.random_key != second.random_key


@pytest.mark.parametrize("utility", sampling.UTILITIES)
def test_mbr_ranks_its_samples_by_utility(utility, untrained):
    lines = ["a b c h h d e", "e f g h a b c"]
    samples = found_by(untrained, lines, method="sample", num_hypotheses=9)
    options = {"method": "mbr", "num_samples": 9, "utility": utility}
    found = found_by(untrained, lines, num_hypotheses=4, **options)
    for hypotheses, texts in zip(found, samples, strict=True):
        ranked = sampling.rank([sample.text for sample in texts], utility=utility)
        assert [h.text for h in hypotheses] == [text for text, _ in ranked[:4]]
        assert [h.score for h in hypotheses] == pytest.approx([score for _, score in ranked[:4]])
    best = list(build(untrained[0], **options).translate(untrained[1], lines))
    assert best == [hypotheses[0].text for hypotheses in found]


@pytest.mark.parametrize(("key", "most"), [("extra_length", 20), ("min_length", 35)])
@pytest.mark.parametrize("in_ensemble", [False, True])
def test_no_more_positions_than_were_learned(key, most, in_ensemble):
    model = tiny.model(positions="learned", max_positions=36)
    if in_ensemble:
        longer = tiny.model(positions="learned", max_positions=40)
        model = Ensemble((tiny.model(), model, longer))
    build(model, max_length=16, **{key: most})
    with pytest.raises(ValueError, match=r"\A.*max_positions=36.*decode\.extra_length.* 37\Z"):
        build(model, max_length=16, **{key: most + 1})


def test_there_are_no_more_hypotheses_than_beams_or_samples(untrained):
    with pytest.raises(ValueError, match=r"num_hypotheses=5.*config\.decode\.beam_width=4"):
        build(untrained[0], num_hypotheses=5)
    with pytest.raises(ValueError, match=r"num_hypotheses=5.*config\.decode\.num_samples=4"):
        build(untrained[0], method="mbr", num_samples=4, num_hypotheses=5)
    build(untrained[0], method="sample", num_hypotheses=5)  # as many as one likes
