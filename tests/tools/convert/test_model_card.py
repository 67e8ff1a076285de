"""The model card of an exported folder."""

from transformer.tools.convert import model_card

GIVEN = {
    **{
        "name": "en-de",
        "task": "translation",
        "languages": ("en", "de"),
        "data": "trained on\nsome text",
    },
    **{"facts": {"parameters": "9", "BLEU on test": "30.00"}, "command": "python launch.py"},
}


def test_a_card_begins_with_what_the_hub_reads():
    header, rest = model_card.text(**GIVEN, licence="mit").removeprefix("---\n").split("\n---\n")
    assert header.split("\n")[:4] == ["language:", "- en", "- de", "license: mit"]
    assert "| BLEU on test | 30.00 |" in rest
    assert "licence is not stated" not in rest
    assert "that translates from `en` to `de`, trained on\nsome text." in rest


def test_a_licence_that_is_not_given_is_said_and_not_invented():
    card = model_card.text(**GIVEN, licence="")
    assert "license: other" in card
    assert "licence is not stated" in card


def test_a_card_of_another_task_has_the_hub_s_name_of_it_and_no_languages():
    card = model_card.text(**{**GIVEN, "task": "language_modelling", "languages": ()}, licence="")
    assert "pipeline_tag: text-generation" in card
    assert "language:" not in card
    assert "that continues a text, trained on\nsome text." in card


def test_a_task_of_a_fork_has_a_card_too():
    assert "task `toy`" in model_card.text(**{**GIVEN, "task": "toy"}, licence="")


def test_languages_that_are_not_known_are_not_invented():
    card = model_card.text(**{**GIVEN, "languages": (), "data": "imported"}, licence="mit")
    assert "language:" not in card
    assert "that translates, imported." in card
