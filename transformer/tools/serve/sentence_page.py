"""The page of the service: a sentence, its translations, the attention between them, the beam."""

from collections.abc import Sequence

from transformer.decoding.translator import Hypothesis, Translator
from transformer.tasks.translation import TrainedTranslator
from transformer.tools.pages import attention_view, beam_view, page
from transformer.tools.pages.page import Section, Table

LONGEST = 100  # pieces of a sentence whose attention and beam are drawn


def html(
    run: TrainedTranslator,
    translator: Translator,
    text: str,
    hypotheses: Sequence[Hypothesis],
    *,
    names: Sequence[str],
    name: str,
) -> str:
    """Returns the page of a sentence that model `name` of `names` has translated; "": of none."""
    form = page.markup("serve/form", text=text, names=names, chosen=name)
    sections = [Section("Translate", [form])]
    if text:
        rows = [[i, x.text, x.score] for i, x in enumerate(hypotheses, start=1)]
        table = Table(["rank", "translation", "score"], rows)
        sections += [Section("Translations", [table]), *_inside(run, translator, text, hypotheses)]
    return page.html("Translation", sections)


def _inside(
    run: TrainedTranslator, translator: Translator, text: str, hypotheses: Sequence[Hypothesis]
) -> list[Section]:
    """Returns what the model attends to, and its search."""
    [ids] = run.vocabulary.source.encode([text])
    if len(ids) > min(LONGEST, translator.decode.max_length):
        return [Section("Attention", [f"Not drawn: the sentence has more than {LONGEST} pieces."])]
    sections = []
    example = attention_view.of_pair(run, text, hypotheses[0].text)
    if example.maps:
        view = attention_view.view([example])
        sections.append(Section("Attention", [attention_view.ABOUT, view]))
    if plot := beam_view.searched(translator, run.params, text):
        sections.append(Section("The beam, step by step", [beam_view.ABOUT, plot]))
    return sections
