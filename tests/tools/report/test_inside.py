"""What a report shows its model: items of different lengths, right and wrong ones."""

import numpy as np
import pytest
from helpers import insides, reversal, tiny, workdirs

from transformer.errors import UserError
from transformer.tools.report import inside


def of_items(items):
    return insides.of(None, None, None, items)


def test_sentences_have_lengths_evenly_spaced():
    texts = ["w" * (1 + 5 * ((7 * i) % 30)) for i in range(30)]
    kept = inside.sentences(of_items([{"input": text} for text in texts]), 4)
    lengths = [len(item["input"].strip()) for item in kept.items]
    assert lengths == [16, 41, 61, 86]  # of 2 to MOST_CHARACTERS
    assert [texts[number - 1] for number in kept.numbers] == [x["input"] for x in kept.items]


def test_where_all_are_long_the_shortest_are_taken():
    texts = [" " * i + "w" * (130 + (7 * i) % 30) for i in range(30)]
    kept = inside.sentences(of_items([{"input": text} for text in texts]), 3)
    assert [len(item["input"].strip()) for item in kept.items] == [130, 131, 132]
    kept = inside.sentences(of_items([{"input": text} for text in texts]), 2, 149)
    assert [len(item["input"].strip()) for item in kept.items] == [135, 145]


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_sentences_are_all_taken(count):
    kept = inside.sentences(of_items([{"input": f"a {i}"} for i in range(count)]), 4)
    assert len(kept.items) == count


def test_a_third_of_the_labelled_is_wrong():
    items = [{"reference": "a", "output": "ab"[i % 5 == 0], "input": str(i)} for i in range(40)]
    kept = inside.labelled(of_items(items), 6)
    wrong = [item["input"] for item in kept.items if item["reference"] != item["output"]]
    assert len(kept.items) == len(set(kept.numbers)) == 6
    assert wrong == ["10", "30"]
    right = inside.labelled(of_items([x for x in items if x["output"] == "a"]), 6)
    assert len(right.items) == 6


def test_a_run_without_a_checkpoint_has_no_inside(tmp_path):
    run = workdirs.translated(tmp_path)
    assert inside.load(run) is None
    assert f"{run.workdir / 'checkpoints'} has no" in inside.missing(run).parts[0]


def test_a_run_is_loaded(tmp_path):
    params = tiny.parameters(reversal.model(), tiny.unpacked(tiny.pairs())["inputs"])
    reversal.write_workdir(tmp_path, params)
    loaded = inside.load(workdirs.load(tmp_path))
    assert (loaded.items, loaded.numbers) == ([], [])
    kernel = lambda x: x["encoder"]["layers_0"]["self_attention"]["query"]["kernel"]
    np.testing.assert_array_equal(kernel(loaded.params), kernel(params))
    changed = workdirs.load(tmp_path)
    changed.config.evaluate.ensemble = "other"
    with pytest.raises(UserError, match=r"config\.evaluate\.ensemble"):
        inside.load(changed)
