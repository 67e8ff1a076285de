"""Tiny classifiers and masked language models of texts, and batches for them."""

import jax
import numpy as np
from helpers import tiny

from transformer.families.recurrent.intra_attention import IntraAttention
from transformer.families.recurrent.self_attentive import SelfAttentive
from transformer.families.texts.text_encoder import MaskedLanguageModel, TextClassifier
from transformer.models import fields

CLASSES, VOCABULARY = 3, tiny.VOCABULARY
OF_TRANSLATION = (
    *("source_vocab_size", "target_vocab_size", "tied_embeddings"),
    *("num_decoder_layers", "output_bias", "decoder_mixer"),
)
ENCODER = {name: x for name, x in tiny.ARGUMENTS.items() if name not in OF_TRANSLATION}
SIZES = {"vocab_size": VOCABULARY, "num_classes": CLASSES}
SMALL = {**SIZES, "d_model": 6, "state_size": 5, "attention_size": 4, "d_ff": 7, "forget_bias": 0.5}


def masked_model(**changes):
    sizes = {"vocab_size": VOCABULARY, "mask_share": 0.15}
    return fields.make(MaskedLanguageModel, **{**ENCODER, **sizes, **changes})


def classifier(**changes):
    return fields.make(TextClassifier, **{**ENCODER, **SIZES, "pooling": "mean", **changes})


def self_attentive(**changes):
    return SelfAttentive(**{**SMALL, "num_hops": 2, "penalty": 0.7, "dropout_rate": 0.0, **changes})


def intra_attention(**changes):
    return IntraAttention(**{**SMALL, "dropout_rate": 0.0, **changes})


def inputs(lengths=(5, 3, 7), length=8, seed=0):
    """Random texts, one a row, with START first; the same for any row length."""
    random = np.random.default_rng(seed)
    ids = np.zeros((len(lengths), length), np.int32)
    for row, count in enumerate(lengths):
        ids[row, 1:count] = random.integers(4, VOCABULARY, count - 1)
        ids[row, 0] = 3 if count else 0
    segments = (ids > 0).astype(np.int32)
    return {"ids": ids, "positions": segments * np.arange(length), "segments": segments}


def applied(model, params, batch, **options):
    """A compiled forward pass without dropout: its outputs, or with `mutable` what it sows, too."""
    run = lambda p, x: model.apply({"params": p}, **x, train=False, **options)
    return jax.tree.map(np.asarray, tiny.jit(run)(params, batch))
