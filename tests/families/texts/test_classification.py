"""Texts are classified: trained, validated, resumed, and the same from --mode=classify."""

import functools
import json
import re
import shutil

import pytest
from families.texts import reviews

from configs import paraphrase
from transformer.errors import UserError
from transformer.families.texts import classification
from transformer.modes import train
from transformer.workdir import saved_config
from transformer.workdir.log import read


@pytest.fixture(scope="module")
def configure(folder):
    """A function of {config key: value}: the tiny config with these changes."""
    return functools.partial(reviews.config, folder, folder / "data")


@pytest.mark.slow
def test_a_run_learns_and_is_scored(trained):
    lines = read(trained)
    validations = [x for x in lines if x["kind"] == "validation"]
    assert [x["step"] for x in validations] == [10, 20, 30, 40]
    assert validations[0]["loss"] > validations[-1]["loss"]
    assert max(x["accuracy"] for x in validations) > 0.9
    assert all(0 <= x["macro_f1"] <= 1 for x in validations)
    training = next(x for x in lines if x["kind"] == "train")
    assert {"loss", "accuracy", "texts_per_second"} <= training.keys()
    assert 0.05 < training["padding"] < 0.6  # of the positions, not of the texts
    names = {path.name for path in (trained / "evaluation").iterdir()}
    outputs = ("text", "label", "prediction", "probability", "classes", "confusion", "json")
    assert names == {f"test.{name}" for name in outputs}
    [start] = read(trained, "starts.jsonl")
    assert (start["step"], start["devices"], start["processes"]) == (0, 8, 1)
    assert "training texts of 3 classes" in start["data"]
    assert (trained / "vocabulary" / "labels.txt").read_text() == "bad\ngood\nodd\n"
    assert saved_config.read_config(trained).data.num_classes == 3


@pytest.mark.slow
def test_classify_answers_as_evaluated(trained, folder, answered):
    """Each line by itself: of any length, in order, whatever the batches."""
    texts = [line.split("\t", 1)[1] for line in (folder / "test.tsv").read_text().splitlines()]

    def classified(lines, **changes):
        content = "".join(f"{line}\n" for line in lines).encode()
        answers = answered("classify", trained, content, **changes).splitlines()
        labels, probabilities = zip(*(answer.split("\t") for answer in answers), strict=True)
        return [*labels], [*map(float, probabilities)]

    evaluated = (trained / "evaluation" / f"test.{x}" for x in ("prediction", "probability"))
    predictions, probabilities = (path.read_text().splitlines() for path in evaluated)
    assert classified(texts) == (predictions, pytest.approx([*map(float, probabilities)], abs=6e-5))
    lines = [*texts[:9], "so goodly", "", "badly", *texts[9:18], "x" * 500]
    together = classified(lines)
    for batch_size, chunk_lines in ((1, 1), (4, 8)):
        sizes = {"classify.batch_size": batch_size, "classify.chunk_lines": chunk_lines}
        labels, probabilities = classified(lines, **sizes)
        assert (labels, pytest.approx(probabilities, abs=2e-6)) == together
    answer = json.loads(
        answered("classify", trained, b"so goodly\n", **{"classify.format": "json"})
    )
    assert (answer["input"], answer["label"]) == ("so goodly", "good")
    assert list(answer["probabilities"]) == list(reviews.LABELS)
    assert (
        answer["probability"]
        == answer["probabilities"]["good"]
        == pytest.approx(together[1][9], abs=1e-6)
    )


def test_texts_to_classify_that_have_their_labels_are_said_once(configure, tmp_path, caplog):
    config = configure().copy_and_resolve_references()
    config = classification.prepare(config, tmp_path, None)
    lines = ["good\tso goodly", "bad\tso badly"]
    for first in ("good and bad", "so\tgood", *lines):
        read = classification.reader(config, tmp_path)
        caplog.clear()
        for number, line in enumerate([first, *lines], start=1):
            read(line, number)
        said = [record.getMessage() for record in caplog.records]
        assert said == [classification.LABEL_WARNING] * (first in lines)


@pytest.mark.slow
def test_pairs_are_learnt_and_classified_as_evaluated(configure, tmp_path, answered):
    """The label is that of a word in the second text."""
    for split, count in (("train", 320), ("validation", 40), ("test", 50)):
        lines = reviews.lines(split, count).replace("\t", "\ta film\t")
        (tmp_path / f"{split}.tsv").write_text(lines)
    # Pieces, of which a label's word is one.
    values = {"data.directory": str(tmp_path), "vocabulary.kind": "bpe", "vocabulary.size": 300}
    config = configure(**values, **{"data.num_texts": 2, "data.max_length": 96})
    config.architecture = "decomposable"
    config.model = {"d_model": 16, "d_ff": 16, "intra_attention": True, "max_distance": 10}
    config.model.dropout_rate = 0.0
    train.train(config, folder := tmp_path / "run")
    validations = [x for x in read(folder) if x["kind"] == "validation"]
    assert validations[-1]["loss"] < 0.8 * validations[0]["loss"]
    pairs = (folder / "evaluation" / "test.pair").read_text()
    predictions = (folder / "evaluation" / "test.prediction").read_text().splitlines()
    _, *answers = answered("classify", folder, pairs.encode()).splitlines()  # after the run's score
    assert [line.split("\t")[0] for line in answers] == predictions
    reader = classification.reader(saved_config.read_config(folder), folder)
    for line in ("one text", "bad\ta\tb", "", "a\t"):
        message = re.escape(f"line 1: expected A<tab>B, found {line!r}")
        with pytest.raises(UserError, match=f"^{message}$"):
            reader(line, 1)


def test_a_label_that_training_never_saw_is_named(configure, folder, tmp_path):
    (tmp_path / "test.tsv").write_text("good\tgoodly\nworse\tbadly\n")
    for split in ("train", "validation"):
        shutil.copy(folder / f"{split}.tsv", tmp_path)
    config = configure(**{"data.directory": str(tmp_path)})
    with pytest.raises(UserError, match=r"test\.tsv, line 2: the label 'worse' is in no training"):
        classification.prepare(config, tmp_path / "run", None)


@pytest.mark.slow
def test_a_resumed_run_needs_the_same_text_and_labels(configure, trained, folder, tmp_path):
    copied, texts = shutil.copytree(trained, tmp_path / "run"), tmp_path / "texts"
    texts.mkdir()
    for file in folder.glob("*.tsv"):
        shutil.copy(file, texts)
    saved = saved_config.read_config(copied)
    config = configure(**{"data.directory": str(texts)})
    assert classification.prepare(config, copied, saved).vocabulary == saved.vocabulary
    (copied / "vocabulary" / "labels.txt").write_text("bad\nodd\ngood\n")
    with pytest.raises(UserError, match=r"damaged: \S*labels\.txt"):
        classification.prepare(config, copied, saved)
    with (texts / "train.tsv").open("a") as file:
        file.write("new\ttext\n")
    with pytest.raises(UserError, match=r"trained on other data: \S*train\.tsv"):
        classification.prepare(config, copied, saved)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data.batch_tokens": 31}, r"config\.data\.batch_tokens must be at least 32, found 31"),
        ({"data.max_length": 33}, r"config\.model\.max_positions=32 learned positions are fewer"),
        ({"architecture": "recurrent"}, r"'recurrent' is a model of another task"),
        ({"data.num_texts": 2, "data.max_length": 3}, r"max_length must be at least 4, found 3"),
        ({"data.num_texts": 2, "model.positions": "rotary"}, r"needs positions of the input"),
        (
            {"data.num_texts": 2, "model.positions": "interleaved", "data.max_length": 33},
            r"config\.model\.max_positions must be at least 33, found 32",
        ),
    ],
)
def test_values_that_cannot_work_are_refused(configure, changes, message):
    with pytest.raises(UserError, match=message):
        classification.check(configure(**changes))


def test_a_model_of_pairs_needs_two_texts(configure):
    config = configure()
    config.architecture = "decomposable"
    config.model = paraphrase.get_config().model
    with pytest.raises(UserError, match=r"LABEL<tab>A<tab>B: set config\.data\.num_texts=2"):
        classification.check(config)


def test_the_labels_are_checked_before_a_vocabulary_is_learnt(configure, folder, tmp_path):
    """Learning one can take minutes."""
    for split in ("train", "validation", "test"):
        (tmp_path / f"{split}.tsv").write_text("good\ttext\n" * 4)
    config = configure(**{"data.directory": str(tmp_path)})
    message = r"train\.tsv has the class 'good' alone: a classifier needs two"
    with pytest.raises(UserError, match=message):
        classification.prepare(config, tmp_path / "run", None)
    assert not (tmp_path / "run").exists()
