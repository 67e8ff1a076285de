"""Shows translations: samples during training, and the worst and random ones of a test set."""

import difflib
import itertools
import re
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from sacrebleu.metrics import CHRF

from transformer.tasks.translation import SAMPLE
from transformer.tools.pages import page
from transformer.tools.pages.page import Markup, Section
from transformer.tools.pages.run import Run

MAX_STEPS = 10  # of a sample
SENTENCES = 8  # of the worst, and at random
MAX_CHARACTERS = 1000  # of a text; longer ones are cut

# A text as (CSS class, words): "mark" for words of the reference, "right" for the tick, or "".
Pieces = list[tuple[str, str]]
Item = list[tuple[str, Pieces]]  # (name, text) of each line
MARKED = "Words that the reference has in the same order are underlined; ✓ is the reference itself."


def samples(run: Run) -> Section | None:
    """Returns a few sentences of the validation set, with their translations at several steps."""
    if "decode" not in run.config:
        return None
    title = "Learning to translate"
    seen = {}  # {(source, reference): {step: translation}}
    for line in run.logged("validation"):
        logged = re.findall(SAMPLE.format("(.*)", "(.*)", "(.*)"), line.get("samples", ""))
        for source, translation, reference in logged:
            seen.setdefault((source, reference), {})[line["step"]] = translation
    if not seen:
        return Section(title, ["No sample is logged: `--config.evaluate.samples=3` logs three."])
    about = f"The same sentences of the validation set after each validation. {MARKED}"
    items = []
    for (source, reference), by_step in seen.items():
        rows = {"source": source, "reference": reference}
        items.append(item(rows, merged(by_step), reference))
    return Section(title, [about, markup(items)])


def merged(by_step: Mapping[int, str]) -> dict[str, str]:
    """Returns {'step 200': translation}; 'step 200–400' where the translation stays the same.

    The steps are those that `evenly` returns.
    """
    texts = {}
    # groupby merges only neighbours: a translation that recurs later has another line.
    for text, group in itertools.groupby(evenly(by_step), key=by_step.get):
        steps = list(group)
        last = f"–{steps[-1]:,}" if len(steps) > 1 else ""
        texts[f"step {steps[0]:,}{last}"] = text
    return texts


def evenly(steps: Collection[int]) -> list[int]:
    """Returns at most MAX_STEPS steps, evenly spaced, the first and the last included."""
    # 12 steps: indices 0 1 2 4 5 6 7 9 10 11.
    steps = sorted(steps)
    chosen = np.linspace(0, len(steps) - 1, min(MAX_STEPS, len(steps))).round().astype(int)
    return [steps[i] for i in chosen]


def chosen(run: Run) -> Section | None:
    """Returns the worst translations of the newest test set, and random ones.

    Random translations show the typical quality. The best are often perfect, and so uninformative.
    """
    if "decode" not in run.config:
        return None
    title = "Sentences"
    sides = run.evaluations and run.evaluations[-1].columns("input", "output", "reference")
    if not sides:
        return Section(title, [f"No test set is translated yet: `{run.command('evaluate')}`"])
    metric = CHRF()
    ranked = []
    for line, (source, hypothesis, reference) in enumerate(zip(*sides, strict=True), start=1):
        score = metric.sentence_score(hypothesis, [reference]).score
        place = f"{score:.1f}, line {line:,}"
        rows = {"chrF, line": place, "source": source, "reference": reference}
        # Among equal scores, long sentences are more informative.
        ranked.append((score, -len(source), line, rows, hypothesis))
    ranked.sort(key=lambda x: x[:3])
    parts = [f"By the chrF of the sentence, of {len(ranked):,} sentences. {MARKED}"]
    # A fixed seed, so that the page always shows the same sentences.
    order = np.random.default_rng(0).permutation(len(ranked))
    for name, indices in (("Worst", range(len(ranked))), ("At random", order)):
        drawn = [ranked[i][-2:] for i in indices[:SENTENCES]]
        shown = [item(rows, {"translation": x}, rows["reference"]) for rows, x in drawn]
        parts.append(markup(shown, name))
    return Section(title, parts)


def markup(items: Sequence[Item], heading: str = "") -> Markup:
    """Returns the HTML of `items`, a block for each."""
    return page.markup("pages/sentences", items=items, heading=heading)


def item(rows: Mapping[str, str], translations: Mapping[str, str], reference: str) -> Item:
    """Returns an item with a line for each of `rows` and `translations`, {name: text}.

    The words that translations share with the reference are marked.
    """
    lines = [(name, [("", shortened(text))]) for name, text in rows.items()]
    return lines + [(name, marked(text, reference)) for name, text in translations.items()]


def shortened(text: str) -> str:
    """Returns a text, cut off after MAX_CHARACTERS."""
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]} …"


def marked(text: str, reference: str) -> Pieces:
    """Marks the words of a translation that the reference has in the same order.

    They are the words in the longest common blocks; punctuation is not compared.
    """
    if text == reference:
        return [("", shortened(text)), ("right", "✓")]
    # Words of only punctuation stay, otherwise they would all be equal.
    words, reference_words = shortened(text).split(), shortened(reference).split()
    bare = lambda words: [re.sub(r"\W", "", word) or word for word in words]
    matcher = difflib.SequenceMatcher(None, bare(words), bare(reference_words), autojunk=False)
    # The words between two blocks are not in the reference. The last block is empty, at the end of
    # the text, so that the words after the last match are included.
    pieces, end = [], 0
    for start, _, size in matcher.get_matching_blocks():
        pieces.append(("", " ".join(words[end:start])))
        end = start + size
        pieces.append(("mark", " ".join(words[start:end])))
    return [piece for piece in pieces if piece[1]]
