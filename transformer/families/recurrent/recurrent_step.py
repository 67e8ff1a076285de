"""One position of a recurrent decoder, with or without attention.

Bahdanau et al. 2015 and Luong et al. 2015 differ in several things at once. Here each is a choice
of its own: the score, where in the step the decoder looks, whether it is fed what it saw, and how
far it looks. The rest of the model is shared, so that a comparison measures attention alone.
The shared parts depart from the papers. Encoder: bidirectional by default, as Bahdanau's;
Sutskever's and Luong's read in one direction, Sutskever's the reversed source. First state: a tanh
layer of the last states of both directions; Bahdanau's layer reads the backward state only,
Sutskever's and Luong's decoders begin with the encoder's states themselves. Output: a tanh layer,
as in Luong's equation 5; Bahdanau has maxout.
"""

import dataclasses
from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer.models.attention import attend
from transformer.models.scores import Score

Array = jax.Array
KINDS = ("none", "additive", "dot", "general", "location")
PLACES, WINDOWS = ("before", "after"), ("none", "monotonic", "predictive")


@dataclasses.dataclass(frozen=True)
class Attention:
    """How a recurrent decoder looks at the source: keys of config.model.

    attention         'additive', 'dot', 'general': scores of models/scores.py; 'location' scores
                      the source's positions from the state alone, a_t = softmax(W h_t), whatever
                      stands there (Luong, section 3.1); 'none'
    attention_place   'before': the previous state looks, and what it sees enters the cells
                      (Bahdanau); 'after': the new state looks (Luong)
    input_feeding     whether the cells read the attentional vector of the position before, too
                      (Luong, section 3.3); of 'after' alone
    window            'monotonic', 'predictive': sees only what is at most `window_radius` source
                      positions from p_t, the less the farther (Luong, section 3.2: local-m, whose
                      p_t = t, and local-p, equations 9 and 10); 'none': sees all (global)
    """

    attention: str
    attention_place: str
    input_feeding: bool
    window: str
    window_radius: int
    location_positions: int  # source positions that 'location' can score

    @property
    def reads_more(self) -> bool:
        """Whether a vector of attention enters the cells beside the token's embedding."""
        return self.attention != "none" and (self.attention_place == "before" or self.input_feeding)


class DecoderStep(nn.Module):
    """Computes one target position of each beam from the state after the position before.

    The state is (carry of each layer's cell, the attentional vector that input feeding reads).
    """

    d_model: int
    num_layers: int
    cell: Callable  # of `features` and a name: a Flax cell
    options: Attention

    @nn.compact
    def __call__(
        self, state: tuple, x_BWD: Array, position: Array, memory: tuple
    ) -> tuple[tuple, tuple]:
        """Returns the next state, and (output_BWD, weights_BWS); `position` counts from 0."""
        carries, fed_BWD = state
        options = self.options
        place = "" if options.attention == "none" else options.attention_place
        mix = nn.Dense(self.d_model, use_bias=False, name="mix")
        inputs, weights_BWS = [x_BWD], None
        if place == "before":
            # The last leaf is h: a GRU's carry, or the second of an LSTM's (c, h).
            last_BWD = jax.tree.leaves(carries)[-1]
            context_BWD, weights_BWS = self._attend(last_BWD, position, memory)
            inputs += [context_BWD]
        elif options.reads_more:
            inputs += [fed_BWD]
        h_BWD, next_carries = jnp.concatenate(inputs, axis=-1), []
        for i, carry in enumerate(carries):
            carry, h_BWD = self.cell(features=self.d_model, name=f"cell_{i}")(carry, h_BWD)
            next_carries.append(carry)
        if place == "before":
            h_BWD = jnp.tanh(mix(jnp.concatenate([h_BWD, *inputs], axis=-1)))
        elif place == "after":
            context_BWD, weights_BWS = self._attend(h_BWD, position, memory)
            h_BWD = fed_BWD = jnp.tanh(mix(jnp.concatenate([context_BWD, h_BWD], axis=-1)))
        return (tuple(next_carries), fed_BWD), (h_BWD, weights_BWS)

    def _attend(self, h_BWD: Array, position: Array, memory: tuple) -> tuple[Array, Array]:
        """Returns (context_BWD, weights_BWS): each beam attends to the source's positions."""
        keys_BHKS, values_BHSC, mask_BTS = memory  # H = 1, and a mask that all queries share
        kind, S = self.options.attention, mask_BTS.shape[-1]
        if kind == "location":
            M = self.options.location_positions
            scores_BWM = nn.Dense(M, use_bias=False, name="location")(h_BWD)
            scores_BHTS = jnp.pad(scores_BWM, ((0, 0), (0, 0), (0, max(S - M, 0))))[:, None, :, :S]
            mask_BTS &= jnp.arange(S) < M  # what is behind the last is never seen, as in the paper
        else:
            to_query = nn.Dense(self.d_model, use_bias=False, name="query")
            query_BWD = to_query(h_BWD) if kind == "additive" else h_BWD
            # [B, W, D] -> [B, T = W, H = 1, D]: a beam is a query of the one source.
            scores_BHTS = Score(kind, name="score")(query_BWD[:, :, None], keys_BHKS)
        mask_BTS, factors_BTS = self._window(h_BWD, position, mask_BTS)
        near = lambda weights_BHTS: weights_BHTS * factors_BTS[:, None]
        context_BTHC, weights_BHTS = attend(scores_BHTS, mask_BTS, values_BHSC, near)
        # Those of local-p sum to less than 1 (equation 10); the shares of the sum are shown.
        shown_BWS = near(weights_BHTS)[:, 0]
        return context_BTHC[:, :, 0], shown_BWS / jnp.maximum(
            shown_BWS.sum(-1, keepdims=True), 1e-9
        )

    def _window(self, h_BWD: Array, position: Array, mask_BTS: Array) -> tuple[Array, Array]:
        """Returns the mask of the window, and what its weights are multiplied with."""
        window, radius = self.options.window, self.options.window_radius
        if window == "none":
            return mask_BTS, jnp.ones_like(mask_BTS, jnp.float32)
        lengths_B1 = mask_BTS.sum(axis=-1)
        if window == "monotonic":
            # Of a target that is longer than its source, the window stays at the source's end.
            centres_BW = jnp.minimum(position, lengths_B1 - 1)
        else:
            h_BWD = jnp.tanh(nn.Dense(self.d_model, use_bias=False, name="place")(h_BWD))
            shares_BW = nn.sigmoid(nn.Dense(1, use_bias=False, name="centre")(h_BWD))[..., 0]
            centres_BW = lengths_B1 * shares_BW
        distances_BWS = jnp.arange(mask_BTS.shape[-1]) - centres_BW[..., None]
        near_BWS = mask_BTS & (jnp.abs(distances_BWS) <= radius)
        if window == "monotonic":
            return near_BWS, jnp.ones_like(distances_BWS, jnp.float32)
        # exp(-(s - p_t)^2 / 2 sigma^2), sigma = radius / 2.
        return near_BWS, jnp.exp(-2 * jnp.square(distances_BWS / radius))
