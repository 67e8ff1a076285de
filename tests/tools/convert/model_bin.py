"""Writes CTranslate2's model.bin by hand: its own package writes only the newest version."""

import struct

import numpy as np

from transformer.tools.convert.binary_variables import TYPES
from transformer.tools.convert.ctranslate2_read import place_of
from transformer.tools.convert.matrices import matrix


def string(text):
    return struct.pack("<H", len(text.encode()) + 1) + text.encode() + b"\0"


def content(variables, aliases=(), spec="TransformerSpec", version=6):
    """The bytes of a model.bin of a version from 2 to 6."""
    parts = [struct.pack("<I", version), string(spec), struct.pack("<II", 7, len(variables))]
    for name, array in variables.items():
        kind, count = TYPES.index(array.dtype.type), array.nbytes
        if version < 4:
            kind, count = array.itemsize, array.size
        shape = struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape)
        parts += [string(name), shape, struct.pack("<BI", kind, count), array.tobytes()]
    if version >= 3:
        parts += [struct.pack("<I", len(aliases))]
        parts += [string(alias) + string(name) for alias, name in dict(aliases).items()]
    return b"".join(parts)


def variables_of(model, flat):
    """The variables of one of our models, {path: array}, as CTranslate2 names them."""
    parts = {}
    for path, array in flat.items():
        name, part, _ = place_of(path)
        if path.endswith("kernel"):
            array = matrix(path, array)
        elif not path.endswith("embedding"):
            array = array.reshape(-1)
        parts.setdefault(name, {})[part] = np.asarray(array, np.float32)
    variables = {
        name: np.concatenate([x for _, x in sorted(arrays.items())])
        for name, arrays in parts.items()
    }
    for half in ("encoder", "decoder"):
        variables[f"{half}/num_heads"] = np.array(model.options.num_heads, np.int16)
        variables[f"{half}/pre_norm"] = np.array(model.options.norm == "pre", np.int8)
        variables[f"{half}/activation"] = np.array(2, np.int8)  # silu
    return variables
