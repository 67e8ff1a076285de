"""Rules and their methods against brute force, over a model that is a table."""

import functools
import itertools
import json
import re

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import decoders, table_model, tiny
from helpers.table_model import bounds, hypotheses, initial_state, table_log_probs, table_step

import transformer
from transformer.data.tokenizer import END, PAD, START, UNKNOWN
from transformer.decoding import beam_search
from transformer.decoding.translator import Request
from transformer.errors import UserError
from transformer.families.rules import diverse, forbidden, repeats, terminology

# Many spellings of a few texts.
TEXTS = ["", "", "", "", " c", " ", "c", "at", "a", "t", "."]
V, NEVER, LIMIT = len(TEXTS), (PAD, UNKNOWN, START), 3
TOKENS = range(START + 1, V)
WIDTH = 400  # over the number of texts of LIMIT pieces
BY_TERMS = {"method": "terminology"}


def text_of(ids):
    return "".join(TEXTS[i] for i in ids)


def search(tables, method=beam_search, *, width, limits=None, phrases=None, **options):
    """The finished hypotheses of each table, [(ids with the end symbol, log P)]."""
    options = {"penalty": "none", "alpha": 0.0, "never": NEVER} | options

    @tiny.jit
    def found(tables):
        kept = bounds(limits or [LIMIT] * len(tables), LIMIT + 1)._replace(required_BPL=phrases)
        state = initial_state(tables, width, LIMIT + 1)
        final = table_model.search(method, table_step, tables, state, kept, **options)
        return final.tokens_BWT, final.scores_BW

    return [hypotheses(*x) for x in zip(*found(tables), strict=True)]


def every_hypothesis(table, rule=lambda log_probs, ids: log_probs):
    """{ids with the end symbol: log P}, where rule(log P of all tokens, ids before) changes it."""
    following = functools.cache(lambda ids: rule(table_log_probs(table, ids), ids))
    found = {}
    for length in range(LIMIT + 1):
        for ids in itertools.product(TOKENS, repeat=length):
            ended = (*ids, END)
            total = sum(following(ended[:t])[ended[t]] for t in range(length + 1))
            if total > -np.inf:
                found[ended] = total
    return found


def without_repeats(size, log_probs, ids):
    followed = {
        ids[i + size - 1]
        for i in range(len(ids) - size + 1)
        if ids[i : i + size - 1] == ids[len(ids) - size + 1 :]
    }
    return np.where(np.isin(np.arange(V), [*followed]), -np.inf, log_probs)


def penalised(penalty, log_probs, ids):
    return np.where(np.isin(np.arange(V), ids), penalty * log_probs, log_probs)


def without(pattern, log_probs, ids):
    """No token after which the text has the pattern, whatever letters follow."""
    texts = [text_of((*ids, i)) + ("" if i == END else "x") for i in range(V)]
    return np.where([bool(re.search(pattern, x)) for x in texts], -np.inf, log_probs)


def forbidding(phrases, pattern):
    return forbidden.automaton(phrases, TEXTS), functools.partial(without, pattern)


RULES = {
    "no token twice": (repeats.NoRepeatNgram(1), functools.partial(without_repeats, 1)),
    "no pair twice": (repeats.NoRepeatNgram(2), functools.partial(without_repeats, 2)),
    "repetition": (repeats.Repetition(1.7), functools.partial(penalised, 1.7)),
    "words": forbidding(["cat", "c at"], r"(?<!\w)(cat|c at)(?!\w)"),
    "beginnings": forbidding(["ca*", "t"], r"(?<!\w)(ca|t(?!\w))"),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_wide_beam_under_a_rule_is_brute_force(rule):
    every_table = table_model.tables(range(2), spread=1.5, size=V)
    of_library, plain = RULES[rule]
    results = search(every_table, width=WIDTH, rules=(of_library,), num_hypotheses=WIDTH)
    for found, table in zip(results, every_table, strict=True):
        assert dict(found) == pytest.approx(every_hypothesis(table, plain), abs=1e-5)


PHRASES = [[(8, 9)], [(4, 4), (7,)], [], [(5, 6, 5)]] * 5 + [[(8, 9), (8,)], [(8, 9), (9,)]] * 2


def padded(phrases, count=2, longest=4):
    array = np.zeros((len(phrases), count, longest), np.int32)
    for row, of_row in zip(array, phrases, strict=True):
        for place, ids in zip(row, of_row, strict=False):
            place[: len(ids)] = ids
    return jnp.array(array)


def has(ids, phrases):
    return all(any(ids[i : i + len(x)] == x for i in range(len(ids))) for x in phrases)


def test_a_wide_beam_with_terms_is_brute_force():
    every_table = table_model.tables(range(4), spread=1.5, size=V)
    options = {"phrases": padded(PHRASES[:4]), "num_hypotheses": WIDTH}
    results = search(every_table, terminology, width=WIDTH, **options)
    for found, table, phrases in zip(results, every_table, PHRASES, strict=False):
        expected = every_hypothesis(table).items()
        expected = {ids: score for ids, score in expected if has(ids, phrases)}
        assert dict(found) == pytest.approx(expected, abs=1e-5)


def test_a_term_may_begin_another_but_is_no_part_of_its_word():
    """As "eat" and "eaters": piece 8 goes on with a word."""
    every_table = table_model.tables(range(1), spread=1.5, size=V)
    options = {"phrases": padded([[(6, END), (6, 8, END)]]), "num_hypotheses": WIDTH}
    options["continues"] = tuple(i == 8 for i in range(V))
    [found] = search(every_table, terminology, width=WIDTH, **options)
    expected = every_hypothesis(every_table[0])
    assert dict(found) == pytest.approx(
        {ids: expected[ids] for ids in [(6, 6, 8, END), (6, 8, 6, END)]}, abs=1e-5
    )


@pytest.mark.parametrize("width", [1, 2, 5])
def test_a_narrow_beam_has_all_terms_for_which_there_is_room(width):
    """Sentences without terms have beam search's hypotheses."""
    every_table = table_model.tables(range(24), spread=1.5, size=V)
    limits = [3, 3, 3, 2] * 5 + [3] * 4
    options = {"width": width, "limits": limits}
    plain = search(every_table, **options)
    results = search(every_table, terminology, phrases=padded(PHRASES), **options)
    for i, (found, phrases) in enumerate(zip(results, PHRASES, strict=True)):
        assert found
        if not phrases:
            assert dict(found) == pytest.approx(dict(plain[i]), abs=1e-5)
        fits = sum(map(len, phrases)) <= limits[i]
        assert all(has(ids, phrases) == fits for ids, _ in found), (phrases, found)


def plain_groups(table, width, groups, diversity):
    """Diverse beam search with lists: [(ids, score)] of each group."""
    size = width // groups
    live, finished = [[((), 0.0)] for _ in range(groups)], [[] for _ in range(groups)]
    for t in range(LIMIT + 1):
        chosen = []
        for g in range(groups):
            candidates = [
                ((*ids, i), total + table_log_probs(table, ids)[i] - diversity * chosen.count(i))
                for ids, total in live[g]
                for i in ([END] if t == LIMIT else [END, *TOKENS])
            ]
            candidates.sort(key=lambda x: -x[1])
            finished[g] += [x for x in candidates[:size] if x[0][-1] == END]
            live[g] = [x for x in candidates if x[0][-1] != END][:size]
            finished[g] = sorted(finished[g], key=lambda x: -x[1])[:size]
            if len(finished[g]) == size and live[g] and finished[g][-1][1] >= live[g][0][1]:
                live[g] = []
            chosen += [ids[-1] for ids, _ in live[g]]
    return finished


@pytest.mark.parametrize(("width", "groups"), [(3, 1), (4, 2), (6, 3)])
def test_groups_are_diverse_beam_search(width, groups):
    every_table = table_model.tables(range(24), spread=1.5, size=V)
    options = {"groups": groups, "diversity": 0.7, "num_hypotheses": width // groups}
    results = search(every_table, diverse, width=width, **options)
    for found, table in zip(results, every_table, strict=True):
        expected = [*itertools.chain(*plain_groups(table, width, groups, 0.7))]
        assert [ids for ids, _ in found] == [ids for ids, _ in expected]
        scores = [[score for _, score in x] for x in (found, expected)]
        np.testing.assert_allclose(*scores, rtol=0, atol=1e-5)


def translated(untrained, lines, **changes):
    """The best hypothesis of each line, {text: its terms}."""
    requests = [Request(line, terms=terms) for line, terms in lines.items()]
    translator = decoders.build(untrained[0], **changes)
    return [best for best, *_ in translator.hypotheses(untrained[1], requests)]


TERMS = [{"a": "e e d b e e d b"}, {"a": "b", "b c": "d a", "zz": "c"}, {}, {"b*": "a b c"}]


def test_translations_have_the_terms_of_their_lines(untrained, tmp_path):
    """In batches that shrink, of lines with and without terms, some too long; a file has more."""
    lines = {line: TERMS[i % 4] for i, line in enumerate(dict.fromkeys(decoders.LINES))}
    (tmp_path / "terms.tsv").write_text("e\tc c\na\tb b\n")
    file = {"e": "c c", "a": "b b"}
    options = {"method": "terminology", "terms": str(tmp_path / "terms.tsv"), "beam_width": 3}
    together = translated(untrained, lines, **options)
    for (line, terms), best in zip(lines.items(), together, strict=True):
        assert best.missing == ()
        assert all(x in best.text for x in terminology.phrases_of(file, line, terms)), (line, best)
    some = dict([*lines.items()][4:6])
    for alone, best in zip(translated(untrained, some, **options), together[4:6], strict=True):
        assert (alone.text, alone.score) == (best.text, pytest.approx(best.score, abs=1e-5))


def test_a_term_that_a_rule_forbids_is_missing(untrained, caplog):
    lines = {"b c": {"b": "d d", "c": "e"}, "c": {}}
    bests = translated(untrained, lines, method="terminology", rules="no_repeat_ngram(size=1)")
    assert "d d" in bests[0].missing
    assert not bests[1].missing
    assert "line 1: not in its translation: d d" in caplog.text


def test_a_letter_that_no_piece_has_cannot_be_forbidden(untrained, tmp_path):
    for wrong in ("☃", "a*b"):
        (tmp_path / "words.txt").write_text(f"\ufeffa b*\n\n{wrong}\n")
        said = re.escape(f"words.txt: '{wrong}' has a letter that is in no piece")
        with pytest.raises(UserError, match=said):
            decoders.build(untrained[0], rules="forbidden", forbidden=str(tmp_path / "words.txt"))


def test_terms_are_whole_words_and_the_longest_first():
    terms = {"new": "neu", "new york": "New York", "사과*": "apple", "c++": "C++", "new*": "n"}
    terms["york city hall"] = "Rathaus"
    phrases = lambda text, **further: [*terminology.phrases_of(terms, text, further)]
    assert phrases("a new car of new york, newer") == ["neu", "New York", "n"]
    assert phrases("new york city hall") == ["New York"]
    assert phrases("사과를 c++ c 풋사과") == ["apple", "C++"]
    assert phrases("new", new="frisch") == ["frisch"]
    assert phrases("none") == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rules": "no_repeat"}, r"config.decode.rules must be one of .*'no_repeat'; did you mean"),
        ({"rules": "no_repeat_ngram(size=0)"}, r"size of no_repeat_ngram must be at least 1, f"),
        (
            {"rules": "repetition"},
            r"config.decode.rules: repetition is written repetition\(penalty",
        ),
        ({"rules": "forbidden"}, r"config.decode.rules=forbidden needs config.decode.forbidden=FI"),
        ({"forbidden": "x"}, r"config.decode.forbidden is read with config.decode.rules='forbidd"),
        ({"terms": "x"}, r"config.decode.terms is read with config.decode.method='terminology' o"),
        ({"rules": "forbidden", "forbidden": "/none"}, r"decode.forbidden='/none' cannot be read"),
        ({"method": "diverse", "groups": 3}, r"decode.groups=3 must divide config.decode.beam_wid"),
        (BY_TERMS | {"terms": "/none"}, r"config.decode.terms='/none' cannot be read"),
        (BY_TERMS | {"terms": __file__}, r"test_rules.py, line 1: expected TERM<tab>"),
    ],
)
def test_what_is_wrong_is_one_line(changes, said, untrained):
    with pytest.raises(UserError, match=said):
        decoders.build(untrained[0], **{"beam_width": 4, **changes})


def test_terms_need_a_method_that_takes_them(untrained):
    with pytest.raises(UserError, match=r"line 1: terms need config.decode.method='terminology'$"):
        translated(untrained, {"a b": {"a": "b"}})
    for terms in ({"a": 1}, ["a"], "a", {"a": " "}, {"*": "a"}):
        with pytest.raises(UserError, match=r'line 2: terms must be {"TERM": "TRANSLATION"}, foun'):
            translated(untrained, {"a": {}, "b": terms}, method="terminology")


def test_json_and_python_take_terms(tiny_run, answered):
    asked = [{"source": "a b", "terms": {"a": "b a b"}}, {"source": "a b"}]
    given = "\n".join(map(json.dumps, asked)).encode()
    options = {"translate.format": "json", "decode.method": "terminology"}
    forced, free = map(
        json.loads, answered("translate", tiny_run.workdir, given, **options).splitlines()
    )
    assert "b a b" in forced["translation"]
    model = transformer.load(tiny_run.workdir)
    found = model.translate("a b", method="terminology", terms={"a": "b a b"})
    assert (found, model.translate("a b")) == (forced["translation"], free["translation"])
    each = lambda *terms: model.translate(["a b"] * 2, **BY_TERMS, terms=[*terms])
    assert each({"a": "b a b"}, {}) == [found, free["translation"]]
    with pytest.raises(UserError, match=r"\Aexpected terms for each of 2 texts, found 1\Z"):
        each({})
