"""CTranslate2's model.bin, of each version."""

import ml_dtypes
import numpy as np
import pytest
from tools.convert import model_bin

from transformer.errors import UserError
from transformer.tools.convert import binary_variables

VARIABLES = {
    "encoder/layer_0/weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "encoder/layer_1/weight": np.ones((1, 2), np.float32),
    "encoder/layer_norm/gamma": np.ones(3, np.float32),
    "encoder/num_heads": np.array(8, np.int16),
}


@pytest.mark.parametrize("version", binary_variables.VERSIONS)
def test_variables_are_read(tmp_path, version):
    file = tmp_path / "model.bin"
    aliases = {"decoder/weight": "encoder/layer_0/weight"} if version >= 3 else {}
    file.write_bytes(model_bin.content(VARIABLES, aliases, version=version))
    model = binary_variables.read(file)
    assert model.spec == "TransformerSpec"
    for name, array in VARIABLES.items():
        np.testing.assert_array_equal(model.array(name), array)
    assert "nothing" not in model.shapes
    assert ("decoder/weight" in model.shapes) == (version >= 3)
    assert model.count("encoder/layer_") == 2
    assert model.scalar("encoder/num_heads", None) == 8
    assert model.scalar("nothing", 3) == 3
    for name in ("nothing", "encoder/layer_norm/gamma"):
        with pytest.raises(UserError, match=f"{name} is missing, or is not a number"):
            model.scalar(name)


def test_quantised_weights_are_multiplied_out(tmp_path):
    weights = np.array([[1.0, -0.5], [0.25, 2.0]], np.float32)
    scale = 127 / np.abs(weights).max(axis=1)
    quantised = np.round(weights * scale[:, None]).astype(np.int8)
    variables = {"weight": quantised, "weight_scale": scale.astype(np.float32)}
    variables["half"] = weights.astype(np.float16)
    variables["bfloat"] = weights.astype(ml_dtypes.bfloat16)
    (tmp_path / "model.bin").write_bytes(model_bin.content(variables))
    model = binary_variables.read(tmp_path / "model.bin")
    np.testing.assert_allclose(model.array("weight"), weights, atol=0.01)
    assert (model.array("half") == weights).all()
    assert (model.array("bfloat") == weights).all()
    variables["weight_scale"] = np.ones(3, np.float32)
    (tmp_path / "model.bin").write_bytes(model_bin.content(variables))
    with pytest.raises(UserError, match=r"weight_scale has the shape \[3\]"):
        binary_variables.read(tmp_path / "model.bin").array("weight")


def test_a_name_of_nothing_is_refused(tmp_path):
    (tmp_path / "model.bin").write_bytes(model_bin.content(VARIABLES, {"a": "nothing"}))
    with pytest.raises(UserError, match="nothing, also named a, is missing"):
        binary_variables.read(tmp_path / "model.bin")


def test_a_file_cut_anywhere_is_named(tmp_path):
    whole = model_bin.content(VARIABLES, {"a": "encoder/layer_0/weight"})
    file = tmp_path / "model.bin"
    for stop in range(0, len(whole) - 1, 7):
        file.write_bytes(whole[:stop])
        with pytest.raises(UserError, match=r"model.bin"):
            binary_variables.read(file)
    file.unlink()
    with pytest.raises(UserError, match=r"model.bin is missing"):
        binary_variables.read(file)


def test_a_size_that_is_not_the_shape_s_is_refused_before_memory_is_taken(tmp_path):
    content = model_bin.content({"w": np.zeros((2, 3), np.float32)})
    at = content.index((2).to_bytes(4, "little") + (3).to_bytes(4, "little"))
    broken = content[:at] + b"\xff\xff\xff\xff" + content[at + 4 :]
    (tmp_path / "model.bin").write_bytes(broken)
    with pytest.raises(UserError, match=r"w has 24 bytes, expected 51539607540"):
        binary_variables.read(tmp_path / "model.bin")


def test_another_version_is_refused(tmp_path):
    (tmp_path / "model.bin").write_bytes(b"\x63\0\0\0" + b"x" * 99)
    with pytest.raises(UserError, match=r"binary version 99, expected 2 to 6"):
        binary_variables.read(tmp_path / "model.bin")
