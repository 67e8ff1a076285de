"""The model card of an exported folder."""

from transformer.interop import model_card

GIVEN = {
    **{"name": "en-de", "languages": ("en", "de"), "data": "some text"},
    **{"facts": {"parameters": "9", "BLEU on test": "30.00"}, "command": "python launch.py"},
}


def test_a_card_begins_with_what_the_hub_reads():
    header, rest = model_card.text(**GIVEN, licence="mit").removeprefix("---\n").split("\n---\n")
    assert header.split("\n")[:4] == ["language:", "- en", "- de", "license: mit"]
    assert "| BLEU on test | 30.00 |" in rest
    assert "licence is not stated" not in rest


def test_a_licence_that_is_not_given_is_said_and_not_invented():
    card = model_card.text(**GIVEN, licence="")
    assert "license: other" in card
    assert "licence is not stated" in card
