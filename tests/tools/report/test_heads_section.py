"""Heads that follow a relation are found, named and scored."""

import numpy as np
from tools.report import insides

from transformer.families.parsing import trees
from transformer.tasks import attention_weights
from transformer.tools.report import heads_section


def test_the_head_that_follows_a_relation_is_named(tmp_path, monkeypatch):
    """Head 3 of layer 2 attends to the piece before, here a word; all others to the first piece."""
    loaded = insides.translating(tmp_path / "run")

    def weights(params, inputs, model):
        S = inputs["source"].shape[1]
        weights_LBHSS = np.zeros((2, 1, 4, S, S)) + np.eye(1, S)
        weights_LBHSS[1, 0, 2] = 0.4 * np.eye(S) + 0.6 * np.eye(S, k=-1)
        return {"encoder": weights_LBHSS}

    monkeypatch.setattr(attention_weights, "batch_weights", weights)
    items = [{"input": "a b c d"}, {"input": "c c e f"}, {"input": "h"}] * 2
    _, table, view = heads_section.section(loaded._replace(items=items)).parts
    rows = {row[0]: row[1:] for row in table.rows}
    loaded.run.config.decode.tag = "a"  # a word for a tag: the encoder reads it first
    tagged = heads_section.section(loaded._replace(items=items)).parts[1].rows
    assert [row[0] for row in tagged] == list(rows)
    assert tagged[0][2:] == table.rows[0][2:]
    # Words 2 to 4 of both halves; the words at offset -1 are those before.
    assert rows["the word before"] == ["layer 2, head 3", 1.0, 1.0, -1, 6]
    assert rows["the word after"][1:4] == [0.0, 1.0, 1]
    assert rows["the end of the sentence"][1] == 0
    first = insides.data_of(view)[0]
    assert first["title"] == "the word before: layer 2, head 3"
    assert first["maps"][0]["keys"][-1] == "</s>"


def test_words_are_the_mean_of_their_queries_and_the_sum_of_their_keys():
    """The pieces 'the', 'c', 'at' and the end."""
    weights_SS = np.array([[5, 1, 2, 2], [1, 2, 3, 4], [3, 0, 5, 2], [0, 0, 0, 10]]) / 10
    by_word = heads_section.between_words(weights_SS[None, None], [0, 1, 1])
    np.testing.assert_allclose(by_word[0, 0], [[0.5, 0.3, 0.2], [0.2, 0.5, 0.3]])


def test_the_verb_of_a_far_object():
    """'eats' is the verb of 'apple', but 'sees' is too near to 'it' and has no other object."""
    tree = trees.from_text(
        "(TOP (S (NP (NN cat)) (VP (VBZ eats) (NP (NP (DT a) (JJ green) (NN apple)) "
        "(SBAR (S (NP (PRP it)) (VP (VBZ sees) (NP (NNS trees) ))))))))"
    )
    assert np.argwhere(heads_section.far_verbs(tree)).tolist() == [[4, 1]]


def test_a_word_is_not_the_same_as_itself():
    related = heads_section.surface_relations(["The", "the", "cat"])
    assert np.argwhere(related["the same word elsewhere"]).tolist() == [[0, 1], [1, 0]]
