"""Files of arrays, and files that only look like them."""

import pickle
import sys

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from transformer.errors import UserError
from transformer.tools.convert import arrays

VALUES = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(2, np.float32)}


def test_what_is_written_is_read(tmp_path):
    arrays.write(tmp_path / "model.safetensors", {**VALUES, "t": VALUES["a"].T})
    with arrays.opened(tmp_path) as (file, shapes, load):
        assert file == tmp_path / "model.safetensors"
        assert shapes == {"a": (2, 3), "b": (2,), "t": (3, 2)}
        for name, array in VALUES.items():
            np.testing.assert_array_equal(load(name), array)
        np.testing.assert_array_equal(load("t"), VALUES["a"].T)


def test_an_array_is_read_only_if_it_is_as_expected(tmp_path):
    values = {**VALUES, "nan": np.full(2, np.nan, np.float32), "large": np.array([1e300])}
    values["half"] = np.array([0.5, 3.0], ml_dtypes.bfloat16)
    safetensors.numpy.save_file(values, tmp_path / "model.safetensors")
    with arrays.opened(tmp_path) as opened:
        np.testing.assert_array_equal(opened.read("b", (2,)), [1, 1])
        np.testing.assert_array_equal(opened.read("half", (2,)), [0.5, 3.0])
        for name, shape, said in (
            ("a", (6,), r"a has the shape \[2, 3\], expected \[6\]"),
            ("z", (), "z is missing"),
            ("nan", (2,), "nan has non-finite values"),
            ("large", (1,), "large has non-finite values"),
        ):
            with pytest.raises(UserError, match=said):
                opened.read(name, shape)


class Trap:
    def __reduce__(self):
        return exec, ("import pathlib; pathlib.Path('taken').touch()",)


WHOLE = safetensors.numpy.save(VALUES)
OTHERS = [safetensors.numpy.save({**VALUES, "x": np.ones(2, x)}) for x in (np.complex64, np.int32)]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        *(("model.safetensors", WHOLE[:n], "model.safetensors is damaged") for n in (0, 4, 40, -3)),
        *(("model.safetensors", x, "x is not a real floating-point array") for x in OTHERS),
        ("other", b"", "neither model.safetensors nor pytorch_model.bin"),
        # With PyTorch its safe loader refuses it, without PyTorch nothing opens it.
        ("pytorch_model.bin", pickle.dumps({"a": Trap()}), "pytorch_model.bin (is|needs)"),
    ],
)
def test_what_is_no_file_of_real_arrays_is_named_and_not_run(
    tmp_path, monkeypatch, name, content, words
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=words), arrays.opened(tmp_path):
        pass
    assert not (tmp_path / "taken").exists()


def test_without_pytorch_its_file_asks_for_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    with pytest.raises(UserError, match="bin needs a package: pip "), arrays.opened(tmp_path):
        pass


@pytest.mark.parametrize("zipped", [True, False], ids=["zipped", "as before version 1.6"])
def test_pytorch_s_file_is_read(tmp_path, zipped):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    file, halves = tmp_path / "pytorch_model.bin", {"a": torch.tensor(VALUES["a"]).half()}
    torch.save(halves, file, _use_new_zipfile_serialization=zipped)
    with arrays.opened(tmp_path) as (_, shapes, load):
        assert shapes == {"a": (2, 3)}
        np.testing.assert_array_equal(load("a"), VALUES["a"])
    content = file.read_bytes()
    file.unlink()  # it may be mapped
    file.write_bytes(content[:-9])
    with pytest.raises(UserError, match=r"pytorch_model.bin is damaged"), arrays.opened(tmp_path):
        pass


@pytest.mark.parametrize("name", ["complex", "int", "list"])
def test_what_is_no_tensor_of_numbers_is_refused(tmp_path, name):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    ones = torch.nn.Parameter(torch.ones(2, 2))
    wrong = {"complex": ones * 1j, "int": ones.int(), "list": [1]}
    torch.save({"right": ones, name: wrong[name]}, tmp_path / "pytorch_model.bin")
    said = f"{name} is not a real floating-point array"
    with pytest.raises(UserError, match=said), arrays.opened(tmp_path):
        pass
