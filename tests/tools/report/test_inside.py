"""What a report shows its model: items of different lengths, right and wrong ones, or none."""

import types

import numpy as np
import pytest
from helpers import reversal, tiny
from tools.pages import workdirs
from tools.report import insides

from transformer.errors import UserError
from transformer.tools.report import attention_section, beam, guesses, inside, position_section


def kept_lengths(texts, *options):
    """The lengths of the sentences that are kept, which have their own numbers."""
    loaded = insides.inside(None, None, None, [{"input": text} for text in texts])
    kept = inside.sentences(loaded, *options)
    assert [texts[number - 1] for number in kept.numbers] == [x["input"] for x in kept.items]
    return [len(item["input"].strip()) for item in kept.items]


def test_sentences_have_lengths_evenly_spaced():
    texts = ["w" * (1 + 5 * ((7 * i) % 30)) for i in range(30)]
    assert kept_lengths(texts, 4) == [16, 41, 61, 86]  # of 2 to MAX_CHARACTERS
    # Where all are long, the shortest are taken; where there are few, all.
    texts = [" " * i + "w" * (130 + (7 * i) % 30) for i in range(30)]
    assert kept_lengths(texts, 3) == [130, 131, 132]
    assert kept_lengths(texts, 2, 149) == [135, 145]
    for count in range(3):
        assert len(kept_lengths(texts[:count], 4)) == count


def test_a_third_of_the_labelled_is_wrong():
    items = [{"reference": "a", "output": "ab"[i % 5 == 0], "input": str(i)} for i in range(40)]
    kept = inside.labelled(insides.inside(None, None, None, items), 6)
    wrong = [item["input"] for item in kept.items if item["reference"] != item["output"]]
    assert len(kept.items) == len(set(kept.numbers)) == 6
    assert wrong == ["10", "30"]
    right = [x for x in items if x["output"] == "a"]
    assert len(inside.labelled(insides.inside(None, None, None, right), 6).items) == 6


def test_a_run_is_loaded(tmp_path):
    params = tiny.parameters(reversal.model(), tiny.unpacked(tiny.pairs())["inputs"])
    reversal.write_workdir(tmp_path, params)
    loaded = inside.load(workdirs.load(tmp_path))
    assert (loaded.items, loaded.numbers) == ([], [])
    kernel = lambda x: x["encoder"]["layers_0"]["self_attention"]["query"]["kernel"]
    np.testing.assert_array_equal(kernel(loaded.params), kernel(params))
    changed = workdirs.load(tmp_path)
    changed.config.decode.tag = "<2de>"  # but sources with tags of their own were translated
    result = {"decode": {"tag": ""}, "columns": {}}
    scored = changed._replace(evaluations=[types.SimpleNamespace(result=result, columns=list)])
    assert inside.load(scored).run.config.decode.tag == ""
    changed.config.evaluate.ensemble = "member"
    with pytest.raises(UserError, match=r"config\.evaluate\.ensemble"):
        inside.load(changed)


@pytest.mark.parametrize(
    ("make", "task", "changes", "words"),
    [
        (attention_section, "translation", {}, "--mode=evaluate"),
        (guesses, "masked_language", {}, "--mode=evaluate"),
        (position_section, "translation", {"model.positions": "none"}, "has no positions"),
        (attention_section, "image_classification", {}, None),  # images have their own section
        (guesses, "translation", {}, None),
        (beam, "classification", {}, None),
        (beam, "translation", {"decode.method": "sample"}, None),
    ],
)
def test_a_section_without_items_says_why_and_others_are_left_out(
    tmp_path, make, task, changes, words
):
    run = workdirs.load(workdirs.write(tmp_path / "run", task=task, **changes))
    items = [] if words else [{"input": "a b"}]
    model = types.SimpleNamespace(attention_weights=None)
    loaded = insides.inside(run, model, {}, items)._replace(columns={"input": "image"})
    section = make.section(loaded)
    assert (words in section.parts[0]) if words else (section is None)
