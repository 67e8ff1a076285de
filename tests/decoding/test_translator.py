"""Translator: known answers, odd and over-long lines, prefixes; any batches of lines."""

import functools
import time

import jax
import numpy as np
import pytest
from helpers import reversal, tiny
from helpers.cases import slow_but
from helpers.decoders import DECODE, FEW, LINES, METHODS, PIECES, Echo, build, hypotheses_of

from transformer import registry
from transformer.data import tokenizer
from transformer.decoding import translator
from transformer.decoding.batch_decoder import Part
from transformer.decoding.translator import Hypothesis, Request, Translator
from transformer.distributed import layout
from transformer.errors import UserError
from transformer.models.ensemble import Ensemble
from transformer.tasks import translation


@pytest.mark.slow
def test_reversal_to_bleu_100(caplog):
    """Over several chunks and batches: blank where blank, an over-long line in parts."""
    lines = reversal.sentences(250, seed=2000)
    for blank in (0, 17, 18, 99, 100, 249):
        lines[blank] = "" if blank % 2 else "   "
    expected = list(map(reversal.reverse, lines))
    letters = reversal.sentences(1, seed=3000, shortest=40, longest=40)[0].split()
    lines[200] = " ".join(letters)
    parts = letters[:15], letters[15:30], letters[30:]
    expected[200] = " ".join(reversal.reverse(" ".join(part)) for part in parts)
    translations = list(build().translate(reversal.parameters(), iter(lines)))
    assert translations == expected
    assert translation.score(translations, [expected], tokenize="13a")["bleu"] == pytest.approx(100)
    [warning] = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert warning.startswith("line 201: 41 pieces are more than config.decode.max_length=16:")
    assert warning.endswith("in 3 parts")


@pytest.mark.parametrize("read_ahead", [False, True])
def test_a_chunk_is_read_when_it_is_needed(read_ahead, untrained):
    """Reading ahead, a chunk earlier, and it is searched before the one before is answered."""
    read, echo = [], build(untrained[0], Echo(), chunk_lines=4)

    def requests():
        for number in range(1000):
            read.append(number)
            yield Request("a b")

    answers = echo.hypotheses(untrained[1], requests(), read_ahead=read_ahead)
    for number, _ in zip(range(17), answers, strict=False):
        assert len(read) == (number // 4 + 1 + read_ahead) * 4


@pytest.mark.slow
def test_progress_is_told_before_lines_are_given_out(untrained, alone):
    """After each batch; in the end each line is counted once: blank, split or duplicate."""
    counts = []
    decoder = build(untrained[0], **alone[0], chunk_lines=9, batch_tokens=1)
    translations = decoder.translate(placed(untrained[1], 1), LINES, counts.append)
    for number, _ in enumerate(translations, start=1):
        assert sum(counts) == min(len(LINES), -(-number // 9) * 9)
    assert min(counts) >= 0
    assert sum(count > 0 for count in counts) > 2 * -(-len(LINES) // 9)
    counts.clear()
    list(decoder.translate(untrained[1], ["", " "], counts.append))
    assert sum(counts) == 2


def test_blank_lines_and_none(untrained):
    assert list(build(untrained[0]).translate(untrained[1], [])) == []
    blank = ["", " ", "\t", "\u3000", "\x0c ", "\u00a0"]
    hypotheses = hypotheses_of(untrained, blank, num_hypotheses=3)
    assert hypotheses == [[Hypothesis("", 0.0)]] * len(blank)


def test_a_generated_line_break_breaks_no_line(untrained):
    spelt = ("▁a", "<0x0A>", "▁b", "<0x0D>", "<0x0A>", "▁c")
    ids = list(map(PIECES.processor.piece_to_id, spelt))
    assert len(PIECES.decode([ids])[0].splitlines()) > 1
    echo = Echo(lambda part: [(ids, 0.0)])
    [translated] = build(untrained[0], echo).translate(untrained[1], ["a"])
    assert translated.split() == ["a", "b", "c"]
    assert not set("\r\n") & set(translated)


def test_source_and_target_have_their_own_vocabulary(untrained):
    other = tokenizer.learn_pieces(
        ["x y z"] * 9, size=4 + 256 + 7, kind="bpe", character_coverage=1.0
    )
    both = tokenizer.Vocabulary(reversal.vocabulary().source, tokenizer.load(other, "other"))
    decoder = Translator(untrained[0], both, **DECODE)
    [answer] = both.target.encode(["z y x"])
    decoder.batch_decoder = Echo(lambda part: [(answer[:-1], 0.0)])
    [[hypothesis]] = decoder.hypotheses(untrained[1], [Request("a b", "y x")])
    assert hypothesis.text == "z y x"
    [source] = reversal.ids(["a b"])
    [prefix] = both.target.encode(["y x"])
    assert decoder.batch_decoder.seen == [Part(tuple(source), tuple(prefix[:-1]))]


# Over-long lines


@pytest.mark.parametrize("max_length", [16, 19])
@pytest.mark.parametrize(
    "line", ["abc " * 20, "a" * 60, "a" * 60 + " b c", "b c " + "a" * 60, "aabb cc dd " * 9]
)
def test_parts_are_cut_before_words_and_lose_nothing(line, max_length, untrained):
    echo = build(untrained[0], Echo(), max_length=max_length)
    [translated] = echo.translate(untrained[1], [line])
    seen = [part.source for part in echo.batch_decoder.seen]
    assert translated == line.strip()
    for part in seen:
        assert 1 < len(part) <= max_length
        assert part.index(tokenizer.END) == len(part) - 1
    if max(map(len, line.split())) < max_length // 2:
        assert all(PIECES.pieces(part[:1])[0].startswith("▁") for part in seen)


def test_each_part_has_the_tag_of_its_line():
    options = {"size": 4 + 256 + 8, "kind": "bpe", "character_coverage": 1.0}
    pieces = tokenizer.load(tokenizer.learn_pieces(["a b c"] * 9, tags=("<2de>",), **options), "")
    [ids] = pieces.encode(["<2de> " + "a b c " * 9])
    parts = [pieces.pieces(part) for part in translator.split(ids, pieces, 16)]
    assert [len(part) for part in parts] == [16, 15]
    assert all(part[0] == "▁<2de>" and part.count("▁<2de>") == 1 for part in parts)
    assert parts[0][1:-1] + parts[1][1:] == pieces.pieces(ids[1:])


@pytest.mark.slow
def test_the_time_of_a_line_does_not_grow_with_the_square_of_its_parts(untrained):
    letters = reversal.sentences(1, seed=1, shortest=1_200_000, longest=1_200_000)
    echo = build(untrained[0], Echo())
    start = time.process_time()
    assert list(echo.translate(untrained[1], letters)) == letters
    # Comparing all pairs of parts would take a minute.
    assert len(echo.batch_decoder.seen) > 70_000
    assert time.process_time() - start < 20


def test_hypotheses_of_a_line_in_parts_are_those_of_its_parts(untrained):
    """The k-th texts are joined, the k-th scores added; the part with the fewest limits them."""
    line = "a b c d e f g h a b c d e f g a a b"
    whole, first, second = hypotheses_of(untrained, [line, line[:29], line[30:]], num_hypotheses=2)
    assert len(whole) == min(len(first), len(second)) > 1
    for joined, a, b in zip(whole, first, second, strict=False):
        assert joined.text.replace(" ", "") == (a.text + b.text).replace(" ", "")
        assert joined.score == pytest.approx(a.score + b.score, rel=1e-5)
    several = lambda part: [([5], -1.0 - k) for k in range(3 if len(part.source) == 16 else 2)]
    echo = build(untrained[0], Echo(several), num_hypotheses=3)
    [hypotheses] = echo.hypotheses(untrained[1], [Request("a " * 18)])
    assert [h.score for h in hypotheses] == [-2.0, -4.0]


# Invariance: to batching, order, workers, devices


def same(hypotheses, expected):
    assert [[h.text for h in line] for line in hypotheses] == [
        [h.text for h in line] for line in expected
    ]
    for line, other in zip(hypotheses, expected, strict=True):
        assert [h.score for h in line] == pytest.approx([h.score for h in other], rel=1e-4)


def placed(params, devices):
    spread = layout.make_layout("pmap", num_devices=devices)
    return jax.device_put(params, layout.state_shardings(params, spread))


# Some lines have a prefix, longer than many outputs.
REQUESTS = [Request(line, "" if i % 4 else "h g f e d c b a h g") for i, line in enumerate(LINES)]


@pytest.fixture(scope="module", params=METHODS)
def alone(request, untrained):
    """(changed keys, what each of REQUESTS gets by itself): the best hypotheses, or samples."""
    changes = {"method": request.param, "num_hypotheses": 2, "temperature": 0.5}
    decoder = build(untrained[0], **changes, batch_tokens=1)
    search = functools.partial(decoder.hypotheses, placed(untrained[1], 1))
    hypotheses = [next(search([one], numbers=[i])) for i, one in enumerate(REQUESTS)]
    assert len({line[0].text for line in hypotheses}) > 10  # it does depend on the line
    return changes, hypotheses


WAYS = [
    ({"batch_tokens": 1}, 1),
    ({"batch_tokens": 4000}, 1),
    ({"workers": 3, "chunk_lines": 9, "batch_tokens": 100}, 1),
    ({"workers": 2, "chunk_lines": 5}, 2),
    ({"chunk_lines": 1}, 8),  # a single line on eight devices
    ({}, 8),
]


@pytest.mark.parametrize(("changes", "devices"), slow_but(WAYS, *WAYS[:3]), ids=str)
def test_each_line_of_many_is_translated_as_alone(changes, devices, untrained, alone):
    """Of a share of a text's lines, as a process has them, in any order."""
    order = np.random.default_rng(0).permutation(len(LINES))[: 3 * len(LINES) // 4]
    params = placed(untrained[1], devices)
    assert layout.num_devices(params) == devices
    (keys, expected), counts = alone, []
    decoder = build(untrained[0], **keys, **changes)
    requests = [REQUESTS[i] for i in order]
    hypotheses = decoder.hypotheses(params, requests, counts.append, numbers=order, read_ahead=True)
    same(list(hypotheses), [expected[i] for i in order])
    assert sum(counts) == len(order)


@pytest.mark.parametrize("method", registry.METHODS)
def test_equal_lines_are_searched_once_but_drawn_each(method, untrained):
    """Unless they have different prefixes, or the parts of a line are equal."""
    echo = build(untrained[0], Echo(), method=method)
    lines = ["a b", "c", "a b", "", "a b", "c", "c " * 15, "a b"]
    requests = [*map(Request, lines), Request("a b", "c"), Request("a b", "d")]
    translations = [line[0].text for line in echo.hypotheses(untrained[1], requests)]
    assert translations == [request.source.strip() for request in requests]
    searched = 9 if echo.method.draws else 5
    assert len(echo.batch_decoder.seen) == len(set(echo.batch_decoder.seen)) == searched


def test_non_finite_scores_are_an_error(untrained):
    model, params = untrained
    wrong = jax.tree.map(lambda x: x * np.nan, params)
    for method in METHODS:
        with pytest.raises(UserError, match=r"\A.*non-finite.*parameters\Z"):
            list(build(model, method=method).translate(wrong, ["a b"]))


@pytest.mark.parametrize("count", [1, 4])
def test_as_many_hypotheses_as_are_asked_for(count, untrained):
    """The first is what `translate` gives; a blank prefix is as none."""
    hypotheses = hypotheses_of(untrained, FEW, num_hypotheses=count)
    assert max(map(len, hypotheses)) == count
    decoder = build(untrained[0], num_hypotheses=count)
    blank = decoder.hypotheses(untrained[1], [Request(line, "  ") for line in FEW])
    same(list(blank), hypotheses)
    texts = list(build(untrained[0]).translate(untrained[1], FEW))
    assert [line[0].text for line in hypotheses] == texts


PREFIXES = ["a", "h g", "abc", "é", "나는 é", "a b " * 8]  # the last two are over the limit


@pytest.mark.parametrize("method", METHODS)
def test_every_translation_begins_with_its_prefix(method, untrained):
    """Also where the prefix is over the source's limit, and where the line is over-long."""
    lines = [("c d e", prefix) for prefix in PREFIXES] + [("c " * 18, "a b")]
    decoder = build(untrained[0], method=method, num_hypotheses=2)
    hypotheses_by_line = list(decoder.hypotheses(untrained[1], [Request(*line) for line in lines]))
    for (_, prefix), hypotheses in zip(lines, hypotheses_by_line, strict=True):
        for hypothesis in hypotheses:
            assert hypothesis.text.startswith(prefix.strip())
        [ids] = PIECES.encode([prefix])
        limit = 3 + DECODE["extra_length"]
        if len(ids) > limit:
            assert {hypothesis.text for hypothesis in hypotheses} == {prefix.strip()}


def test_only_the_first_part_has_the_prefix(untrained):
    echo = build(untrained[0], Echo())
    list(echo.hypotheses(untrained[1], [Request("a b c d e f g h " * 5, "a b")]))
    prefix = tuple(PIECES.encode(["a b"])[0][:-1])
    assert [part.prefix for part in echo.batch_decoder.seen] == [prefix, (), ()]


@pytest.mark.parametrize(("key", "most"), [("extra_length", 20), ("min_length", 35)])
@pytest.mark.parametrize("in_ensemble", [False, True])
def test_no_more_positions_than_were_learned(key, most, in_ensemble):
    model = tiny.model(positions="learned", max_positions=36)
    if in_ensemble:
        longer = tiny.model(positions="learned", max_positions=40)
        model = Ensemble((tiny.model(), model, longer))
    build(model, max_length=16, **{key: most})
    with pytest.raises(UserError, match=r"\A.*max_positions=36.*decode\.extra_length.* 37\Z"):
        build(model, max_length=16, **{key: most + 1})


def test_mistakes_are_one_line(untrained, monkeypatch):
    model, params = untrained
    with pytest.raises(UserError, match=r"num_hypotheses=5.*config\.decode\.beam_width=4"):
        build(model, num_hypotheses=5)
    # A prefix with its line number, also in a later chunk.
    requests = [Request("a")] * 2 + [Request("a", "b " * 16), Request("a", "b " * 17)]
    hypotheses = build(model, Echo(), chunk_lines=2).hypotheses(params, requests)
    next(hypotheses), next(hypotheses)
    with pytest.raises(UserError, match=r"\Aline 4: .*17 pieces.*config\.decode\.max_length=16\Z"):
        next(hypotheses)
    with pytest.raises(TypeError, match=r"\Aexpected a list of texts, .*: give \['a b'\]\Z"):
        next(build(model).translate(params, "a b"))
    monkeypatch.delattr(type(model), "step")
    with pytest.raises(UserError, match="Transformer cannot be decoded without the methods step,"):
        Translator(model, None, **DECODE)
