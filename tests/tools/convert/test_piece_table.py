"""A SentencePiece model with a table of ids of its own."""

import numpy as np
import pytest
from helpers import corpora
from ml_collections import ConfigDict

from transformer.data import tokenizer
from transformer.errors import UserError
from transformer.tasks import vocabularies
from transformer.tools.convert import piece_table
from transformer.tools.convert.piece_table import PieceTable


@pytest.fixture(scope="module")
def learnt():
    return corpora.learn("text")


@pytest.fixture(scope="module")
def table(learnt):
    """The learnt pieces in another order, two languages last, without the letter f."""
    pieces = learnt.pieces(range(4, len(learnt)))
    shuffled = np.random.default_rng(0).permutation([p for p in pieces if "f" not in p])
    return PieceTable(
        learnt.processor, ("<pad>", "</s>", "<unk>", "<s>", *shuffled, ">>de<<", ">>fr<<")
    )


def test_a_piece_that_the_model_lacks_has_no_mark_of_a_space(learnt):
    """Another side's, of which the model of this side knows nothing."""
    table = PieceTable(learnt.processor, ("<pad>", "</s>", "<unk>", "<s>", "▁grün", "▁a"))
    assert table.decode([[4, 4], [4, 5, 4], [5, 4]]) == ["grün grün", "grün a grün", "a grün"]


def test_a_piece_that_the_table_lacks_is_unknown(table):
    [ids] = table.encode(["f"])
    assert tokenizer.UNKNOWN in ids
    assert table.decode([[tokenizer.START, *ids, tokenizer.PAD]]) == [""]


def test_a_text_begins_with_a_language_of_the_table(table):
    [ids] = table.encode([">>fr<< abc"])
    assert table.pieces(ids)[0] == ">>fr<<"
    assert ids[1:] == table.encode(["abc"])[0]
    assert ">>xx<<" not in table.pieces(table.encode([">>xx<< abc"])[0])
    surfaces = table.surfaces(">>fr<< abc")
    assert surfaces[0] == (">>fr<<", ">>fr<< ")
    assert "".join(surface for _, surface in surfaces) == ">>fr<< abc"


def test_the_fingerprint_names_model_and_table(table):
    other = corpora.learn("target", size=300).processor
    swapped = (*table.table[:-2], *table.table[:-3:-1])
    vocabularies = table, PieceTable(other, table.table), PieceTable(table.processor, swapped)
    assert len({vocabulary.fingerprint for vocabulary in vocabularies}) == 3
    assert PieceTable(table.processor, table.table).fingerprint == table.fingerprint


def test_a_damaged_table_is_named():
    for content in (b"[", b"5", b"[1]", b'{"a": 1}'):
        with pytest.raises(UserError, match=r"shared.pieces is not a table"):
            piece_table.loads(content, "shared.pieces")


def test_a_table_is_taken_over_as_a_folder(tmp_path):
    options = {"kind": "table", "shared": True, "normalisation": "", "size": 9, "fingerprint": ""}
    given = lambda model: ConfigDict({"vocabulary": {**options, "model": str(model)}})
    with pytest.raises(UserError, match=r"\A.*expected WORKDIR/vocabulary .*source\.model and tar"):
        vocabularies.given(given(tmp_path))
    with pytest.raises(UserError, match=r"\A.*kind='table' is not learnt, but taken from another"):
        vocabularies.learn(given(""), None)
