"""A model of another program, in our terms."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import numpy as np

from transformer.data.tokenizer import END, PAD, START, UNKNOWN
from transformer.errors import UserError
from transformer.models import fields
from transformer.tools.convert import arrays, matrices

MOST_LAYERS = 256  # a model of more is damaged, and would take long to build


class Renumbering(NamedTuple):
    """The order in which a foreign vocabulary's pieces get our ids: the special ones first.

    `old[i]` is the foreign id of our piece i. START may be a copy of another piece, as Marian
    begins an output with its padding, which no output may contain; so may PAD.
    """

    old: np.ndarray
    pieces: list[str]
    count: int  # rows of the foreign tables; those beyond the foreign ids are not read
    silent: tuple[int, ...]  # our ids without a share of the probability, as copies have none

    def rows(self, array: np.ndarray) -> np.ndarray:
        """Reorders an array that has a row for each foreign id: row i is then that of our id i."""
        return array[self.old]


class Foreign(NamedTuple):
    """What a workdir is made of, but for the params.

    `config` are further keys of a config, {'decode.length_penalty': 'power'}; its vocabulary.kind
    says how the vocabulary's files are read.
    """

    fields: dict[str, Any]  # of our Transformer, where they are not the paper's
    orders: tuple[Renumbering, Renumbering]  # of the source's pieces, and of the target's
    vocabulary: dict[str, bytes]  # {name of a file in WORKDIR/vocabulary: content}
    config: dict[str, Any]
    languages: tuple[str, str] = ("", "")  # codes of source and target, where the model names them
    factor: float = 1.0  # of our embeddings, where theirs are not multiplied by sqrt(d_model)


def renumber(
    pieces: list[str], *, pad: int, end: int, unknown: int, start: int, count: int = 0
) -> Renumbering:
    """Returns the order in which our special ids are PAD, END, UNKNOWN, START = 0, 1, 2, 3.

    `count` are the rows of the foreign tables, if these have more than there are pieces.
    Example: with pieces </s> <unk> a b <pad>, where an output starts with <pad>, `old` is
    4 0 1 4 2 3: START is the second row of <pad>, and is called <s>.
    """
    special = dict(zip((PAD, END, UNKNOWN, START), (pad, end, unknown, start), strict=True))
    taken = set(special.values())
    old = [special[i] for i in range(4)] + [i for i in range(len(pieces)) if i not in taken]
    names = [pieces[i] for i in old]
    copies = []
    for ours, usual in ((START, "<s>"), (PAD, "<pad>"), (END, "</s>")):
        if names.count(names[ours]) > 1:  # two pieces have two names
            names[ours] = usual if usual not in names else f"<{usual}>"
            copies.append(ours)
    return Renumbering(np.array(old), names, count or len(pieces), tuple(copies))


SILENT = 50.0  # less than another logit: a probability of 1e-22 of its own


def params_of(
    source: arrays.Arrays,
    foreign: Foreign,
    shapes: dict[str, tuple[int, ...]],
    place_of: Callable[[str], tuple[str, int, int]],
    fault: Callable[[str, np.ndarray], str],
) -> dict[str, np.ndarray]:
    """Reads {path: array} of our params; `shapes` are {path: shape} of the model of `foreign`.

    `place_of(path)` says where an array of ours is: (name, which part of it, of how many parts).
    `fault` is what `check_rest` asks about all arrays that no path reads. UserError for an array
    that is missing, has another shape, or is none of this model.
    """
    params, read = {}, set()
    for path, shape in shapes.items():
        name, part, parts = place_of(path)
        read.add(name)
        if path == "output_bias" or path.endswith("embedding"):
            params[path] = _rows(source, foreign, path, name, shape)
            continue
        is_kernel = path.endswith("kernel")
        rows, *columns = matrices.matrix_shape(path, shape) if is_kernel else (math.prod(shape),)
        array = np.split(source.read(name, (parts * rows, *columns)), parts)[part]
        params[path] = matrices.kernel(array, shape) if is_kernel else array.reshape(shape)
    source.check_rest(read, fault)
    return params


def _rows(
    source: arrays.Arrays, foreign: Foreign, path: str, name: str, shape: tuple[int, ...]
) -> np.ndarray:
    """Reads an array that has a row for each piece."""
    order = foreign.orders[0 if path.startswith("source_") else 1]
    if path == "output_bias":
        # Some files leave out zeros; in some the rows beyond the vocabulary are fewer.
        expected = source.shapes.get(name, (order.count,))
        least = int(order.old.max()) + 1
        if not least <= math.prod(expected) <= order.count:
            raise UserError(
                f"{source.file}: {name} has the shape {list(expected)}, expected {order.count}"
            )
        array = np.zeros(expected, np.float32)
        if name in source.shapes:
            array = source.read(name, expected)
        array = order.rows(array.reshape(-1))
        array[list(order.silent)] -= SILENT
        return array
    array = order.rows(source.read(name, (order.count, *shape[1:])))
    return array if path == "output_embedding/embedding" else array * np.float32(foreign.factor)


# What `check_form` allows of any model: () is any value. These fields have a form in every program,
# or change no output. (max_positions and max_distance go with `positions`.)
ANY = dict.fromkeys(
    (
        *("d_model", "d_ff", "num_heads", "num_layers", "key_size", "value_size", "norm_epsilon"),
        *("attention_bias", "tied_embeddings", "max_positions", "max_distance", "dtype", "remat"),
        *("dropout_rate", "attention_dropout_rate", "activation_dropout_rate"),
    ),
    (),
)


def check_form(model: nn.Module, program: str, allowed: dict[str, tuple], formats: str) -> None:
    """Raises UserError for a model that another program has no form for.

    `allowed` are the values that each field of the model may have there; a field that it lacks has
    no form. `formats` are the values of config.export.format to use instead. The heads there have
    d_model / num_heads dimensions.
    """
    for name, value in fields.values(model).items():
        values = allowed.get(name)
        if values is None or (values and value not in values):
            only = f", only for {', '.join(map(repr, values))}" if values else ""
            raise UserError(
                f"{program} has no form for config.model.{name}={value!r}{only}: use "
                f"--config.export.format={formats}"
            )
    options = model.options
    if {options.key_size, options.value_size} - {0, options.d_model / options.num_heads}:
        raise UserError(
            f"{program} has heads of d_model / num_heads: config.model.key_size and value_size "
            "have other sizes"
        )
