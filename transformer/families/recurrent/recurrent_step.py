"""One position of a recurrent decoder, with or without attention.

The kinds of attention are to differ in attention alone, so all else is the same for all. It departs
from the papers here: the encoder reads in both directions, as Bahdanau's; Sutskever's and Luong's
read in one, Sutskever's the source reversed. The first state is a tanh layer of both directions'
last states; Bahdanau's is of the backward one, the others' are the states themselves. Bahdanau's
output is a maxout layer; here it is a tanh layer, as Luong's equation 5. The GRU is Flax's,
which applies the reset gate after the matrix product (Cho et al. 2014: before it).
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

    The state is the carry of each layer's cell, and Luong's attentional vector ("input feeding"),
    which the other kinds of attention leave as it is.
    """

    d_model: int
    num_layers: int
    cell: Callable  # of a size and a name: a Flax cell
    attention: str

    @nn.compact
    def __call__(self, state: tuple, x_BWD: Array, memory: tuple) -> tuple[tuple, tuple]:
        """Returns the next state, and (output_BWD, weights_BWS)."""
        carries, fed_BWD = state
        mix = nn.Dense(self.d_model, use_bias=False, name="mix")
        inputs, weights_BWS = [x_BWD], None
        if self.attention == "additive":
            last_BWD = jax.tree.leaves(carries)[-1]  # the output, of an LSTM's carry (c, h) too
            context_BWD, weights_BWS = self._attend(last_BWD, memory)
            inputs += [context_BWD]
        elif self.attention != "none":
            inputs += [fed_BWD]
        h_BWD, next_carries = jnp.concatenate(inputs, axis=-1), []
        for i, carry in enumerate(carries):
            carry, h_BWD = self.cell(self.d_model, name=f"cell_{i}")(carry, h_BWD)
            next_carries.append(carry)
        if self.attention == "additive":
            h_BWD = jnp.tanh(mix(jnp.concatenate([h_BWD, *inputs], axis=-1)))
        elif self.attention != "none":
            context_BWD, weights_BWS = self._attend(h_BWD, memory)
            h_BWD = fed_BWD = jnp.tanh(mix(jnp.concatenate([context_BWD, h_BWD], axis=-1)))
        return (tuple(next_carries), fed_BWD), (h_BWD, weights_BWS)

    def _attend(self, h_BWD: Array, memory: tuple) -> tuple[Array, Array]:
        """Returns the context of each beam, and its weights of the source's positions."""
        keys_BHKS, values_BHSC, mask_BTS = memory  # one head, H = 1; beams are the queries, T = W
        if SCORES[self.attention] == "additive":
            h_BWD = nn.Dense(self.d_model, use_bias=False, name="query")(h_BWD)
        scores_BHTS = Score(SCORES[self.attention], name="score")(h_BWD[:, :, None], keys_BHKS)
        context_BTHC, weights_BHTS = attend(scores_BHTS, mask_BTS, values_BHSC, lambda x: x)
        return context_BTHC[:, :, 0], weights_BHTS[:, 0]
