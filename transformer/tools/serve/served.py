"""A served model, and the page of a sentence: translations, attention and beam."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from ml_collections import ConfigDict

from transformer.data import tokenizer
from transformer.decoding.translator import Hypothesis, Request, Translator
from transformer.distributed import layout
from transformer.modes import lines as mode_lines
from transformer.runtime import paths
from transformer.tasks import translation
from transformer.tasks.saved_model import SavedModel
from transformer.tools.pages import attention_view, beam_view, page
from transformer.tools.pages.page import Section, Table

LONGEST = 100  # pieces of a sentence whose attention and beam are drawn


def html(
    run: SavedModel,
    translator: Translator,
    text: str,
    hypotheses: Sequence[Hypothesis],
    *,
    names: Sequence[str],
    name: str,
) -> str:
    """Returns the page of a sentence translated by model `name` of `names`; `text` may be ""."""
    form = page.markup("serve/form", text=text, names=names, chosen=name)
    sections = [Section("Translate", [form])]
    if text:
        rows = [[i, x.text, x.score] for i, x in enumerate(hypotheses, start=1)]
        table = Table(["rank", "translation", "score"], rows)
        sections += [Section("Translations", [table]), *_inside(run, translator, text, hypotheses)]
    return page.html("Translation", sections)


def _inside(
    run: SavedModel, translator: Translator, text: str, hypotheses: Sequence[Hypothesis]
) -> list[Section]:
    """Returns the sections of the model's attention and search."""
    [ids] = run.vocabulary.source.encode([text])
    if len(ids) > (most := min(LONGEST, translator.decode.max_length)):
        return [Section("Attention", [f"Not drawn: the sentence has more than {most} pieces."])]
    sections = []
    tagged = tokenizer.tagged(translator.decode.tag, text)
    attention = attention_view.pair_example(run, tagged, hypotheses[0].text)
    if attention.maps:
        view = attention_view.view([attention])
        sections.append(Section("Attention", [attention_view.ABOUT, view]))
    if plot := beam_view.searched(translator, run.params, text):
        sections.append(Section("The beam, step by step", [beam_view.ABOUT, plot]))
    return sections


class Served(NamedTuple):
    """A served model; several threads call it.

    `translate(lines, numbers, count)` returns the `count` best hypotheses of each line; `numbers`
    are the lines' numbers in their requests, and `count` is 1 or `num_hypotheses`. `page(text,
    hypotheses)` returns the HTML of a sentence, or of "".
    """

    translate: Callable[[list[Request], list[int], int], list[list[Hypothesis]]]
    page: Callable[[str, Sequence[Hypothesis]], str]
    num_hypotheses: int
    workers: int  # concurrent batches
    takes_terms: bool = False


def load(
    config: ConfigDict, folder: Path, name: str, names: list[str], options: ConfigDict
) -> Served:
    """Loads a workdir's model, one of `names`; `options` are config.serve.

    Compiles the shapes of the lines of `options.warm_up`, or of a short line, in batches of each
    size.
    """
    run = translation.load(config, folder)
    decode = config.decode
    make = lambda n: translation.translator(config, folder, run, {**decode, "num_hypotheses": n})
    # For one hypothesis, search as --mode=translate does.
    single_best = make(1)
    num_best = decode.num_samples if single_best.method.draws else decode.beam_width
    translators = {num_best: make(num_best), 1: single_best}

    def translate(lines: list[Request], numbers: list[int], count: int) -> list[list[Hypothesis]]:
        return [*translators[count].hypotheses(run.params, lines, numbers=numbers)]

    def draw_page(text: str, hypotheses: Sequence[Hypothesis]) -> str:
        with layout.launching(run.params):
            return html(run, single_best, text, hypotheses, names=names, name=name)

    warm_up = ["."]
    if options.warm_up:
        with paths.path(options.warm_up).open("rb") as file:
            warm_up = [*mode_lines.read(file)]
    # Batches are padded to powers of 4: up to 64 lines to 1, 4, 16 or 64.
    for size in (4**k for k in range(16) if 4**k <= options.batch_lines):
        for start in range(0, len(warm_up), size):
            translate([*map(Request, warm_up[start : start + size])], [0] * size, 1)
    is_single = layout.num_devices(run.params) == 1  # several devices share each batch
    workers = single_best.batch_decoder.workers.count if is_single else 1
    return Served(translate, draw_page, num_best, workers, single_best.method.required is not None)
