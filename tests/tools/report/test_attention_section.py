"""Which attention is shown of which run: of `attention_weights.py`, between the right words."""

import numpy as np
import pytest
from conformance import tiny_models
from families.language_model import language
from families.texts import reviews
from helpers import tiny
from tools.pages import workdirs
from tools.report import insides

from configs import multi30k_rnn
from transformer.families.recurrent.lstm_language_model import LstmLanguageModel
from transformer.families.recurrent.recurrent import Recurrent
from transformer.families.texts import classification
from transformer.models import fields
from transformer.tasks import attention_weights as weights
from transformer.tools.report import attention_section, inside
from transformer.workdir import saved_config


def examples_of(loaded):
    """The examples in a section's picture; [] without a section."""
    section = attention_section.section(loaded)
    return insides.data_of(section.parts[1]) if section else []


def test_a_translation_s_three_kinds(tmp_path):
    loaded = insides.translating(tmp_path / "run")
    examples = examples_of(loaded)
    assert [x["title"] for x in examples] == ["b b → b b", "a b c → c b a", "d e f g → g f e d"]
    arrays = weights.pair_weights(inside.translation_model(loaded), "a b c", "c b a")
    for kind, m in zip(("cross", "encoder", "decoder"), examples[1]["maps"], strict=True):
        thousandths = np.array(m["weights"]).reshape(arrays[kind].shape) / 1000
        np.testing.assert_allclose(thousandths, arrays[kind], atol=6e-4)


@pytest.mark.parametrize(("kind", "names"), [("none", []), ("additive", ["cross-attention"])])
def test_a_recurrent_model_has_one_kind_or_none(tmp_path, kind, names):
    loaded = insides.translating(tmp_path / "run")
    size = loaded.model.source_vocab_size
    sizes = {"source_vocab_size": size, "target_vocab_size": size, "d_model": 8}
    model = fields.make(Recurrent, **{**multi30k_rnn.get_config(kind).model, **sizes})
    params = tiny.parameters(model, tiny.unpacked(tiny.pairs())["inputs"])
    examples = examples_of(loaded._replace(model=model, params=params))
    assert [m["name"] for example in examples[:1] for m in example["maps"]] == names


@pytest.fixture(scope="module")
def classified(tmp_path_factory):
    """The `Run` of a classifier of characters, and three of its texts."""
    folder = tmp_path_factory.mktemp("classified")
    reviews.write(folder)
    config = reviews.config(folder, folder / "data", **{"data.test": "test.tsv"})
    config = classification.prepare(config, folder / "run", None)
    saved_config.write_config(config, folder / "run")
    return workdirs.load(folder / "run"), [
        {"input": "goodly film", "reference": "good", "output": "good"},
        {"input": "the badly", "reference": "bad", "output": "odd"},
    ]


@pytest.mark.parametrize(
    ("model", "name"),
    [
        *(("text_classifier", pooling) for pooling in ("mean", "first")),
        *((name, name) for name in ("self_attentive", "intra_attention")),
    ],
)
def test_a_classifier_s_words(classified, model, name):
    run, items = classified
    pooling = {"pooling": name} if model == "text_classifier" else {}
    case = tiny_models.case(model, **classification.sizes(run.config, run.workdir), **pooling)
    loaded = insides.inside(run, case.model, case.params, items)
    maps = {x["title"]: x["maps"] for x in examples_of(loaded)}
    assert set(maps) == {"goodly film (good, predicted good)", "the badly (bad, predicted odd)"}
    [m] = maps["the badly (bad, predicted odd)"]
    text = ["<s>", *"the␣badly"]
    assert m["keys"] == text
    rows = np.array(m["weights"][-1]).reshape(-1, len(m["queries"]), len(text))
    if name == "self_attentive":
        assert m["queries"] == ["hop 1", "hop 2"]
    elif name == "first":
        assert (m["queries"], m["first"]) == (text, 0)
    else:
        assert (m["queries"], m["first"]) == (["all, mean", *text], 0)
        np.testing.assert_allclose(rows[:, 0], rows[:, 1:].mean(axis=1), atol=1)
    real = rows[:, 2:] if name == "intra_attention" else rows  # nothing is before the first word
    np.testing.assert_allclose(real.sum(axis=-1), 1000, atol=len(text))


def test_a_pair_s_words(classified):
    run, _ = classified
    run = run._replace(config=run.config.copy_and_resolve_references())
    run.config.data.num_texts = 2
    case = tiny_models.case("decomposable", **classification.sizes(run.config, run.workdir))
    item = {"input": "goodly\tthe badly", "reference": "good", "output": "bad"}
    [example] = examples_of(insides.inside(run, case.model, case.params, [item]))
    assert example["title"] == "goodly | the badly (good, predicted bad)"
    assert example["maps"][0]["keys"] == ["<s>", *"goodly", "<s>", *"the␣badly"]


def test_a_language_model_s_past(tmp_path):
    language.write_text(tmp_path)
    config = language.config(tmp_path)
    run = workdirs.load(workdirs.write(tmp_path / "run", task="language_modelling"))
    run.config.update(config)
    model = language.model(vocab_size=14, max_positions=12)  # 4 special ids and the characters
    loaded = insides.inside(run, model, language.parameters(model), [{"input": "the cat"}])
    insides.write_vocabulary(run, "text.characters", b" abcdehnst")
    [[m]] = [example["maps"] for example in examples_of(loaded)]
    assert m["queries"] == [*"the␣cat", "</s>"]
    assert m["keys"] == ["</s>", *"the␣cat"]
    past = np.tri(8, dtype=bool)
    for head in m["weights"][0]:
        assert (np.array(head).reshape(8, 8)[~past] == 0).all()
    lstm = LstmLanguageModel(**{**tiny_models.LSTMN, "attention_size": 0, "vocab_size": 14})
    params = tiny.parameters(lstm, tiny_models.texts([[0]], 8)[0])
    assert examples_of(loaded._replace(model=lstm, params=params)) == []


def test_a_masked_language_model_s_texts(tmp_path):
    run = workdirs.load(workdirs.write(tmp_path / "run", task="masked_language"))
    run.config.vocabulary.kind = "characters"
    insides.write_vocabulary(run, "text.characters", b" abcdehnst")
    case = tiny_models.case("masked_language_model", vocab_size=14)
    loaded = insides.inside(run, case.model, case.params, [{"input": "the cat"}])
    [[m]] = [example["maps"] for example in examples_of(loaded)]
    assert m["queries"] == m["keys"] == ["<s>", *"the␣cat"]
    for head in m["weights"][-1]:
        np.testing.assert_allclose(np.array(head).reshape(8, 8).sum(axis=1), 1000, atol=8)
