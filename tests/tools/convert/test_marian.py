"""Hugging Face's Marian: a recorded model's logits, our own written and read again, bad folders.

fixtures/marian was made by record_marian.py with transformers, which no test needs.
"""

import json
import pathlib
import shutil

import numpy as np
import pytest
from helpers import corpora, reversal, tiny
from helpers.decoders import make_batch_decoder

from transformer.checkpoints.weights import flatten, unflatten
from transformer.data import pairs, tokenizer
from transformer.data.tokenizer import PAD, START
from transformer.decoding.batch_decoder import Part
from transformer.errors import UserError
from transformer.models.positions import sinusoids
from transformer.tools.convert import arrays, marian

RECORDED = pathlib.Path(__file__).parent / "fixtures" / "marian"
# What Marian's form has; sizes as in tiny.
OURS = {"key_size": 0, "value_size": 0, "norm": "layer(epsilon=1e-05)"}


def read(folder):
    """(foreign, model, params, vocabulary) of a Marian folder."""
    foreign = marian.read(folder)
    sizes = [len(order.pieces) for order in foreign.orders]
    fields = {**OURS, "positions": "halves", **foreign.fields}
    model = tiny.model(source_vocab_size=sizes[0], target_vocab_size=sizes[1], **fields)
    flat = flatten(tiny.shapes(model, tiny.unpacked(tiny.pairs())["inputs"]))
    params = marian.read_params(folder, foreign, {path: x.shape for path, x in flat.items()})
    return foreign, model, params, corpora.vocabulary(foreign.vocabulary, "table")


@pytest.fixture
def folder(tmp_path):
    """A copy of the recorded folder, to damage."""
    return shutil.copytree(RECORDED, tmp_path / "marian")


def test_the_logits_are_those_of_transformers():
    _, model, params, vocab = read(RECORDED)
    ours, theirs = recorded_logits(model, params, vocab)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    assert np.std(theirs) > 0.5


def test_what_is_read_is_written_and_read_again_to_the_bit(tmp_path):
    _, model, params, vocab = read(RECORDED)
    tmp_path.joinpath("first").mkdir()
    marian.write(tmp_path / "first", model, params, vocab, {"max_length": 64, "num_beams": 3})
    foreign, again, read_params, read_vocab = read(tmp_path / "first")
    assert again == model
    tiny.assert_same_bits(read_params, params)
    assert read_vocab.fingerprint == vocab.fingerprint
    assert foreign.settings["vocabulary.shared"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tied", "shared", "bias"),
    [("all", True, False), ("target", False, True), ("none", False, False), ("none", True, True)],
)
def test_our_own_model_is_the_same_function_there(tmp_path, tied, shared, bias):
    """Written with the paper's positions and read with halves: the same logits."""
    learnt = corpora.learn("text"), corpora.learn("target", size=300)
    vocab = tokenizer.Vocabulary(learnt[0], learnt[0] if shared else learnt[1])
    sizes = dict(zip(("source_vocab_size", "target_vocab_size"), map(len, vocab), strict=True))
    model = tiny.model(**sizes, **OURS, tied_embeddings=tied, attention_bias=bias)
    rows = [[4, 9, 5, 1], [7, 7, 6, 1]], [[5, 6, 12, 1], [8, 4, 4, 1]]
    inputs = pairs.inputs_of_single_pairs(*map(np.array, rows))
    params = tiny.parameters(model, inputs)
    marian.write(tmp_path, model, flatten(params), vocab, {"max_length": 64})
    _, there, read_params, read_vocab = read(tmp_path)
    assert there.options.positions == "halves"
    assert there.tied_embeddings == tied
    lines = ["abc def", "", "é a"]
    for read_side, side in zip(read_vocab, vocab, strict=True):
        ids = side.encode(lines)
        assert read_side.encode(lines) == ids
        assert read_side.decode(ids) == lines
    assert (tmp_path / "target_vocab.json").exists() == (not shared)
    said = [tokenizer.END, tokenizer.UNKNOWN, *range(4, model.target_vocab_size)]
    expected = tiny.logits(model, params, inputs)[..., said]
    logits = tiny.logits(there, unflatten(read_params), inputs)[..., said]
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-4)


def test_an_output_begins_with_the_padding_there_whose_vector_is_zeros(tmp_path):
    """As in OPUS-MT's folders: the start symbol is no piece that would be part of a text."""
    learnt = corpora.learn("text")
    sizes = dict.fromkeys(("source_vocab_size", "target_vocab_size"), len(learnt))
    model = tiny.model(**sizes, **OURS)
    params = flatten(tiny.parameters(model, tiny.unpacked(tiny.pairs())["inputs"]))
    marian.write(tmp_path, model, params, tokenizer.Vocabulary(learnt, learnt), {"max_length": 64})
    ids, config, generation, special = (
        json.loads((tmp_path / f"{name}.json").read_text())
        for name in ("vocab", "config", "generation_config", "tokenizer_config")
    )
    last = len(learnt) - 2
    assert {config[f"{name}_token_id"] for name in ("pad", "decoder_start")} == {last}
    assert ids["<pad>"] == last
    assert special["pad_token"] == "<pad>"
    assert "<s>" not in ids
    assert generation["bad_words_ids"] == [[last]]
    assert generation["forced_eos_token_id"] == config["eos_token_id"] == ids["</s>"]
    with arrays.opened(tmp_path) as (_, shapes, load):
        assert shapes["model.shared.weight"] == (last + 1, model.options.d_model)
        assert not np.asarray(load("model.shared.weight"))[-1].any()


def change(folder, **changes):
    file = folder / "config.json"
    values = json.loads(file.read_text())
    file.write_text(json.dumps({k: x for k, x in (values | changes).items() if x is not None}))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"d_model": None}, r"config.json: d_model must be of type int, found None"),
        ({"d_model": "16"}, r"config.json: d_model must be of type int, found '16'"),
        ({"encoder_layers": True}, r"config.json: encoder_layers must be of type int"),
        ({"length_penalty": {}}, r"config.json: length_penalty must be of type float, found {}"),
        ({"decoder_ffn_dim": 9}, r"encoder_ffn_dim=24 and decoder_ffn_dim=9 differ"),
        ({"vocab_size": 99}, r"model.shared.weight has the shape \S+ 16., expected .99, 16."),
        ({"vocab_size": 9}, r"vocab.json has \d+ pieces, and the model's table 9 rows"),
        ({"eos_token_id": 1}, r"vocab.json must have <unk>, and other pieces for .*\d+, 1 and"),
        ({"eos_token_id": 1000}, r"vocab.json must have <unk>, and other pieces for .* 1000 and"),
        ({"encoder_ffn_dim": 32, "decoder_ffn_dim": 32}, r"fc1.bias has the shape \[24\], exp"),
        ({"encoder_layers": 2}, r"model.encoder.layers.1.\S+ is missing"),
        ({"encoder_layers": 1, "decoder_layers": 1}, r"model.decoder.layers.1.\S+ is not an array"),
        (
            {"num_beam_groups": 2},
            r"config.json: num_beam_groups=2 is not supported here: set it to 1",
        ),
        ({"bad_words_ids": [[5]]}, r"bad_words_ids=\[\[5\]\] is not supported here: set it"),
    ],
)
def test_a_config_that_does_not_fit_is_named(folder, changes, said):
    change(folder, **changes)
    with pytest.raises(UserError, match=said):
        read(folder)


def test_what_a_search_does_is_read_from_the_newer_file(folder, tmp_path):
    _, model, params, vocab = read(folder)
    change(folder, num_beams=6, length_penalty=2)
    assert marian.read(folder).settings["decode.beam_width"] == 6
    assert marian.read(folder).settings["decode.length_alpha"] == 2.0
    (tmp_path / "ours").mkdir()
    search = {"max_length": 64, "num_beams": 3, "length_penalty": 0.5, "early_stopping": True}
    marian.write(tmp_path / "ours", model, params, vocab, search)
    config = marian.read(tmp_path / "ours").settings
    assert (config["decode.beam_width"], config["decode.length_alpha"]) == (3, 0.5)
    assert config["decode.stopping"] == "full"
    (tmp_path / "ours" / "generation_config.json").write_text("[]")
    with pytest.raises(UserError, match=r"generation_config.json is not a JSON object"):
        marian.read(tmp_path / "ours")


@pytest.mark.parametrize("name", ["config.json", "vocab.json", "source.spm", "model.safetensors"])
def test_a_missing_or_truncated_file_is_named(folder, name):
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError, match=name):
        read(folder)
    (folder / name).unlink()
    with pytest.raises(UserError, match=name):
        read(folder)


def rewrite(folder, **changed):
    """Writes the folder's arrays with some changed by a function, or added: {name: function}."""
    with arrays.opened(folder) as source:
        values = {name: np.asarray(source.load(name)) for name in source.shapes}
    values |= {name: function(values) for name, function in changed.items()}
    values = {name: array for name, array in values.items() if array is not None}
    arrays.write(folder / "model.safetensors", values)
    return values


def float64_sinusoids(count):
    """Marian's sinusoids [count, 16] of angles in float64."""
    angles = np.arange(count)[:, None] / 10000 ** (np.arange(8) / 8)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


@pytest.mark.parametrize(
    ("name", "function", "said"),
    [
        ("model.shared.weight", lambda x: x["model.shared.weight"] * np.nan, "non-finite values"),
        ("lm_head.weight", lambda x: x["model.shared.weight"], None),
        ("lm_head.weight", lambda x: x["model.shared.weight"] + 1, "is not model.shared"),
        *(
            (f"model.{half}.embed_positions.weight", function, said)
            for half in ("encoder", "decoder")
            for function, said in (
                (lambda _: float64_sinusoids(64).astype("bfloat16").astype("float32"), None),
                (lambda _: float64_sinusoids(4096), None),  # the angles of ours are float32
                (lambda _: sinusoids(np.arange(64)[None], 16)[0], "not a table of"),
                (lambda x: np.zeros((0, 8)), "not a table of"),
            )
        ),
    ],
)
def test_an_array_that_is_not_read_is_what_is_assumed(folder, name, function, said):
    rewrite(folder, **{name: function})
    if said:
        with pytest.raises(UserError, match=f"{name} .*{said}"):
            read(folder)
    else:
        read(folder)


@pytest.mark.parametrize("names", [("enc", "dec", "lm"), ("lm",)], ids=["version 5", "version 4"])
def test_matrices_of_a_shared_vocabulary_that_are_not_tied_are_three(folder, names):
    there = {
        **{"enc": "model.encoder.embed_tokens.weight", "dec": "model.decoder.embed_tokens.weight"},
        "lm": "lm_head.weight",
    }
    added = {there[x]: lambda v, x=x: v["model.shared.weight"] + ord(x[0]) for x in names}
    values = rewrite(folder, **added)
    change(folder, tie_word_embeddings=False)
    foreign, model, params, _ = read(folder)
    assert model.tied_embeddings == "none"
    assert foreign.settings["vocabulary.shared"]
    for side, name in (("source", "enc"), ("target", "dec"), ("output", "lm")):
        expected = values[there[name] if name in names else "model.shared.weight"]
        np.testing.assert_array_equal(
            params[f"{side}_embedding/embedding"], expected[foreign.orders[0].old]
        )


def recorded_logits(model, params, vocab):
    """(our logits of the pieces, those that were recorded)."""
    expected = json.loads((RECORDED / "expected.json").read_text())
    ids = vocab.source.encode(expected["lines"])
    assert [vocab.source.pieces(line) for line in ids] == expected["pieces"]
    number = {piece: i for i, piece in enumerate(vocab.target.table)}
    target = np.array([[number[piece] for piece in row] for row in expected["target"]])
    source = tokenizer.padded(ids, len(ids), max(map(len, ids)))
    inputs = pairs.inputs_of_single_pairs(source, target.astype(np.int32))
    logits = tiny.logits(model, unflatten(params), inputs)
    return logits[:, :, [number[piece] for piece in expected["order"]]], expected["logits"]


@pytest.mark.parametrize(
    "changes",
    [{"activation_function": "silu"}, {"normalize_before": True}, {"scale_embedding": False}],
    ids=str,
)
def test_another_config_of_the_same_function_is_the_same(folder, changes):
    """silu is swish, normalize_before is not read there, and a factor is one of the tables."""
    change(folder, **changes)
    if "scale_embedding" in changes:  # the recorded one multiplies by sqrt(16)
        rewrite(
            folder,
            **{
                "model.encoder.embed_tokens.weight": lambda x: x["model.shared.weight"] * 4,
                "model.decoder.embed_tokens.weight": lambda x: x["model.shared.weight"] * 4,
                "lm_head.weight": lambda x: x["model.shared.weight"],
            },
        )
        change(folder, tie_word_embeddings=False)
    _, model, params, vocab = read(folder)
    np.testing.assert_allclose(*recorded_logits(model, params, vocab), atol=1e-5)


@pytest.mark.parametrize("of_bias", [9, 1])
def test_rows_beyond_the_vocabulary_are_no_pieces(folder, of_bias):
    """As resize_token_embeddings makes them; with pad_to_multiple_of its bias has fewer."""
    foreign, _, params, _ = read(folder)
    rows = foreign.orders[0].count
    change(folder, vocab_size=rows + 9, decoder_vocab_size=rows + 9)
    grow = lambda name: lambda x: np.pad(x[name], ((0, 9), (0, 0)), constant_values=7)
    bias = lambda x: np.pad(x["final_logits_bias"], ((0, 0), (0, of_bias)), constant_values=7)
    name = "model.shared.weight"
    rewrite(folder, **{name: grow(name), "final_logits_bias": bias})
    tiny.assert_same_bits(read(folder)[2], params)


def test_a_copy_has_no_share_of_the_probability(folder):
    foreign, _, params, _ = read(folder)
    order = foreign.orders[1]
    assert order.old[PAD] == order.old[START]  # the padding is the start there
    bias = params["output_bias"]
    assert bias[START] == bias[PAD] - 50
    (folder / "generation_config.json").write_text('{"renormalize_logits": true}')
    bias[PAD] -= 50
    np.testing.assert_array_equal(read(folder)[2]["output_bias"], bias)


def written_and_translated(folder, **options):
    """A random model written to the folder, and what it makes here of lines."""
    vocab, (model, params) = reversal.vocabulary(), reversal.untrained(6, **OURS, output_bias=True)
    params["output_bias"][tokenizer.END] = 6.0  # so that outputs end
    for i in (tokenizer.PAD, tokenizer.START):  # as a trained model has it
        params["output_bias"][i] = -1e4
    marian.write(folder, model, flatten(params), vocab, {"max_length": 300, "length_penalty": 1.0})
    random = np.random.default_rng(0)
    lines = [" ".join(random.choice([*"abcdefgh"], n % 7 + 1)) for n in range(20)]
    asked = [Part(tuple(ids)) for ids in vocab.source.encode(lines)]
    search = {"length_penalty": "power", "length_alpha": 1.0, "extra_length": 60}
    decoder = make_batch_decoder(model, **search, **options)
    ids, scores = zip(*[hypotheses[0] for hypotheses in decoder(params, asked)], strict=True)
    return lines, vocab, ids, scores


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ({"num_beams": 1}, {"beam_width": 1}),
        ({"num_beams": 4, "early_stopping": True}, {"beam_width": 4, "stopping": "full"}),
        ({"num_beams": 4, "early_stopping": False}, {"beam_width": 4, "num_hypotheses": 4}),
    ],
    ids=["greedy", "early_stopping", "without"],
)
def test_transformers_finds_our_translations(tmp_path, theirs, ours):
    """Of a random model, sentence by sentence; each rule of theirs has an option here."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    lines, vocab, ids, scores = written_and_translated(tmp_path, **ours)

    words = transformers.MarianTokenizer.from_pretrained(tmp_path)
    batch = words(lines, return_tensors="pt", padding=True)
    network = transformers.MarianMTModel.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        there = network.generate(
            **{**batch, **theirs, "length_penalty": 1.0, "max_length": 60},
            **{"return_dict_in_generate": True, "output_scores": True},
        )
    pieces = [words.convert_ids_to_tokens(row, skip_special_tokens=True) for row in there.sequences]
    assert pieces == [vocab.target.pieces(row) for row in ids]
    assert len({*map(tuple, ids)}) > 2
    if theirs["num_beams"] > 1:
        assert list(scores) == pytest.approx(there.sequences_scores.tolist(), rel=1e-4)


@pytest.mark.parametrize("width", [1, 4])
def test_ctranslate2_s_own_converter_makes_the_same_translator_of_it(tmp_path, width):
    pytest.importorskip("transformers", reason="transformers is not installed")
    ctranslate2 = pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
    folder, converted = tmp_path / "marian", str(tmp_path / "converted")
    folder.mkdir()
    stopping = "full" if width > 1 else "best"
    lines, vocab, ids, scores = written_and_translated(folder, beam_width=width, stopping=stopping)
    ctranslate2.converters.TransformersConverter(str(folder)).convert(converted)
    results = ctranslate2.Translator(converted).translate_batch(
        [vocab.source.pieces(row) for row in vocab.source.encode(lines)],
        **{"beam_size": width, "length_penalty": 1.0, "min_decoding_length": 0},
        return_scores=True,
    )
    assert [x.hypotheses[0] for x in results] == [vocab.target.pieces(row) for row in ids]
    assert [x.scores[0] for x in results] == pytest.approx(list(scores), rel=1e-4)
