"""Translations: the words that are right are marked, and a document is cut off."""

from transformer.tools.pages import sentences


def test_the_words_that_the_reference_has_in_order_are_marked():
    marked = "a <mark>man</mark> &lt;likes&gt; <mark>an apple</mark>"
    item = sentences.item({}, {"x": "a man <likes> an apple"}, "the man, eats an apple!")
    assert f'<dd dir="auto">{marked}</dd>' in sentences.markup([item]).html
    assert sentences.marked("<b> a", "<b> c") == [("mark", "<b>"), ("", "a")]
    assert [kind for kind, _ in sentences.marked("b a", "a b")].count("mark") == 1
    assert sentences.marked("", "a") == []


def test_a_document_is_cut_off():
    text = "word " * 100_000
    item = sentences.item({"source": text}, {"same": text, "translation": text + "x"}, text)
    block = sentences.markup([item]).html
    assert block.count("…") == 3
    assert block.count("word") == 3 * sentences.MAX_CHARACTERS // 5
    assert block.count("✓") == 1
