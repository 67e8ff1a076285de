"""A tiny one of each model of the registry, and its inputs.

A model of your own needs a line in TINY: what its rows hold, and all of its fields. NAME/VARIANT is
the same model with other fields. A part of your own needs none: fields without defaults get small
numbers. It has a line in WRITTEN to be checked with other values, or for a text without a default.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import NamedTuple

import flax.linen as nn
import jax
import numpy as np
from conformance import tables
from helpers import tiny

from configs import multi30k_rnn
from transformer import registry
from transformer.families.recurrent.recurrent_step import Attention
from transformer.models import boxes
from transformer.models import fields as model_fields

ITEMS = tiny.pairs([(5, 4), (3, 6), (4, 3)])
LENGTH = 14  # positions of a row
IMAGES = np.random.default_rng(0).integers(0, 256, (len(ITEMS), 12, 12, 3)).astype(np.uint8)


class Kind(NamedTuple):
    """What a model reads, and of what its logits are."""

    # (rows, length) -> (inputs, where): a row is a list of numbers of ITEMS, packed in this order;
    # logits[where] are those of the items, in order.
    batch: Callable
    packed: bool = False  # whether a row may hold several items
    # The inputs (tokens, positions, segments) that a model generates from, and those that it
    # encodes: ("target", ...) and ("source", ...) of a translation model.
    target: tuple[str, ...] = ()
    source: tuple[str, ...] = ()


def pairs(rows, length):
    """Sentence pairs, as data/pairs.py lays them out."""
    batch = tiny.batch([[ITEMS[i] for i in row] for row in rows], length, length)
    return batch["inputs"], batch["weights"] > 0


def texts(rows, length, names=("tokens", "positions", "segments")):
    """The target sides alone, as families/language_model/streams.py lays them out."""
    inputs, where = pairs(rows, length)
    sides = ("target", "target_positions", "target_segments")
    return {name: inputs[side] for name, side in zip(names, sides, strict=True)}, where


def masked_texts(rows, length):
    """As families/texts/texts.py lays them out; every column is masked."""
    inputs, where = texts(rows, length, ("ids", "positions", "segments"))
    masked = np.broadcast_to(np.arange(length, dtype=np.int32), where.shape)
    return {**inputs, "masked": masked}, where


def labelled_texts(rows, length):
    """One text a row."""
    inputs, where = texts(rows, length, ("ids", "positions", "segments"))
    return inputs, where.any(axis=1)


def pairs_of_texts(rows, length):
    """Two texts a row: an item's first two tokens, and the others."""
    inputs, where = labelled_texts(rows, length)
    second = inputs["positions"] > 1
    moved = {"positions": inputs["positions"] - 2 * second, "segments": inputs["segments"] + second}
    return inputs | moved, where


def images(rows, length):
    """One image a row; `length` is not used."""
    del length
    batch = [IMAGES[row[0]] if row else 0 * IMAGES[0] for row in rows]
    return {"images": np.array(batch)}, np.array([bool(row) for row in rows])


def fields(*removed, **changes):
    """Returns the fields of the tiny Transformer but for those removed, with changes."""
    return {k: v for k, v in tiny.ARGUMENTS.items() if k not in removed} | changes


SIDES = [(side, f"{side}_positions", f"{side}_segments") for side in ("target", "source")]
PAIRS = Kind(pairs, True, *SIDES)
STREAM = Kind(texts, True, ("tokens", "positions", "segments"))
MASKED = Kind(masked_texts, True)
TEXT, TWO_TEXTS, IMAGE = Kind(labelled_texts), Kind(pairs_of_texts), Kind(images)

OF_PAIRS = ("source_vocab_size", "target_vocab_size", "tied_embeddings", "num_decoder_layers")
OF_PAIRS += ("output_bias", "decoder_mixer")
ENCODER = functools.partial(fields, *OF_PAIRS, vocab_size=tiny.VOCABULARY)
LSTM = {"vocab_size": tiny.VOCABULARY, "num_classes": 3, "d_model": 6, "state_size": 5, "d_ff": 7}
LSTM |= {"attention_size": 4, "forget_bias": 0.5, "dropout_rate": 0.0}
LSTMN = {name: LSTM[name] for name in LSTM if name not in ("num_classes", "d_ff")}
PARIKH = {"vocab_size": tiny.VOCABULARY, "num_classes": 3, "d_model": 6, "d_ff": 7}
PARIKH |= {"intra_attention": False, "max_distance": 2, "dropout_rate": 0.0}
VISION = {"num_classes": 3, "image_size": 12, "patch_size": 4, "stem": "patches", "stem_depth": 1}
VISION |= {"pooling": "token", "positions": "learned", "position_grid": 3}
VISION |= {"mean": (0.4, 0.5, 0.6), "std": (0.1, 0.2, 0.3)}
VISION = fields(*OF_PAIRS, "max_positions", **VISION)
PADDED = {"stem": "convolutions", "patch_size": 8, "position_grid": 2}  # sides 12, 6, 3 and 2
NETWORK = {"stem": "convolutions", "stem_depth": 2, "num_layers": 0, "pooling": "mean"}


def recurrent(cell, variant, **changes):
    """Returns a recurrent model's fields, with attention of a variant of its config."""
    sizes = {"source_vocab_size": tiny.VOCABULARY, "target_vocab_size": tiny.VOCABULARY}
    values = {"d_model": 8, "num_layers": 2, "tied_embeddings": "none", "forget_bias": 0.5}
    values |= {"bidirectional": True, "cell_norm": "none", "dropout_rate": 0.0, "cell": cell}
    return {**sizes, **values, **recurrent_attention(variant), **changes}


def recurrent_attention(variant):
    """The keys of attention of a variant of configs/multi30k_rnn.py, for sources of few pieces."""
    keys = dict(multi30k_rnn.get_config(variant).model)
    names = [field.name for field in dataclasses.fields(Attention)]
    return {**{name: keys[name] for name in names}, "window_radius": 1, "location_positions": 3}


BAHDANAU = {"attention_place": "before", "input_feeding": False}
LANGUAGE_MODEL = functools.partial(ENCODER, tied_embeddings=True)

TINY = {
    "transformer": (PAIRS, fields()),
    "transformer/pre": (PAIRS, fields(**tiny.PRE, attention_bias=True)),
    "transformer/learned": (PAIRS, fields(positions="learned", tied_embeddings="none")),
    "recurrent": (PAIRS, recurrent("gru", "additive")),
    "recurrent/no attention": (PAIRS, recurrent("gru", "none")),
    "recurrent/concat": (PAIRS, recurrent("gru", "concat")),
    "recurrent/location": (PAIRS, recurrent("gru", "location", input_feeding=False)),
    "recurrent/monotonic": (PAIRS, recurrent("gru", "monotonic")),
    "recurrent/predictive": (PAIRS, recurrent("gru", "predictive", **BAHDANAU)),
    "recurrent/intra": (PAIRS, recurrent("gru", "intra")),
    "recurrent/intra, before": (PAIRS, recurrent("lstm", "intra", **BAHDANAU)),
    "recurrent/intra alone": (PAIRS, recurrent("rnn", "none", decoder_attention=True)),
    "recurrent/lstm": (PAIRS, recurrent("lstm", "dot")),
    "recurrent/rnn": (PAIRS, recurrent("rnn", "dot", bidirectional=False)),
    "recurrent/normalised": (PAIRS, recurrent("lstm", "additive", cell_norm="layer")),
    "lstm_language_model": (STREAM, LSTMN),
    "lstm_language_model/lstm": (STREAM, {**LSTMN, "attention_size": 0}),
    "language_model": (STREAM, LANGUAGE_MODEL(**tiny.PRE, positions="learned")),
    "language_model/sinusoids": (STREAM, LANGUAGE_MODEL(attention_bias=True)),
    "language_model/pattern": (STREAM, LANGUAGE_MODEL(mixer="average,attention")),
    "masked_language_model": (MASKED, ENCODER(mask_share=0.95)),
    "masked_language_model/learned": (MASKED, ENCODER(mask_share=0.95, positions="learned")),
    "text_classifier": (TEXT, ENCODER(num_classes=3, pooling="mean")),
    "text_classifier/first": (TEXT, ENCODER(num_classes=3, pooling="first", positions="learned")),
    "text_classifier/pairs": (TWO_TEXTS, ENCODER(num_classes=3, pooling="mean")),
    "decomposable": (TWO_TEXTS, PARIKH),
    "decomposable/intra": (TWO_TEXTS, {**PARIKH, "intra_attention": True}),
    "self_attentive": (TEXT, {**LSTM, "num_hops": 2, "penalty": 0.7}),
    "intra_attention": (TEXT, LSTM),
    "vision_transformer": (IMAGE, VISION),
    "vision_transformer/mean": (IMAGE, {**VISION, "pooling": "mean"}),
    "vision_transformer/convolutions": (IMAGE, {**VISION, **PADDED}),
    "vision_transformer/network": (IMAGE, {**VISION, **NETWORK}),
}

# How parts are written that have other fields here than their defaults.
WRITTEN = {
    "mixer/shared": "shared(projections='qk')",
    "mixer/grouped_query": "grouped_query(num_key_heads=1)",
    "mixer/local": "local(window=5)",
    "mixer/light_convolution": "light_convolution(width=5)",
    "mixer/dynamic_convolution": "dynamic_convolution(width=4)",
    "mixer/state_space": "state_space(state_size=3,expand=2,width=4)",
    "positions/shaw": "shaw(max_distance=2)",
    "positions/t5": "t5(max_distance=40)",
    "feed_forward/gated": "gated(activation='sigmoid')",
    "feed_forward/experts": "experts(count=3)",
}
SMALL = {int: 3, float: 0.5, bool: True}  # of fields without defaults


def written(part):
    """Returns a part with the fields that it must be given, NAME or NAME(FIELD=3)."""
    name, code = part.partition("/")[2], registry.load(tables.PARTS[part])
    parameters = inspect.signature(code).parameters.items()
    own = {name: x.annotation for name, x in parameters if x.default is x.empty}
    values = [f"{k}={SMALL[x]}" for k, x in own.items() if k not in boxes.GIVEN and x in SMALL]
    return f"{name}({', '.join(values)})" if values else name


PARTS = {part: WRITTEN.get(part) or written(part) for part in tables.PARTS}


def with_part(part, text=""):
    """Returns {key: value} of a Transformer of one layer with a part.

    The encoder has it, too, but for a mixer that reads one way.
    """
    both_ways = getattr(registry.load(tables.PARTS[part]), "both_ways", True)
    key = part.partition("/")[0] if both_ways else "decoder_mixer"
    return {key: text or PARTS[part], "num_layers": 1}


for part in PARTS:
    TINY[f"transformer/{part}"] = PAIRS, fields(**with_part(part))
    if part.startswith("positions/"):  # its layers are the Transformer's, its input is its own
        positions = {"positions": PARTS[part], "num_layers": 1}
        TINY[f"language_model/{part}"] = STREAM, LANGUAGE_MODEL(**positions)


class Case(NamedTuple):
    name: str
    kind: Kind
    model: nn.Module
    params: dict

    def logits(self, inputs):
        return tiny.logits(self.model, self.params, inputs)

    def sown(self, inputs):
        """Returns the logits, and all that layers give and sow."""
        options = {"mutable": ["intermediates", "losses"], "capture_intermediates": True}
        run = functools.partial(self.model.apply, train=False, **options)
        return jax.tree.map(np.asarray, tiny.jit(run)({"params": self.params}, **inputs))

    def items(self, rows, length=LENGTH):
        inputs, where = self.kind.batch(rows, length)
        return self.logits(inputs)[where]


def model_class(name):
    return registry.load(registry.MODELS[name.partition("/")[0]])


def build(name, **changes):
    """Builds a model of TINY with these fields instead."""
    return model_fields.build(name.partition("/")[0], {**TINY[name][1], **changes})


@functools.cache
def case(name, **changes):
    """Builds a model of TINY, with random params."""
    kind, model = TINY[name][0], build(name, **changes)
    return Case(name, kind, model, tiny.parameters(model, kind.batch([[0]], LENGTH)[0]))
