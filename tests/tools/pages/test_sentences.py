"""Translations: step by step as logged, ranked by chrF, with the words marked that are right."""

import html
import re

import numpy as np
import pytest
from sacrebleu.metrics import CHRF
from tools.pages import workdirs

from transformer.tasks import translation
from transformer.tools.pages import sentences


def shown(part):
    """The lines of each block of a Markup, [{name: text}], without marks."""
    blocks = re.findall(r"<dl.*?</dl>", part.html, re.DOTALL)
    text = lambda x: html.unescape(re.sub(r"<[^>]*>", "", x))
    line = r"<dt>(.*?)</dt><dd dir=\"auto\">(.*?)</dd>"
    return [{text(name): text(x) for name, x in re.findall(line, block)} for block in blocks]


def test_samples_are_what_validations_have_logged(tmp_path):
    steps = {100: ["eins", "zwei"], 200: ["ein", "zwei"], 300: ["one", "two <b>"]}
    log = []
    for step, translations in steps.items():
        pairs = zip(["하나", "둘 & 셋"], translations, ["one", "two"], strict=True)
        samples = "\n".join(translation.SAMPLE.format(*pair) for pair in pairs)
        log.append({"kind": "validation", "step": step, "bleu": 1.0, "samples": samples})
    run = workdirs.load(workdirs.write(tmp_path / "run", log=log))
    about, markup = sentences.samples(run).parts
    assert "after each validation" in about
    first, second = shown(markup)
    rest = {"step 100": "eins", "step 200": "ein", "step 300": "one ✓"}
    assert first == {"source": "하나", "reference": "one", **rest}
    assert second["source"] == "둘 & 셋"
    assert second["step 100–200"] == "zwei"
    assert second["step 300"] == "two <b>"
    assert "<mark>two</mark> &lt;b&gt;" in markup.html


def test_the_words_that_the_reference_has_in_order_are_marked():
    marked = "a <mark>man</mark> &lt;likes&gt; <mark>an apple</mark>"
    item = sentences.item({}, {"x": "a man <likes> an apple"}, "the man, eats an apple!")
    assert f'<dd dir="auto">{marked}</dd>' in sentences.markup([item]).html
    assert sentences.marked("<b> a", "<b> c") == [("mark", "<b>"), ("", "a")]
    assert [kind for kind, _ in sentences.marked("b a", "a b")].count("mark") == 1
    assert sentences.marked("", "a") == []


def test_the_worst_are_those_of_the_chrf_and_others_are_drawn_at_random(tmp_path):
    run = workdirs.translated(tmp_path)
    _, worst, others = sentences.chosen(run).parts
    sides = run.evaluations[-1].columns("input", "output", "reference")
    scores = [CHRF().sentence_score(h, [r]).score for _, h, r in zip(*sides, strict=True)]
    numbers = []  # of the lines
    for part in (worst, others):
        numbers.append([])
        for row in shown(part):
            score, line = re.fullmatch(r"(.*), line (.*)", row["chrF, line"]).groups()
            numbers[-1].append(int(line) - 1)
            assert float(score) == pytest.approx(scores[int(line) - 1], abs=0.051)
            assert row["source"] == sides[0][int(line) - 1]
            assert row["reference"] == sides[2][int(line) - 1]
    assert [scores[i] for i in numbers[0]] == sorted(scores)[: sentences.SENTENCES]
    assert len(set(numbers[1])) == sentences.SENTENCES
    assert sentences.chosen(run).parts[2] == others  # the same ones each time
    drawn = np.mean([scores[i] for i in numbers[1]])
    assert np.quantile(scores, 0.1) < drawn < np.quantile(scores, 0.95)


def test_what_is_missing_is_said_with_the_command(tmp_path):
    run = workdirs.load(workdirs.write(tmp_path / "run"))
    assert "--config.evaluate.samples=3" in sentences.samples(run).parts[0]
    assert run.command("evaluate") in sentences.chosen(run).parts[0]
    labelled = workdirs.load(workdirs.write(tmp_path / "labelled", task="classification"))
    assert sentences.samples(labelled) is sentences.chosen(labelled) is None


def test_a_document_is_cut_off():
    text = "word " * 100_000
    item = sentences.item({"source": text}, {"same": text, "translation": text + "x"}, text)
    block = sentences.markup([item]).html
    assert block.count("…") == 3
    assert block.count("word") == 3 * sentences.MAX_CHARACTERS // 5
    assert block.count("✓") == 1
