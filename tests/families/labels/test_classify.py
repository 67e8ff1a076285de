"""--mode=classify: a line out for each line in, in order, whatever the batches."""

import json
import types

import flax.linen as nn
import jax
import numpy as np
import pytest
from ml_collections import ConfigDict

from transformer.distributed import layout
from transformer.errors import UserError
from transformer.families.labels import class_names, classify
from transformer.tasks import saved_model

LABELS = ("a", "b", "c")


class CountLetters(nn.Module):
    """Logits are how often each letter occurs; 0 is padding."""

    def __call__(self, ids, *, train):
        return (ids[..., None] == jax.numpy.arange(1, 4)).sum(axis=1).astype(float)


def check(config):
    if config.task != "toy":
        raise UserError("no such toy")


def reader(config, workdir):
    """Rows of a multiple of 4 positions."""

    def read(line, number):
        if "?" in line:
            raise UserError(f"line {number}: no text")
        ids = [1 + "abc".index(letter) for letter in line]
        return {"ids": np.pad(ids, (0, -len(ids) % 4 + 4 * (not ids))).astype(np.int32)}

    return read


def expected(line):
    counts = np.array([line.count(letter) for letter in LABELS], float)
    return np.exp(counts) / np.exp(counts).sum()


@pytest.fixture
def answered(tmp_path, monkeypatch, capsysbinary):
    """A function of standard input and options: what the mode writes, on `devices` devices."""

    def run(content, devices=1, name="toy", **options):
        place = layout.make_layout("pmap", (0, 1, 1), devices).replicated
        params = jax.device_put({"unused": np.zeros(1)}, place)
        monkeypatch.setattr(
            saved_model, "load", lambda *_: saved_model.SavedModel(CountLetters(), params, [7], 7)
        )
        task = types.SimpleNamespace(reader=reader, check=check)
        monkeypatch.setattr(classify, "load_task", lambda name: task)
        class_names.write(tmp_path, LABELS)
        config = ConfigDict(
            {
                "task": name,
                "vocabulary": {"labels_fingerprint": class_names.fingerprint(LABELS)},
                "evaluate": {"weights": "best"},
                "classify": {"format": "text", "batch_size": 4, "chunk_lines": 8, **options},
            }
        )
        (tmp_path / "input").write_bytes(content)
        with open(tmp_path / "input") as file:
            monkeypatch.setattr("sys.stdin", file)
            classify.classify(config, tmp_path)
        return capsysbinary.readouterr().out.decode().splitlines()

    return run


LINES = ["".join(np.random.default_rng(i).choice(list("abc"), i % 11)) for i in range(31)]


@pytest.mark.parametrize("devices", [1, 8])
@pytest.mark.parametrize(("chunk_lines", "batch_size"), [(8, 4), (1, 1), (100, 100)])
def test_each_line_has_its_own_answer(answered, devices, chunk_lines, batch_size):
    content = "".join(f"{line}\n" for line in LINES).encode()
    answers = answered(content, devices, chunk_lines=chunk_lines, batch_size=batch_size)
    assert len(answers) == len(LINES)
    for line, answer in zip(LINES, answers, strict=True):
        label, probability = answer.split("\t")
        assert label == LABELS[expected(line).argmax()]
        assert float(probability) == pytest.approx(expected(line).max(), abs=1e-6)


def test_json_has_every_class(answered):
    (answer,) = map(json.loads, answered(b"abba", format="json"))
    assert (answer["input"], answer["label"]) == ("abba", LABELS[expected("abba").argmax()])
    assert answer["probability"] == answer["probabilities"][answer["label"]]
    assert list(answer["probabilities"].values()) == pytest.approx(expected("abba").tolist())


def test_a_bad_line_is_named(answered):
    with pytest.raises(UserError, match=r"^line 11: no text$"):
        answered(b"a\n" * 10 + b"?\nb\n")
