"""Gated linear attention (Yang, Wang, Shen, Panda and Kim 2024, "Gated Linear Attention
Transformers with Hardware-Efficient Training")."""

import flax.linen as nn
import jax.numpy as jnp
from jax import Array

from transformer.errors import check_value
from transformer.families.mixers import chunked_scan
from transformer.models import boxes, dense
from transformer.models.cache import Queries
from transformer.models.layer_options import LayerOptions, head_sizes
from transformer.models.masks import View

GATE_RANK = 16  # of W_1 W_2 (section 4.4)
TEMPERATURE = 16  # tau: gates are the 16th root of sigmoids (section 4.4)
# A chunk's keys are multiplied by at most exp(32 * 2) = 6e27, within float32's 3e38.
LONGEST_CHUNK = 32
LOWEST_LOG_DECAY = -2.0


class GatedLinear(nn.Module):
    """Reads each head's state [K, C], which decays by gates and stores values at their keys.

        S_t = diag(alpha_t) S_{t-1} + k_t^T v_t and o_t = q_t S_t        (section 4.1)
        alpha_t = sigmoid(x_t W_1 W_2 + b)^(1 / tau)                     (section 4.4)
        y_t = (swish(x_t W_r + b_r) * Norm(o_t)) W_o, with the norm of the layers

    With alpha = 1 this is the linear attention of Katharopoulos et al. 2020 ("Transformers are
    RNNs") without its feature map and without division by the sum of the weights.

    An encoder adds a second recurrence, from the last position to the first, with its own gates and
    the same queries, keys and values, so that o_t has the position's own value twice.

    Not as in the paper: alpha is at least exp(-2), a sigmoid of exp(-32). This bound keeps the
    decays of a chunk within float32, without chunks within chunks (section 4.3). Keys have
    config.model.key_size, as in attention; the paper's are half as wide as values.
    """

    options: LayerOptions
    causal: bool
    dtype: jnp.dtype
    chunk: int = 16  # positions computed at once; affects only the cost

    def setup(self) -> None:
        check_value("model.mixer.chunk", self.chunk, f"at least 1 and at most {LONGEST_CHUNK}")
        options, H, (K, C) = self.options, self.options.num_heads, head_sizes(self.options)
        linear = dense.linear(self.dtype)
        projection = dense.linear(self.dtype, nn.DenseGeneral, use_bias=options.attention_bias)
        self.query = projection(features=(H, K))
        self.key = projection(features=(H, K))
        self.value = projection(features=(H, C))
        self.output = projection(features=options.d_model, axis=(-2, -1))
        self.gate = linear(H * C)
        self.norm = boxes.part("norm", options.norm, dtype=self.dtype)()
        decay = lambda: nn.Sequential([linear(GATE_RANK, use_bias=False), linear(H * K)])
        self.decay = decay()
        if not self.causal:
            self.backward_decay = decay()

    def __call__(self, x_BTD: Array, view: View, *, train: bool) -> Array:
        return self._mix(x_BTD, self._zeros(len(x_BTD)), view.segments_BT)[0]

    def empty_state(self, x_BTD: Array, room: int, num_beams: int) -> Array:
        return self._zeros(len(x_BTD), num_beams)

    def step(self, x_BQD: Array, queries: Queries, state: Array) -> tuple[Array, Array]:
        return chunked_scan.step_beams(self._mix, x_BQD, queries, state)

    def multiply_adds(self, length: int) -> int:
        D, H, (K, C) = self.options.d_model, self.options.num_heads, head_sizes(self.options)
        chunk = min(length, self.chunk)
        # Queries and keys, and values, gate and output.
        projections = D * H * (2 * K + 3 * C)
        # The decays' maps, sums over a chunk as in attention, writes and reads of a state.
        recurrence = GATE_RANK * (D + H * K) + H * (chunk * (K + C) + 2 * K * C)
        return projections + recurrence * (1 if self.causal else 2)

    def _zeros(self, *shape: int) -> Array:
        return jnp.zeros((*shape, self.options.num_heads, *head_sizes(self.options)), jnp.float32)

    def _mix(
        self, x_BTD: Array, state_BHKC: Array, segments_BT: Array | None = None
    ) -> tuple[Array, Array]:
        """Returns y [B, T, D] and the last state; `segments_BT` is None if a row is one text."""
        qkv = self.query(x_BTD), self.key(x_BTD), self.value(x_BTD)
        arrays = x_BTD, qkv, segments_BT
        last_BHKC, o_BTHC = self._read(self.decay, state_BHKC, *arrays)
        if not self.causal:
            arrays = chunked_scan.reverse(arrays)
            _, backward_BTHC = self._read(self.backward_decay, state_BHKC, *arrays)
            o_BTHC += chunked_scan.reverse(backward_BTHC)
        o_BTHC = self.norm(o_BTHC)
        gate_BTHC = nn.silu(self.gate(x_BTD)).reshape(o_BTHC.shape)
        return self.output(gate_BTHC * o_BTHC), last_BHKC

    def _read(
        self,
        decay: nn.Module,
        state_BHKC: Array,
        x_BTD: Array,
        qkv: tuple[Array, Array, Array],
        segments_BT: Array | None,
    ) -> tuple[Array, Array]:
        """Returns the last state, and o [B, T, H, C] of one direction, both in float32."""
        log_gates = nn.log_sigmoid(decay(x_BTD).astype(jnp.float32)) / TEMPERATURE
        log_decays_BTHK = jnp.maximum(log_gates, LOWEST_LOG_DECAY).reshape(qkv[1].shape)
        arrays = (*qkv, log_decays_BTHK, chunked_scan.text_starts(x_BTD, segments_BT))
        return chunked_scan.scan_chunks(read_chunk, state_BHKC, arrays, self.chunk)


def read_chunk(state_BHKC: Array, arrays: tuple[Array, ...]) -> tuple[Array, Array]:
    """Reads a chunk of queries, keys, values, log decays and text starts.

    Returns the state after it, and o [B, T, H, C], in float32.
    """
    *floats, starts_BT = arrays
    q_BTHK, k_BTHK, v_BTHC, log_decays_BTHK = (x.astype(jnp.float32) for x in floats)
    # With G_t = log(alpha_1) + ... + log(alpha_t), the key of position s has decayed by
    # exp(G_t - G_s) at position t. Multiply the query by exp(G_t) and the key by exp(-G_s).
    sums_BTHK = jnp.cumsum(log_decays_BTHK, axis=1)
    q_decayed_BTHK = q_BTHK * jnp.exp(sums_BTHK)
    # Number the texts in this chunk from 0, the state's text.
    text_BT = jnp.cumsum(starts_BT, axis=1)
    T = text_BT.shape[1]
    mask_BTS = (text_BT[:, :, None] == text_BT[:, None]) & jnp.tri(T, dtype=bool)
    scores_BHTS = jnp.einsum("BTHK,BSHK->BHTS", q_decayed_BTHK, k_BTHK * jnp.exp(-sums_BTHK))
    scores_BHTS = jnp.where(mask_BTS[:, None], scores_BHTS, 0)
    of_state_BTHC = jnp.einsum("BTHK,BHKC->BTHC", q_decayed_BTHK, state_BHKC)
    of_state_BTHC = jnp.where((text_BT == 0)[:, :, None, None], of_state_BTHC, 0)
    o_BTHC = jnp.einsum("BHTS,BSHC->BTHC", scores_BHTS, v_BTHC) + of_state_BTHC
    # The next state has the chunk's last text only. Keys decay until the end of the chunk.
    in_last_BT = text_BT == text_BT[:, -1:]
    k_BTHK *= jnp.exp(sums_BTHK[:, -1:] - sums_BTHK)
    k_BTHK = jnp.where(in_last_BT[:, :, None, None], k_BTHK, 0)
    decayed_BHKC = jnp.exp(sums_BTHK[:, -1])[..., None] * state_BHKC
    goes_on_B = text_BT[:, -1] == 0
    decayed_BHKC = jnp.where(goes_on_B[:, None, None, None], decayed_BHKC, 0)
    return decayed_BHKC + jnp.einsum("BTHK,BTHC->BHKC", k_BTHK, v_BTHC), o_BTHC
