"""CTranslate2's folders, read without its package."""

import flax.traverse_util
import numpy as np
import pytest
from helpers import tiny
from tools.convert import model_bin

from transformer.data import vocabulary
from transformer.data.tokenizer import START
from transformer.errors import UserError
from transformer.models.positions import sinusoids
from transformer.tools.convert import ctranslate2_read, matrices

LETTERS = [*"abcdefghi"]  # with the four special pieces, tiny's 13
# What CTranslate2's form has.
FORM = {"key_size": 0, "value_size": 0, "activation": "silu", "attention_bias": True}
FORM |= {"positions": "concatenated", "first_position": 1, "max_positions": 0}
FORM |= {"norm_epsilon": 1e-5}


def write(folder, model, flat, *, config=None, encodings=None, version=6, **variables):
    folder.mkdir(exist_ok=True)
    named = {**model_bin.variables_of(model, flat), **variables}
    aliases = {}
    if "decoder/projection/weight" not in named:
        aliases["decoder/projection/weight"] = "decoder/embeddings/weight"
    if "encoder/embeddings/weight" not in named:
        aliases["encoder/embeddings_0/weight"] = "decoder/embeddings/weight"
    else:
        named["encoder/embeddings_0/weight"] = named.pop("encoder/embeddings/weight")
    if encodings is not None:
        for half in ("encoder", "decoder"):
            named[f"{half}/position_encodings/encodings"] = encodings
    named = {name: x for name, x in named.items() if x is not None}
    (folder / "model.bin").write_bytes(model_bin.content(named, aliases, version=version))
    for side in ("source", "target"):
        pieces = ["<blank>", "<s>", "</s>", *LETTERS]  # as OpenNMT-py: <unk> is left out
        (folder / f"{side}_vocabulary.txt").write_text("".join(f"{x}\n" for x in pieces))
    if config is not None:
        (folder / "config.json").write_text(config)


def read(folder):
    foreign = ctranslate2_read.read(folder)
    sizes = [len(order.pieces) for order in foreign.orders]
    sizes = {"source_vocab_size": sizes[0], "target_vocab_size": sizes[1]}
    model = tiny.model(**{**FORM, **foreign.fields, **sizes})
    shapes = tiny.shapes(model, tiny.unpacked(tiny.pairs())["inputs"])
    flat = flax.traverse_util.flatten_dict(shapes, sep="/")
    shapes = {path: x.shape for path, x in flat.items()}
    return foreign, model, ctranslate2_read.read_params(folder, foreign, shapes)


def made(**changes):
    model = tiny.model(**{**FORM, **changes})
    params = tiny.parameters(model, tiny.unpacked(tiny.pairs())["inputs"])
    return model, flax.traverse_util.flatten_dict(params, sep="/")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tied_embeddings": "none", "output_bias": True, "norm": "pre", "final_norm": True},
        {"tied_embeddings": "target", "num_decoder_layers": 1},
    ],
    ids=["post", "pre", "shallow"],
)
def test_what_is_written_is_read_in_our_order_of_pieces(tmp_path, changes):
    model, flat = made(**changes)
    write(tmp_path, model, flat)
    foreign, there, params = read(tmp_path)
    assert there == model.clone(num_decoder_layers=model.decoder_depth)
    old = foreign.orders[0].old
    assert old.tolist() == [0, 2, 12, 1, *range(3, 12)]
    for path, array in flat.items():
        rows = path.endswith("embedding") or path == "output_bias"
        np.testing.assert_array_equal(params[path], array[old] if rows else array)
    loaded = vocabulary.load(foreign.vocabulary, source_end=False)
    assert loaded.target.encode(["abz"])[0] == [4, 5, 2, 1]
    assert loaded.source.encode(["ab"])[0] == [4, 5, 0]
    assert not foreign.config["vocabulary.source_end"]


def test_a_decoder_may_start_from_a_zero_embedding(tmp_path):
    """Then the start symbol is any, is never said, and the source has an end."""
    model, flat = made()
    write(tmp_path, model, flat, **{"decoder/start_from_zero_embedding": np.array(1, np.int8)})
    for side in ("source", "target"):  # as OPUS-MT's: no <s>
        pieces = ["</s>", "<unk>", *LETTERS, "j", "<pad>"]
        (tmp_path / f"{side}_vocabulary.txt").write_text("".join(f"{x}\n" for x in pieces))
    foreign, _, params = read(tmp_path)
    embedding, old = params["target_embedding/embedding"], foreign.orders[1].old
    assert not embedding[START].any()
    expected = np.delete(flat["target_embedding/embedding"][old], START, axis=0)
    np.testing.assert_array_equal(np.delete(embedding, START, axis=0), expected)
    assert np.nonzero(params["output_bias"])[0].tolist() == [START]
    assert params["output_bias"][START] < -30
    assert foreign.config["vocabulary.source_end"]
    assert foreign.config["decode.min_length"] == 1  # CTranslate2's min_decoding_length


def test_positions_of_one_half_only_are_compared_too(tmp_path):
    model, flat = made()
    name = "encoder/position_encodings/encodings"
    encodings = np.asarray(sinusoids(np.arange(40)[None] + 1, 16, "concatenated"))[0]
    write(tmp_path, model, flat, **{name: encodings})
    assert ctranslate2_read.read(tmp_path).fields["positions"] == "concatenated"
    for table in (encodings + 1, encodings[0], encodings[:, :8]):
        write(tmp_path, model, flat, **{name: table})
        with pytest.raises(UserError, match="no sinusoids that we know"):
            ctranslate2_read.read(tmp_path)


@pytest.mark.parametrize("kind", ["interleaved", "halves", "concatenated"])
@pytest.mark.parametrize("first", [0, 1])
def test_a_table_of_sinusoids_is_recognised(tmp_path, kind, first):
    model, flat = made()
    encodings = np.asarray(sinusoids(np.arange(40)[None] + first, 16, kind))[0]
    write(tmp_path, model, flat, encodings=encodings)
    fields = ctranslate2_read.read(tmp_path).fields
    assert (fields["positions"], fields["first_position"]) == (kind, first)
    write(tmp_path, model, flat, encodings=np.roll(encodings, 1, axis=1))
    with pytest.raises(UserError, match="no sinusoids that we know"):
        ctranslate2_read.read(tmp_path)


def test_config_json_says_how_a_source_ends(tmp_path):
    write(tmp_path, *made(), config='{"add_source_eos": true, "layer_norm_epsilon": 1e-3}')
    foreign = ctranslate2_read.read(tmp_path)
    assert foreign.config["vocabulary.source_end"]
    assert foreign.fields["norm_epsilon"] == 1e-3


def both(name, value, kind=np.int8):
    return {f"{half}/{name}": np.array(value, kind) for half in ("encoder", "decoder")}


@pytest.mark.parametrize(
    ("scale", "factor"),
    [(np.int8(1), 1), (np.float32(4), 1), (np.int8(0), 1 / 4), (np.float32(2), 1 / 2)],
)
def test_a_factor_of_the_embeddings_is_one_of_our_tables(tmp_path, scale, factor):
    model, flat = made()
    write(tmp_path, model, flat, **both("scale_embeddings", scale, scale.dtype))
    foreign, _, params = read(tmp_path)
    table = flat["target_embedding/embedding"][foreign.orders[0].old]
    sides = ("target",) if factor == 1 else ("source", "target")
    for side in sides:
        np.testing.assert_array_equal(params[f"{side}_embedding/embedding"], table * factor)
    assert foreign.fields["tied_embeddings"] == ("all" if factor == 1 else "none")
    if factor != 1:
        np.testing.assert_array_equal(params["output_embedding/embedding"], table)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"config": '{"add_source_bos": true}'}, "add_source_bos is true"),
        ({"config": "[]"}, "config.json is not a JSON object"),
        ({"config": "null"}, "config.json is not a JSON object"),
        ({"config": '{"unk_token": {}}'}, "unk_token is missing, or no str"),
        ({"config": '{"layer_norm_epsilon": "x"}'}, "layer_norm_epsilon is missing, or no float"),
        ({"encoder/rms_norm": np.array(1, np.int8)}, "encoder/rms_norm is set"),
        ({"decoder/scale_outputs": np.array(0.5, np.float32)}, "decoder/scale_outputs is set"),
        ({"encoder/layer_0/ffn/w": np.ones(2, np.float32)}, "encoder/layer_0/ffn/w is no variable"),
        (both("activation", 9), "activation is number 9"),
        ({"encoder/num_heads": None}, "num_heads is missing"),
        *(
            ({f"decoder/{name}": np.array(value, np.int8)}, f"encoder/{name}=.* differ")
            for name, value in {**{"num_heads": 1, "activation": 0, "pre_norm": 1}}.items()
        ),
        ({"decoder/scale_embeddings": np.array(0, np.int8)}, "is 4 in the encoder, 1 in the dec"),
        (both("scale_embeddings", np.nan, np.float32), "is nan in the encoder"),
        ({"decoder/embeddings/weight": None}, "decoder/embeddings/weight, .* is missing"),
        ({"encoder/embeddings/weight": np.zeros(16, np.float32)}, "is missing, or no matrix"),
        ({"encoder/layer_0/ffn/linear_0/bias": None}, "linear_0/bias is missing"),
        (
            {"decoder/layer_1/ffn/linear_0/bias": np.full(24, np.nan, np.float32)},
            "decoder/layer_1/ffn/linear_0/bias has non-finite values",
        ),
        (
            {f"encoder/layer_{i}/ffn/linear_0/bias": np.zeros(0, np.float32) for i in range(3000)},
            "'encoder': 3000, .* layers, expected 1 to 256",
        ),
        ({"decoder/layer_1/ffn/linear_0/bias": None}, "decoder/layer_1/ffn/linear_0/bias is miss"),
        ({"decoder/layer_0/ffn/linear_1/bias": np.zeros(9, np.float32)}, r"has the shape \[9\]"),
        ({"decoder/embeddings/weight": np.zeros((20, 16), np.float32)}, "has 12 pieces, the model"),
    ],
    ids=str,
)
def test_what_we_have_no_form_for_is_named(tmp_path, changes, said):
    write(tmp_path, *made(), **changes)
    with pytest.raises(UserError, match=said):
        read(tmp_path)


def test_every_parameter_has_a_place_of_its_own():
    _, flat = made(tied_embeddings="none", output_bias=True, norm="pre", final_norm=True)
    assert len({ctranslate2_read.place_of(path) for path in flat}) == len(flat)
    place = ctranslate2_read.place_of("encoder/layers_0/self_attention/key/kernel")
    assert place == ("encoder/layer_0/self_attention/linear_0/weight", 1, 3)  # the docstring's
    assert matrices.matrix_shape("encoder/layers_0/self_attention/key/kernel", (16, 2, 8)) == (
        16,
        16,
    )
