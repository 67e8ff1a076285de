"""The vocabulary of CTranslate2's models: our order of its pieces, and the files it becomes."""

import pytest
from tools.convert import huggingface

from transformer.errors import UserError
from transformer.tools.convert import ctranslate2_vocabulary

LETTERS = [*"abc"]
OLD = ["<blank>", "<s>", "</s>", *LETTERS]  # as OpenNMT-py: <unk> is left out


def write(folder, pieces, name="source_vocabulary.txt"):
    (folder / name).write_text("".join(f"{x}\n" for x in pieces))


def orders(folder, rows=7, from_zeros=False):
    get = lambda name, kind, default: default
    read = ctranslate2_vocabulary.read_order
    return [read(folder, side, rows, get, from_zeros) for side in ("source", "target")]


def test_special_pieces_come_first_and_the_unknown_one_may_be_left_out(tmp_path):
    write(tmp_path, OLD, "shared_vocabulary.txt")
    for order in orders(tmp_path):
        assert order.pieces == ["<blank>", "</s>", "<unk>", "<s>", *LETTERS]
        assert order.old.tolist() == [0, 2, 6, 1, 3, 4, 5]


def test_a_model_that_starts_from_zeros_has_a_start_symbol_of_ours(tmp_path):
    write(tmp_path, ["</s>", "<unk>", *LETTERS, "<s>"], "shared_vocabulary.txt")
    order = orders(tmp_path, 6, from_zeros=True)[1]
    assert order.pieces == ["<pad>", "</s>", "<unk>", "<<s>>", *LETTERS, "<s>"]
    assert order.old.tolist() == [1, 0, 1, 0, 2, 3, 4, 5]
    assert set(order.silent) == {0, 3}


def test_letters_are_a_table_of_characters(tmp_path):
    write(tmp_path, OLD, "shared_vocabulary.txt")
    read = ctranslate2_vocabulary.read_files(tmp_path, orders(tmp_path))
    assert read == ("characters", {"shared.characters": b"abc"})


def test_pieces_need_their_models(tmp_path):
    write(tmp_path, [*OLD[:-1], "long"], "shared_vocabulary.txt")
    read = lambda: ctranslate2_vocabulary.read_files(tmp_path, orders(tmp_path))
    with pytest.raises(UserError, match=r"source.spm and target.spm are missing"):
        read()
    model = huggingface.learn().processor.serialized_model_proto()
    for side in ("source", "target"):
        (tmp_path / f"{side}.spm").write_bytes(model)
    kind, files = read()
    assert kind == "table"
    assert files.keys() == {"source.model", "target.model", "shared.pieces"}


def test_lines_in_another_encoding_are_named(tmp_path):
    (tmp_path / "shared_vocabulary.txt").write_bytes("<s>\n</s>\nä\n".encode("latin-1"))
    with pytest.raises(UserError, match=r"shared_vocabulary.txt is not UTF-8: .* at byte 9"):
        orders(tmp_path)


@pytest.mark.parametrize(
    ("name", "pieces", "rows", "said"),
    [
        ("other.txt", OLD, 7, "holds no source_vocabulary"),
        ("shared_vocabulary.txt", OLD, 9, "has 6 pieces, the model 9 rows"),
        ("shared_vocabulary.txt", OLD, 6, "lacks the unknown token '<unk>'"),
        ("shared_vocabulary.txt", ["<s>", "x", "y"], 4, "lacks the end token '</s>'"),
        ("shared_vocabulary.json", ["{}"], 7, "is not a list of pieces"),
    ],
)
def test_a_faulty_vocabulary_is_named(tmp_path, name, pieces, rows, said):
    write(tmp_path, pieces, name)
    with pytest.raises(UserError, match=said):
        orders(tmp_path, rows)
