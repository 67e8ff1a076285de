"""The attention weights of a trained model, for a batch or a sentence pair."""

import functools

import flax.linen as nn
import jax
import numpy as np

from transformer.data import pairs, tokenizer
from transformer.decoding import batch_sizes
from transformer.tasks.saved_model import SavedModel


@functools.partial(jax.jit, static_argnames="model")
def batch_weights(params: dict, inputs: dict, *, model: nn.Module) -> dict[str, jax.Array]:
    """Returns the attention weights of a batch, {'cross': [L, B, H, T, S], ...}.

    The model's method `attention_weights` defines the kinds; {} without it.
    """
    if not hasattr(model, "attention_weights"):
        return {}
    # Each layer sows its weights [B, H, T, S]; the model's method stacks them by kind.
    _, sown = model.apply({"params": params}, **inputs, train=False, mutable=["intermediates"])
    return model.attention_weights(sown.get("intermediates", {}))


def pair_weights(run: SavedModel, source: str, target: str) -> dict[str, np.ndarray]:
    """Returns the attention weights and the pieces of a sentence pair, without a batch dimension.

    The weights are 'encoder' [L, H, S, S], 'decoder' [L, H, T, T] and 'cross' [L, H, T, S], none of
    them for a model without attention. The pieces are 'source' [S] and 'target' [T].
    """
    both = ids(run.vocabulary, source, target)
    # Pad 19 ids to 32, so that few static shapes are compiled.
    shaped = [tokenizer.padded([x], 1, batch_sizes.next_power_of_two(len(x))) for x in both]
    inputs = pairs.inputs_of_single_pairs(*shaped)
    padded_weights = batch_weights(run.params, inputs, model=run.model)
    S, T = map(len, both)
    sizes = {"encoder": (S, S), "decoder": (T, T), "cross": (T, S)}
    # [L, 1, H, padded, padded] -> [L, H, queries, keys], without batch axis and padding.
    cut = lambda array, queries, keys: np.asarray(array[:, 0, :, :queries, :keys])
    arrays = {name: cut(array, *sizes[name]) for name, array in padded_weights.items()}
    for name, side, side_ids in zip(("source", "target"), run.vocabulary, both, strict=True):
        arrays[name] = np.array(side.pieces(side_ids))
    return arrays


def ids(vocabulary: tokenizer.Vocabulary, *texts: str) -> list[list[int]]:
    """Returns the ids of a pair's source and target, each with the end symbol."""
    return [side.encode([text])[0] for side, text in zip(vocabulary, texts, strict=True)]
