"""One position of a recurrent decoder, with or without attention.

Bahdanau et al. 2015, Luong et al. 2015 and Paulus et al. 2017 differ in several choices, each of
which has a key here. The rest of the model is shared, so that a comparison measures attention only.
The shared parts are not as in the papers:

* Encoder: bidirectional by default, as Bahdanau's. Sutskever's and Luong's are unidirectional, and
  Sutskever's reads the reversed source.
* Initial state: a tanh layer of both directions' last states. Bahdanau's reads only the backward
  state; Sutskever's and Luong's decoders start from the encoder's states.
* Output: a tanh layer, as in Luong's equation 5. Bahdanau has maxout, Paulus a matrix made of the
  embeddings and a pointer to the source (equations 9 to 13).
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer.models import boxes
from transformer.models.attention import attend
from transformer.models.cache import lengthened

Array = jax.Array
KINDS = ("none", "additive", "dot", "general", "location")
PLACES = ("before", "after")
WINDOWS = ("none", "monotonic", "predictive")


@dataclasses.dataclass(frozen=True)
class Attention:
    """The attention of a recurrent decoder: keys of config.model.

    attention         'additive', 'dot', 'general': scores of parts/scores.py; 'location' scores
                      source positions from the state only, a_t = softmax(W h_t), regardless of
                      their content (Luong, section 3.1); 'none'
    attention_place   'before': the previous state attends, and the context enters the cells
                      (Bahdanau); 'after': the new state attends (Luong)
    input_feeding     whether the cells also read the attentional vector of the previous position
                      (Luong, section 3.3); for 'after' only
    window            'monotonic', 'predictive': attends to at most `window_radius` source positions
                      around p_t (Luong, section 3.2: local-m with p_t = t; local-p, with weights
                      that fall with the distance, equations 9 and 10); 'none': attends to all
    temporal          whether source positions attended before get less weight: exp(score) is
                      divided by the sum of its earlier values, in the window or not (Paulus, 2.1)
    decoder_attention whether the decoder also attends to its own earlier states, for its output
                      (intra-attention; Paulus, section 2.2). In training each position keeps all
                      states, so memory grows with the length squared
    """

    attention: str
    attention_place: str
    input_feeding: bool
    window: str
    window_radius: int
    location_positions: int  # source positions that 'location' can score
    temporal: bool
    decoder_attention: bool


class State(NamedTuple):
    """The state of a decoder between two positions, of W beams; fields without use are None."""

    carries: tuple  # of each layer's cell
    fed_BWD: Array  # the last output, for input feeding
    log_sums_BWS: Array | None  # of exp(score) so far, for 'temporal'
    past_BWPD: Array | None  # the last layer's states so far, for 'decoder_attention'

    def grow(self, times: int) -> "State":
        """Pads `past_BWPD` to `times` as many positions."""
        if self.past_BWPD is None:
            return self
        return self._replace(past_BWPD=lengthened(self.past_BWPD, 2, times))


class DecoderStep(nn.Module):
    """Computes one target position of each beam from the state after the previous position."""

    d_model: int
    cell: Callable  # of `features` and a name: a Flax cell
    options: Attention

    @nn.compact
    def __call__(
        self, state: State, x_BWD: Array, position: Array, memory: tuple
    ) -> tuple[State, tuple]:
        """Returns the next state, and (output_BWD, weights); `position` counts from 0.

        The weights are of 'cross' attention, [B, W, S], and of 'decoder' attention, [B, W, P], if
        the options have them.
        """
        carries, fed_BWD, log_sums_BWS, past_BWPD = state
        options = self.options
        weights = {}
        place = "" if options.attention == "none" else options.attention_place
        attend_by = lambda h_BWD: self._attend(h_BWD, position, memory, log_sums_BWS)
        inputs = [x_BWD]
        if place == "before":
            # The last leaf is h: a GRU's carry, or the second element of an LSTM's (c, h).
            last_BWD = jax.tree.leaves(carries)[-1]
            context_BWD, weights["cross"], log_sums_BWS = attend_by(last_BWD)
            inputs += [context_BWD]
        elif options.input_feeding:
            inputs += [fed_BWD]
        h_BWD = jnp.concatenate(inputs, axis=-1)
        next_carries = []
        for i, carry in enumerate(carries):
            carry, h_BWD = self.cell(features=self.d_model, name=f"cell_{i}")(carry, h_BWD)
            next_carries.append(carry)
        mixed = [h_BWD, *inputs] if place == "before" else [h_BWD]
        if place == "after":
            context_BWD, weights["cross"], log_sums_BWS = attend_by(h_BWD)
            mixed = [context_BWD, h_BWD]
        if options.decoder_attention:
            context_BWD, weights["decoder"] = self._look_back(h_BWD, position, past_BWPD)
            mixed += [context_BWD]
            # Write the position last, because it attends to earlier positions only.
            past_BWPD = jax.lax.dynamic_update_slice_in_dim(
                past_BWPD, h_BWD[:, :, None], position, axis=2
            )
        if len(mixed) > 1:
            mix = nn.Dense(self.d_model, use_bias=False, name="mix")
            h_BWD = jnp.tanh(mix(jnp.concatenate(mixed, axis=-1)))
        state = State(tuple(next_carries), h_BWD, log_sums_BWS, past_BWPD)
        return state, (h_BWD, weights)

    def _look_back(self, h_BWD: Array, position: Array, past_BWPD: Array) -> tuple[Array, Array]:
        """Returns (context_BWD, weights_BWP): each beam attends to its own earlier states.

        At position 0 the context is zeros (Paulus et al., equations 6 to 8).
        """
        query_BWD = nn.Dense(self.d_model, use_bias=False, name="past_query")(h_BWD)
        scores_BWTP = jnp.einsum("BWD,BWPD->BWP", query_BWD, past_BWPD)[:, :, None]
        before_BTP = (jnp.arange(past_BWPD.shape[2]) < position)[None, None]
        # A beam is a head, H = W, with its own keys and one query, T = 1.
        context_BTWC, weights_BWTP = attend(scores_BWTP, before_BTP, past_BWPD, lambda x: x)
        return context_BTWC[:, 0], weights_BWTP[:, :, 0]

    def _attend(
        self, h_BWD: Array, position: Array, memory: tuple, log_sums_BWS: Array | None
    ) -> tuple[Array, Array, Array | None]:
        """Returns (context_BWD, weights_BWS, the next log_sums_BWS) of attention to the source."""
        keys_BHKS, values_BHSC, mask_BTS = memory  # H = 1; all queries share the mask
        kind, S = self.options.attention, mask_BTS.shape[-1]
        if kind == "location":
            M = self.options.location_positions
            scores_BWM = nn.Dense(M, use_bias=False, name="location")(h_BWD)
            scores_BHTS = jnp.pad(scores_BWM, ((0, 0), (0, 0), (0, max(S - M, 0))))[:, None, :, :S]
            mask_BTS &= jnp.arange(S) < M  # positions from M on are never seen, as in the paper
        else:
            to_query = nn.Dense(self.d_model, use_bias=False, name="query")
            query_BWD = to_query(h_BWD) if kind == "additive" else h_BWD
            # [B, W, D] -> [B, T = W, H = 1, D]: beams are queries of one source.
            scores_BHTS = boxes.part("score", kind)(name="score")(query_BWD[:, :, None], keys_BHKS)
        if self.options.temporal:
            # exp(e_t) / (exp(e_1) + ... + exp(e_t-1)) in logarithms; at first exp(e_1).
            scores_BWS = scores_BHTS[:, 0]
            scores_BHTS -= log_sums_BWS[:, None]
            log_sums_BWS = jnp.logaddexp(log_sums_BWS, scores_BWS)
            log_sums_BWS = jnp.where(position == 0, scores_BWS, log_sums_BWS)
        mask_BTS, factors_BTS = self._window(h_BWD, position, mask_BTS)
        near = lambda weights_BHTS: weights_BHTS * factors_BTS[:, None]
        context_BTHC, weights_BHTS = attend(scores_BHTS, mask_BTS, values_BHSC, near)
        # Weights of local-p sum to less than 1 (equation 10), so show their shares of the sum.
        shown_BWS = near(weights_BHTS)[:, 0]
        shown_BWS /= jnp.maximum(shown_BWS.sum(-1, keepdims=True), 1e-9)
        return context_BTHC[:, :, 0], shown_BWS, log_sums_BWS

    def _window(self, h_BWD: Array, position: Array, mask_BTS: Array) -> tuple[Array, Array]:
        """Returns the mask of the window, and the factors of its weights."""
        window, radius = self.options.window, self.options.window_radius
        if window == "none":
            return mask_BTS, jnp.ones_like(mask_BTS, jnp.float32)
        lengths_B1 = mask_BTS.sum(axis=-1)  # with 'location', of the positions that it can score
        if window == "monotonic":
            # After the source's length, the window stays at its end.
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
