"""A run from Python: what the modes say, in the shape of the question."""

import concurrent.futures
import json
import shutil
import signal

import numpy as np
import pytest
from conformance import tiny_tasks
from helpers import tiny
from helpers.checkpoints import checkpoints_of
from PIL import Image

import transformer
from transformer.data import tokenizer
from transformer.errors import UserError
from transformer.modes import prepare
from transformer.workdir.log import read

SENTENCES = ["가 나 다", "", "다 나 가 나 다", "가 나 다"]


@pytest.fixture
def saved(tmp_path):
    """A function of a task: the workdir of a tiny run with a checkpoint of random params."""

    def workdir(name):
        config, folder = tiny_tasks.config(name, tmp_path), tmp_path / "run"
        task = prepare.prepare(config, folder)
        checkpoints = checkpoints_of(folder, identity=task.identity)
        params = tiny.parameters(task.model, task.batches[0]["inputs"])
        checkpoints.save(1, params, {"count": np.zeros(1)})
        checkpoints.close()
        return folder

    return workdir


@pytest.fixture(scope="module")
def workdir(tiny_run, tmp_path_factory):
    """A run that translates, to write into."""
    return shutil.copytree(tiny_run.workdir, tmp_path_factory.mktemp("runs") / "tiny")


@pytest.fixture(scope="module")
def translator(workdir):
    return transformer.load(workdir)


def test_translations_are_those_of_the_mode_in_the_question_s_shape(translator, workdir, answered):
    lines = answered("translate", workdir, "\n".join(SENTENCES).encode())
    expected = lines.splitlines()
    assert translator.translate(SENTENCES) == expected
    assert translator.translate(SENTENCES[2]) == expected[2]
    lazily = translator.translate(iter(SENTENCES), chunk_lines=1)
    assert [next(lazily), *lazily] == expected
    assert translator.translate([f"{x}\r\n" for x in SENTENCES]) == expected  # as of a file
    assert repr(translator) == f"TranslationModel(workdir={workdir!r})"


def test_a_generator_is_answered_before_its_end(translator):
    def texts():
        yield "가 나"
        raise AssertionError("read ahead")

    assert isinstance(next(translator.translate(texts(), chunk_lines=1)), str)


def test_hypotheses_scores_and_samples(translator):
    best = translator.hypotheses(SENTENCES[0], 3)
    assert len(best) == 3
    assert [x.score for x in best] == sorted((x.score for x in best), reverse=True)
    assert best == translator.hypotheses([SENTENCES[0]], 3, beam_width=3)[0]
    score = translator.score(SENTENCES[0], best[0].text)
    assert score.score == pytest.approx(best[0].score, abs=1e-4)
    samples = translator.hypotheses(SENTENCES[0], 3, method="sample", seed=1)
    assert samples == translator.hypotheses(SENTENCES[0], 3, method="sample", seed=1)
    assert samples != translator.hypotheses(SENTENCES[0], 3, method="sample", seed=2)


def test_alignments_are_those_of_the_mode(translator, workdir, answered):
    pair = f"{SENTENCES[0]}\tc b a\n".encode()
    expected = answered("align", workdir, pair, **{"attention.head": 2})
    aligned = translator.align(SENTENCES[0], "c b a", head=2)
    assert " ".join(f"{s}-{t}" for s, t in aligned) == expected.strip()


def test_a_tag_is_each_call_s_own(translator, monkeypatch):
    monkeypatch.setattr(tokenizer, "tags", lambda vocabulary: ["가"])  # a letter for a tag
    both, tagged = ("가 나 다", "b c"), {"source": "나 다", "target": "b c", "tag": "가"}
    assert (
        translator.score(**tagged) == translator.score(*both) != translator.score(*both, tag="가")
    )
    np.testing.assert_equal(translator.attention(**tagged), translator.attention(*both))
    cross_TS = translator.attention(*both)["cross"].mean(axis=(0, 1))
    assert translator.align(**tagged) == [(cross_TS[t, 1:3].argmax(), t) for t in range(2)]
    assert translator.translate("나 다", tag="가") == translator.translate("가 나 다")
    assert translator.translate("나 \ud800") == translator.translate("나 ?")


def test_several_threads_and_models_at_once(translator, workdir):
    models = [translator, transformer.load(workdir, {"decode.beam_width": 2})]
    expected = [model.translate(SENTENCES, length_alpha=1.0) for model in models]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        call = lambda i: models[i % 2].translate(SENTENCES, length_alpha=1.0)
        answers = [*pool.map(call, range(16), timeout=60)]
    assert answers == [expected[i % 2] for i in range(16)]


def test_a_language_model_continues(saved, answered):
    workdir = saved("language_modelling")
    changes = {"generate.max_tokens": 6, "generate.lines": 0}
    model = transformer.load(workdir, changes)
    expected = answered("generate", workdir, b"a\nb\n", **changes).removesuffix("\n\n")
    one, other = model.generate(["a", "b"])
    assert f"{one}\n\n{other}" == expected
    assert model.generate("a") == one
    assert "".join(model.stream("a")) == one
    assert len(model.generate(iter(["a"]), num_samples=3).__next__()) == 3
    with pytest.raises(UserError, match="expected a text, found 1"):
        model.generate([1])


def test_a_classifier_of_texts(saved, answered):
    workdir = saved("classification")
    model = transformer.load(workdir)
    expected = answered("classify", workdir, b"good film\n", **{"classify.format": "json"})
    probabilities = model.probabilities("good film")
    assert probabilities == pytest.approx(json.loads(expected)["probabilities"])
    assert model.classify("good film") == max(probabilities, key=probabilities.get)
    assert model.classify(["good film"] * 2) == [model.classify("good film")] * 2
    for wrong in ([1], [("a", None)], [np.zeros((8, 8, 1), np.uint8)]):
        with pytest.raises(UserError, match="expected a text, found"):
            model.classify(wrong)


def test_a_classifier_of_images_reads_paths_and_arrays(saved, tmp_path):
    model = transformer.load(saved("image_classification"))
    image = np.random.default_rng(0).integers(0, 256, (8, 8, 1), np.uint8)
    Image.fromarray(image[:, :, 0]).save(tmp_path / "image.png")
    answers = [model.probabilities(x) for x in (image, tmp_path / "image.png")]
    assert answers[0] == answers[1]
    assert model.classify(str(tmp_path / "image.png")) in answers[0]
    for other in (image / 255, image[:, :, 0]):
        with pytest.raises(UserError, match="expected an image of uint8"):
            model.classify(other)


@pytest.mark.slow
def test_training_gives_its_lines_stops_and_goes_on(tmp_path, capsys):
    config, handlers = tiny_tasks.config("translation", tmp_path), []
    lines, other = [], tmp_path / "stopped"

    def on_log(line):
        lines.append(line)
        handlers.append([signal.getsignal(x) for x in (signal.SIGINT, signal.SIGTERM)])

    before = [signal.getsignal(x) for x in (signal.SIGINT, signal.SIGTERM)]
    result = transformer.train(config, tmp_path / "run", on_log)
    assert lines == read(tmp_path / "run")
    assert lines[-1]["kind"] == "test"
    assert handlers == [before] * len(lines)
    assert transformer.train(config, other, should_stop=lambda: True) is None
    assert [x["step"] for x in read(other) if x["kind"] == "train"] == [1]
    times = ("set", "files", "checksum", "versions")
    again = transformer.train(config, other)
    assert not capsys.readouterr().out
    assert [again[x] for x in again if x not in times] == [
        result[x] for x in result if x not in times
    ]


def test_a_config_is_that_of_the_command_line():
    config = transformer.config("multi30k_rnn:dot", {"train.num_steps": 7, "data.pack": True})
    assert config.model.attention == "dot"
    assert (config.train.num_steps, config.data.pack) == (7, True)


def untrained():
    config = transformer.config("quickstart")
    config.train.num_steps = 0
    return config


@pytest.mark.parametrize(
    ("load", "message"),
    [
        (lambda run, _: transformer.load(run / "no"), "does not exist"),
        (lambda run, _: transformer.load(run, {"decode.beams": 2}), "did you mean"),
        (lambda run, _: transformer.load(run, {"model.d_model": 2}), "was trained with 32"),
        (lambda run, _: transformer.load(run, {"decode.beam_width": 0}).translate("a"), "at least"),
        (lambda *_: transformer.config("wmt_bas"), "did you mean wmt_base"),
        (lambda _, model: model.translate("a", beams=2), "no key config.decode.beams"),
        (lambda _, model: model.translate("a", beam_width=[2]), "beam_width must be"),
        (lambda _, model: model.translate("a\nb"), "a text of one line, found 'a"),
        (lambda _, model: model.hypotheses("a", "2"), "num_hypotheses must be an int"),
        (lambda _, model: model.translate(None), "expected one input, a list or a gen"),
        (lambda _, model: model.translate([b"a"]), "expected a text, found b'a'"),
        (lambda _, model: model.score(["a"], ["b"]), "expected a text, found ..a"),
        (lambda _, model: model.align("a\nb", "b"), "a text of one line, found 'a"),
        (lambda run, _: transformer.train("quickstart", run), "a config, as of transformer.config"),
        (lambda run, _: transformer.train(untrained(), run), "num_steps must be at least 1, found"),
        (lambda *_: transformer.config("quickstart", ["a=1"]), "expected changes such as"),
        (lambda *_: transformer.config("quickstart", {"data.train": None}), "expected changes"),
        (lambda run, _: transformer.config(run / "no.py"), "must be an existing Python file"),
        (lambda _, model: model.score("a", "b", beams=2), "no key config.decode.beams"),
        (lambda _, model: model.align("a", "b", layer=9), "config.attention.layer must"),
        (lambda _, model: model.align("a", "b", tag="<x>"), "decode.tag must be one of"),
    ],
)
def test_mistakes_are_explained(workdir, translator, load, message):
    with pytest.raises(UserError, match=message):
        load(workdir, translator)


def test_a_task_without_a_model_to_call(saved):
    with pytest.raises(UserError, match="'memory': expected one of translation, "):
        transformer.load(saved("memory"))
