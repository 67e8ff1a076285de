"""A selective state space (Gu and Dao 2023, "Mamba: Linear-Time Sequence Modeling with Selective
State Spaces")."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer.errors import check_value
from transformer.families.mixers import chunked_scan, shifts
from transformer.models import dense
from transformer.models.cache import Queries
from transformer.models.layer_options import LayerOptions
from transformer.models.masks import View

Array = jax.Array

CHUNK = 32  # positions whose states [B, T, N, F] the backward pass computes at once
DELTAS = (0.001, 0.1)  # bounds of the initial Delta (section 3.6)


class StateSpace(nn.Module):
    """Maps to F = expand * d_model channels, each with a state of N numbers, and back (figure 3).

        u, z = x W_in
        y = (S6(SiLU(convolution(u))) * SiLU(z)) W_out

    In an encoder a second convolution and S6, with their own params, read u from the last position
    to the first, and both outputs are added, as in Vision Mamba (Zhu et al. 2024, algorithm 1).
    """

    options: LayerOptions
    causal: bool
    dtype: jnp.dtype
    state_size: int = 16  # N
    expand: int = 2
    width: int = 4  # of the convolution

    def setup(self) -> None:
        for key in ("state_size", "expand", "width"):
            check_value(f"model.mixer.{key}", getattr(self, key), "at least 1")
        D, F = self.options.d_model, self.expand * self.options.d_model
        linear = dense.linear(self.dtype, use_bias=False)
        self.inner = linear(2 * F)
        self.outer = linear(D)
        direction = functools.partial(
            Channels, F, self.state_size, width=self.width, rank=_rank(D), dtype=self.dtype
        )
        self.forward = direction()
        if not self.causal:
            self.backward = direction()

    def __call__(self, x_BTD: Array, view: View, *, train: bool) -> Array:
        u_BTF, z_BTF = jnp.split(self.inner(x_BTD), 2, axis=-1)
        y_BTF = self.forward(u_BTF, view.segments_BT)
        if not self.causal:
            arrays = chunked_scan.reverse((u_BTF, view.segments_BT))
            y_BTF += chunked_scan.reverse(self.backward(*arrays))
        return self.outer(y_BTF * nn.silu(z_BTF))

    def empty_state(self, x_BTD: Array, room: int, num_beams: int) -> tuple[Array, Array]:
        B, F = len(x_BTD), self.expand * self.options.d_model
        inputs_BWIF = jnp.zeros((B, num_beams, self.width - 1, F), self.dtype)
        return inputs_BWIF, jnp.zeros((B, num_beams, self.state_size, F), jnp.float32)

    def step(self, x_BQD: Array, queries: Queries, state: tuple) -> tuple[Array, tuple]:
        def read(x_BTD: Array, arrays: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
            u_BTF, z_BTF = jnp.split(self.inner(x_BTD), 2, axis=-1)
            y_BTF, arrays = self.forward.step(u_BTF, *arrays)
            return self.outer(y_BTF * nn.silu(z_BTF)), arrays

        return chunked_scan.step_beams(read, x_BQD, queries, state)

    def multiply_adds(self, length: int) -> int:
        D, F, N = self.options.d_model, self.expand * self.options.d_model, self.state_size
        # Maps to B, C and Delta's rank, and to Delta; Delta B u and C h.
        of_direction = F * (_rank(D) + 2 * N) + _rank(D) * F + 2 * N * F
        return D * 3 * F + of_direction * (1 if self.causal else 2)


class Channels(nn.Module):
    """Convolves each channel, and accumulates it in its state h [N], in one direction.

        h_t = exp(Delta_t A) h_{t-1} + Delta_t B_t u_t      (equation 2a)
        y_t = C_t h_t + D u_t                               (equation 2b)

    Here u is the convolution's output. A channel has its own Delta, A and D; all channels share B
    and C [N]. Delta, B and C are functions of u_t (algorithm 2).

    Not as in the paper, but as in its code: Delta B, a first-order form of equation 4's matrix.
    """

    size: int  # F
    state_size: int  # N
    width: int  # of the convolution
    rank: int  # of the map to Delta
    dtype: jnp.dtype

    def setup(self) -> None:
        F, N = self.size, self.state_size
        # Initial values between -n^-0.5 and n^-0.5 for sums of n, as in the paper's code.
        uniform = nn.initializers.variance_scaling(1 / 3, "fan_in", "uniform")
        linear = functools.partial(dense.linear(self.dtype, use_bias=False), kernel_init=uniform)
        self.taps = self.param("taps", uniform, (self.width, F))
        self.taps_bias = self.param("taps_bias", nn.initializers.zeros, (F,))
        self.selection = linear(self.rank + 2 * N)
        self.delta = linear(F)
        self.delta_bias = self.param("delta_bias", _log_uniform_deltas, (F,))
        # A = -exp(a_log) is initially -1, -2 ... -N in each channel (S4D-Real, section 3.6).
        first = lambda key: jnp.tile(jnp.log(jnp.arange(1.0, N + 1))[:, None], F)
        self.a_log = self.param("a_log", first)
        self.skip = self.param("skip", nn.initializers.ones, (F,))

    def __call__(self, u_BTF: Array, segments_BT: Array | None) -> Array:
        h_BNF = jnp.zeros((len(u_BTF), self.state_size, self.size), jnp.float32)
        return self._scan(self._convolve(u_BTF, segments_BT), segments_BT, h_BNF)[0]

    def step(
        self, u_BTF: Array, inputs_BIF: Array, h_BNF: Array
    ) -> tuple[Array, tuple[Array, Array]]:
        """Returns y and the state after it: the last width - 1 inputs, and h."""
        T, before = u_BTF.shape[1], inputs_BIF.shape[1]
        # With inputs a b c before d e, return the outputs of d and e, and keep c d e.
        u_BTF = jnp.concatenate([inputs_BIF, u_BTF], axis=1)
        v_BTF = self._convolve(u_BTF, None)[:, before:]
        y_BTF, h_BNF = self._scan(v_BTF, None, h_BNF)
        return y_BTF, (u_BTF[:, T:], h_BNF)

    def _convolve(self, u_BTF: Array, segments_BT: Array | None) -> Array:
        """Returns SiLU of the causal convolution of each channel."""
        # The float32 bias makes the sums float32.
        sums_BTF = self.taps_bias
        for offset, tap_F in zip(shifts.offsets(self.width, causal=True), self.taps, strict=True):
            sums_BTF = sums_BTF + tap_F * shifts.shifted(u_BTF, segments_BT, offset)
        return nn.silu(sums_BTF).astype(u_BTF.dtype)

    def _scan(self, u_BTF: Array, segments_BT: Array | None, h_BNF: Array) -> tuple[Array, Array]:
        """Returns y [B, T, F] and the last state."""
        selected = jnp.split(self.selection(u_BTF), [self.rank, self.rank + self.state_size], -1)
        low_BTR, b_BTN, c_BTN = selected
        # In float32, because a bias in bfloat16 would change Delta by up to 2 %.
        delta_BTF = nn.softplus(self.delta(low_BTR).astype(jnp.float32) + self.delta_bias)
        # One copy per row, so that the loop over positions needs no all-reduce of its gradient.
        a_BNF = jnp.broadcast_to(-jnp.exp(self.a_log), h_BNF.shape)
        read = functools.partial(read_chunk, a_BNF)
        arrays = delta_BTF, u_BTF, b_BTN, c_BTN, chunked_scan.text_starts(u_BTF, segments_BT)
        h_BNF, y_BTF = chunked_scan.scan_chunks(read, h_BNF, arrays, CHUNK)
        return (y_BTF + self.skip * u_BTF).astype(u_BTF.dtype), h_BNF


def read_chunk(a_BNF: Array, h_BNF: Array, arrays: tuple[Array, ...]) -> tuple[Array, Array]:
    """Reads a chunk of Delta, u, B, C and text starts; returns the last h, and C h [B, T, F].

    CPUs go position by position, because a layer of 512 channels trains 2.5 to 3 times as fast as
    by pairs. A single position has too little work for accelerators.
    """
    return jax.lax.platform_dependent(a_BNF, h_BNF, arrays, cpu=by_position, default=by_pairs)


def by_position(a_BNF: Array, h_BNF: Array, arrays: tuple[Array, ...]) -> tuple[Array, Array]:
    """Reads position by position."""

    # The backward pass recomputes exp(Delta A), which is faster than reading it from memory.
    @functools.partial(jax.checkpoint, prevent_cse=False)
    def read(h_BNF: Array, arrays: tuple[Array, ...]) -> tuple[Array, Array]:
        delta_BF, u_BF, b_BN, c_BN, starts_B = arrays
        decay_BNF, input_BNF = _decay_and_input(a_BNF, delta_BF, u_BF, b_BN, starts_B)
        h_BNF = decay_BNF * h_BNF + input_BNF
        return h_BNF, jnp.einsum("BN,BNF->BF", c_BN, h_BNF)

    # lax.scan loops over the first axis: [B, T, ...] -> [T, B, ...].
    h_BNF, y_TBF = jax.lax.scan(read, h_BNF, jax.tree.map(lambda x: x.swapaxes(0, 1), arrays))
    return h_BNF, y_TBF.swapaxes(0, 1)


def by_pairs(a_BNF: Array, h_BNF: Array, arrays: tuple[Array, ...]) -> tuple[Array, Array]:
    """Reads all positions in log2(T) rounds, each joining neighbours (section 3.3.2)."""
    delta_BTF, u_BTF, b_BTN, c_BTN, starts_BT = arrays
    decay_BTNF, input_BTNF = _decay_and_input(a_BNF[:, None], delta_BTF, u_BTF, b_BTN, starts_BT)
    input_BTNF = input_BTNF.at[:, 0].add(decay_BTNF[:, 0] * h_BNF)

    # h -> a h + b followed by h -> a' h + b' is h -> a' a h + (a' b + b').
    def join(first: tuple[Array, Array], then: tuple[Array, Array]) -> tuple[Array, Array]:
        return then[0] * first[0], then[0] * first[1] + then[1]

    _, h_BTNF = jax.lax.associative_scan(join, (decay_BTNF, input_BTNF), axis=1)
    return h_BTNF[:, -1], jnp.einsum("BTN,BTNF->BTF", c_BTN, h_BTNF)


def _decay_and_input(
    a: Array, delta: Array, u: Array, b: Array, starts: Array
) -> tuple[Array, Array]:
    """Returns exp(Delta A), 0 where a text starts, and Delta B u: [B, N, F] or [B, T, N, F]."""
    decay = jnp.where(starts[..., None, None], 0, jnp.exp(delta[..., None, :] * a))
    # Products of vectors, because CPUs sum their gradients faster than those of broadcasts.
    return decay, jnp.einsum("...N,...F->...NF", b, delta * u)


def _rank(d_model: int) -> int:
    """Returns the rank of the map to Delta: a sixteenth of d_model, as in the paper's code."""
    return -(-d_model // 16)


def _log_uniform_deltas(key: Array, shape: tuple[int, ...]) -> Array:
    """Returns biases whose softplus is log-uniform between DELTAS, as in the paper's code."""
    low, high = jnp.log(jnp.array(DELTAS))
    delta = jnp.exp(jax.random.uniform(key, shape, minval=low, maxval=high))
    # log(exp(delta) - 1), the inverse of softplus.
    return jnp.log(jnp.expm1(delta))
