"""The pictures of a page in a notebook: attention on hover, the beam step by step.

    inline.attention(transformer.load(workdir), "나는 사과를 좋아해")

docs/notebooks/train_and_look.ipynb has examples.
"""

import dataclasses
import html
from typing import Any

from transformer.data import tokenizer
from transformer.errors import UserError
from transformer.tools.pages import attention_view, beam_view, page
from transformer.tools.pages.page import Markup, Section

# A notebook has its own headings.
COMPACT = Markup(
    "",
    "body { padding: 0.75rem; } h1 { font-size: 1.1rem; } nav, h2 { display: none; }"
    "section { margin-top: 0; }",
)


@dataclasses.dataclass(frozen=True)
class Frame:
    """A page that a notebook shows below a cell, in a frame with its own style and scripts."""

    page: str = dataclasses.field(repr=False)
    height: int = 600  # pixels; a longer page can be scrolled

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{html.escape(self.page)}" width="100%" height="{self.height}" '
            'style="border: 0"></iframe>'
        )


def attention(model: Any, source: str, target: str = "") -> Frame:
    """Shows the attention of a TranslationModel in a sentence pair.

    `target` '' is the model's own translation. UserError for a model without attention weights.
    """
    pair = tokenizer.tagged(model.config.decode.tag, source), target or model.translate(source)
    example = attention_view.pair_example(model.run, *pair)
    if not example.maps:
        raise UserError(f"{type(model.run.model).__name__} has no attention weights")
    section = Section("Attention", [COMPACT, attention_view.view([example])])
    # 1.75rem per word, plus the space above and below.
    rows = max(len(words) for m in example.maps for words in (m.queries, m.keys))
    return Frame(page.html(example.title, [section]), height=230 + 28 * rows)


def search(model: Any, source: str, **decode: Any) -> Frame:
    """Shows a TranslationModel's beam search for a sentence; `decode` are keys of config.decode.

    UserError for a sentence longer than decode.max_length, because it is searched in parts.
    """
    translator = model.translator(**{**decode, "method": "beam"})
    if not (plot := beam_view.searched(translator, model.run.params, source)):
        most = f"max_length={translator.decode.max_length} pieces"
        raise UserError(f"the sentence is blank, or longer than {most}: {source!r:.80}")
    section = Section("The beam, step by step", [COMPACT, plot])
    return Frame(page.html(source, [section]), height=270 + plot.spec["height"])
