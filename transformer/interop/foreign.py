"""A model of another program, in our terms."""

import dataclasses
from typing import Any, NamedTuple

import flax.linen as nn
import numpy as np

from transformer.data.tokenizer import END, PAD, START, UNKNOWN
from transformer.errors import UserError


class Renumbering(NamedTuple):
    """The order in which a foreign vocabulary's pieces get our ids: the special ones first.

    `old[i]` is the foreign id of our piece i. START may be a copy of another piece, as Marian
    begins an output with its padding, which no output may contain.
    """

    old: np.ndarray
    pieces: list[str]

    @property
    def count(self) -> int:
        """How many pieces there are in the foreign vocabulary."""
        return int(self.old.max()) + 1

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

    def order_of(self, path: str) -> Renumbering:
        """Returns the order of the pieces of an embedding or a bias."""
        return self.orders[0 if path.startswith("source_") else 1]


def renumber(pieces: list[str], *, pad: int, end: int, unknown: int, start: int) -> Renumbering:
    """Returns the order in which our special ids are PAD, END, UNKNOWN, START = 0, 1, 2, 3.

    Example: with pieces </s> <unk> a b <pad>, where an output starts with <pad>, `old` is
    4 0 1 4 2 3: START is the second row of <pad>, and is called <s>.
    """
    special = dict(zip((PAD, END, UNKNOWN, START), (pad, end, unknown, start), strict=True))
    taken = set(special.values())
    old = [special[i] for i in range(4)] + [i for i in range(len(pieces)) if i not in taken]
    names = [pieces[i] for i in old]
    for ours, usual in ((END, "</s>"), (UNKNOWN, "<unk>"), (START, "<s>"), (PAD, "<pad>")):
        if names.count(names[ours]) > 1:  # a copy; two pieces have two names
            names[ours] = usual if usual not in names else f"<{usual}>"
    return Renumbering(np.array(old), names)


# What `check_form` allows of any model: () is any value. These fields have a form in every program,
# or change no output. (max_positions and max_distance go with `positions`.)
ANY = dict.fromkeys(
    (
        *("d_model", "d_ff", "num_heads", "num_layers", "key_size", "value_size", "norm_epsilon"),
        *("attention_bias", "tied_embeddings", "max_positions", "max_distance", "dtype", "remat"),
        *("dropout_rate", "attention_dropout_rate", "activation_dropout_rate"),
        *("parent", "name"),  # flax's own
    ),
    (),
)
# What it allows of models with LayerNorm before each sub-layer, as Hugging Face has them.
PRE_NORM = {
    **ANY,
    **{"norm": ("pre",), "norm_kind": ("layer",), "final_norm": (True,), "residual": (True,)},
}


def check_form(model: nn.Module, program: str, allowed: dict[str, tuple], formats: str) -> None:
    """Raises UserError for a model that another program has no form for.

    `allowed` are the values that each field of the model may have there; a field that it lacks has
    no form. `formats` are the values of config.export.format to use instead. The heads there have
    d_model / num_heads dimensions.
    """
    for name in (field.name for field in dataclasses.fields(model)):
        value, values = getattr(model, name), allowed.get(name)
        if values is None or (values and value not in values):
            only = f", only for {', '.join(map(repr, values))}" if values else ""
            raise UserError(
                f"{program} has no form for config.model.{name}={value!r}{only}: use "
                f"--config.export.format={formats}"
            )
    if {model.key_size, model.value_size} - {0, model.d_model / model.num_heads}:
        raise UserError(
            f"{program} has heads of d_model / num_heads: config.model.key_size and value_size "
            "have other sizes"
        )
