"""One position of a recurrent decoder, with or without attention.

All kinds of attention share the rest of the model, so that a comparison measures attention alone.
The shared parts depart from the papers. Encoder: bidirectional by default, as Bahdanau's;
Sutskever's and Luong's read in one direction, Sutskever's the reversed source. First state: a tanh
layer of the last states of both directions; Bahdanau's layer reads the backward state only,
Sutskever's and Luong's decoders begin with the encoder's states themselves. Output: a tanh layer,
as in Luong's equation 5; Bahdanau has maxout.
"""

from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer.models.attention import attend
from transformer.models.scores import Score

Array = jax.Array
SCORES = {"additive": "additive", "dot": "dot", "general": "general", "concat": "additive"}


class DecoderStep(nn.Module):
    """Computes one target position of each beam from the state after the position before.

    The state is (carry of each layer's cell, Luong's attentional vector). Only Luong's kinds of
    attention feed and update the vector ("input feeding").
    """

    d_model: int
    num_layers: int
    cell: Callable  # of `features` and a name: a Flax cell
    attention: str

    @nn.compact
    def __call__(self, state: tuple, x_BWD: Array, memory: tuple) -> tuple[tuple, tuple]:
        """Returns the next state, and (output_BWD, weights_BWS)."""
        carries, fed_BWD = state
        mix = nn.Dense(self.d_model, use_bias=False, name="mix")
        inputs, weights_BWS = [x_BWD], None
        # Bahdanau attends by the previous state, and the context enters the cells. Luong attends
        # by the new state, after the cells, which read the vector of the position before.
        if self.attention == "additive":
            # The last leaf is h: a GRU's carry, or the second of an LSTM's (c, h).
            last_BWD = jax.tree.leaves(carries)[-1]
            context_BWD, weights_BWS = self._attend(last_BWD, memory)
            inputs += [context_BWD]
        elif self.attention != "none":
            inputs += [fed_BWD]
        h_BWD, next_carries = jnp.concatenate(inputs, axis=-1), []
        for i, carry in enumerate(carries):
            carry, h_BWD = self.cell(features=self.d_model, name=f"cell_{i}")(carry, h_BWD)
            next_carries.append(carry)
        if self.attention == "additive":
            h_BWD = jnp.tanh(mix(jnp.concatenate([h_BWD, *inputs], axis=-1)))
        elif self.attention != "none":
            context_BWD, weights_BWS = self._attend(h_BWD, memory)
            h_BWD = fed_BWD = jnp.tanh(mix(jnp.concatenate([context_BWD, h_BWD], axis=-1)))
        return (tuple(next_carries), fed_BWD), (h_BWD, weights_BWS)

    def _attend(self, h_BWD: Array, memory: tuple) -> tuple[Array, Array]:
        """Returns (context_BWD, weights_BWS): each beam attends to the source's positions."""
        keys_BHKS, values_BHSC, mask_BTS = memory  # H = 1, and a mask that all queries share
        if SCORES[self.attention] == "additive":
            h_BWD = nn.Dense(self.d_model, use_bias=False, name="query")(h_BWD)
        # [B, W, D] -> [B, T = W, H = 1, D]: a beam is a query of the one source.
        scores_BHTS = Score(SCORES[self.attention], name="score")(h_BWD[:, :, None], keys_BHKS)
        context_BTHC, weights_BHTS = attend(scores_BHTS, mask_BTS, values_BHSC, lambda x: x)
        return context_BTHC[:, :, 0], weights_BHTS[:, 0]
