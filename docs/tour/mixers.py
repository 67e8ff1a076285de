"""What a position sees through recurrence, convolution, attention and a state space."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from docs.tour import picture, tiny
from transformer.models import masks, stack
from transformer.tools.pages import charts

WORDS = ("the", "cat", "that", "I", "saw", "sat", "down")
KINDS = {
    "recurrence": "lstm(forget_bias=1.0)",
    "convolution": "convolution(width=3)",
    "attention": "attention",
    "state space": "state_space(state_size=8, expand=2, width=3)",
}
DEPTHS, SEEDS, LONG = (1, 2, 3), 8, 1000


def stack_of(mixer: str, num_layers: int) -> stack.Stack:
    """Returns a decoder's layers without positions: what knows the order is the mixer alone."""
    options = tiny.language_model(30, mixer=mixer, num_layers=num_layers, positions="none").options
    return stack.Stack(options, causal=True, dtype="float32")


@functools.partial(jax.jit, static_argnames="mixer")
def influence(seed: jax.Array, *, mixer: str) -> jax.Array:
    """Returns |d output_t / d input_s|, [N, T, S], of N depths before any training."""
    stacks = [stack_of(mixer, num_layers) for num_layers in DEPTHS]
    T, D = len(WORDS), stacks[0].options.d_model
    view = masks.self_view(jnp.arange(T)[None], jnp.ones((1, T), jnp.int32), causal=True)
    keys = jax.random.split(jax.random.key(seed))
    x_SD = jax.random.normal(keys[0], (T, D))
    # The params of the deepest, the last: the others have those of its first layers.
    params = stacks[-1].init(keys[1], x_SD[None], view, train=False)
    outputs = lambda x_SD: [x.apply(params, x_SD[None], view, train=False)[0] for x in stacks]
    # The derivative of each output number by each input number: [N, T, D, S, D].
    gradient_NTDSD = jnp.stack(jax.jacrev(outputs)(x_SD))
    return jnp.sqrt((gradient_NTDSD**2).sum(axis=(2, 4)))


def show() -> picture.Chart:
    """Returns, by kind and number of layers, how strongly each word reaches each position."""
    T, rows = len(WORDS), []
    costs = f"multiply-adds of a layer for {T} and {LONG:,} words"
    print(f"{'':12}words seen after 1, 2, 3 layers    {costs}")
    for kind, mixer in KINDS.items():
        seen, panels = [], []
        norms_NTS = np.mean([influence(s, mixer=mixer) for s in range(SEEDS)], axis=0)
        for depth, norms_TS in zip(DEPTHS, norms_NTS, strict=True):
            seen.append(int((norms_TS[-1] > 0).sum()))
            # Relative to the largest gradient of an earlier word; the residual connection makes
            # that of the position's own word larger.
            earlier_TS = np.tril(norms_TS, -1)
            shares_TS = np.minimum(norms_TS / earlier_TS.max(), 1)
            cells = [
                {
                    "position": f"{t + 1} {WORDS[t]}",
                    "sees": WORDS[s],
                    "share": float(shares_TS[t, s]),
                }
                for t in range(T)
                for s in range(t + 1)
            ]
            title = f"{kind}, {depth} layer{'s' * (depth > 1)}"
            chart = charts.cells(cells, "sees", "position", "share")
            if panels:  # those of a row have the same axis
                chart["encoding"]["y"]["axis"] = None
            panels.append({**chart, "width": 180, "height": 150, "title": title})
        rows.append({"hconcat": panels})
        one = stack_of(mixer, 1).options
        costs = [stack.multiply_adds(one, n, causal=True) * n for n in (T, LONG)]
        print(f"{kind:12}{seen!s:35}{costs[0]:12,}{costs[1]:14,}")
    return {"vconcat": rows}
