"""The section on the beam: a few sentences of the test set, each with its search."""

from transformer.decoding.translator import Translator
from transformer.tools.pages import beam_view
from transformer.tools.pages.page import Section
from transformer.tools.report import inside

SENTENCES, MAX_CHARACTERS = 3, 60


def section(loaded: inside.Inside) -> Section | None:
    """Returns the searches of a few translations; None for a run without beam search."""
    decode = loaded.run.config.get("decode", {})
    has_beam = decode.get("method") == "beam" and loaded.items
    if not has_beam or not (run := inside.translation_model(loaded)):
        return None
    translator = Translator(run.model, run.vocabulary, **decode)
    parts = [beam_view.ABOUT]
    for item in inside.sentences(loaded, SENTENCES, MAX_CHARACTERS).items:
        # A paragraph between plots keeps them one below the other.
        if plot := beam_view.searched(translator, loaded.params, item["input"]):
            parts += [item["input"], plot]
    return Section("The beam, step by step", parts) if len(parts) > 1 else None
