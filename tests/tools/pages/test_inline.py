"""What a notebook shows below a cell: the pictures of a report, of any sentence."""

import html
import re

import pytest
from tools.report import insides

from transformer.errors import UserError
from transformer.tools.api.trained_models import TranslationModel
from transformer.tools.pages import inline
from transformer.tools.pages.page import Markup
from transformer.tools.report import inside


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    loaded = insides.translating(tmp_path_factory.mktemp("inline") / "run", num_layers=1)
    return TranslationModel(loaded.run.config, inside.translation_model(loaded))


def content(frame):
    """Returns the page that a browser finds in a frame's `srcdoc`."""
    [quoted] = re.findall(r'srcdoc="([^"]*)"', frame._repr_html_())
    return html.unescape(quoted)


def test_attention_is_that_of_the_model_s_own_translation_or_of_a_given_one(model):
    assert f"a b c → {model.translate('a b c')}" in content(inline.attention(model, "a b c"))
    [example] = insides.data_of(Markup(content(inline.attention(model, "a b c", "c b"))))
    assert example["maps"][0]["name"] == "cross-attention"
    assert example["maps"][0]["queries"] == ["c", "b", "</s>"]
    assert example["maps"][0]["keys"] == ["a", "b", "c", "</s>"]


def test_a_search_is_that_of_the_model_with_other_keys_of_decode(model):
    for width in (1, 3):
        page = content(inline.search(model, "a b", beam_width=width))
        best, *_ = model.hypotheses("a b", 1, beam_width=width)
        assert f"“{best.text}” with score {best.score:.3f}" in html.unescape(page)
    for text in ("a b " * 8, " "):
        with pytest.raises(UserError, match="is blank, or longer than max_length=16 pieces"):
            inline.search(model, text, max_length=16)
    with pytest.raises(UserError, match=r"there is no key config\.decode\.beams"):
        inline.search(model, "a b", beams=3)
