"""Gradients -> updates: the paper's section 5.3."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax


def inverse_square_root(
    step: jax.Array | int, *, d_model: int, warmup_steps: int, factor: float
) -> jax.Array:
    """The learning rate of update 1, 2, ... (paper, equation 3): warm-up, then step^-0.5."""
    step = jnp.asarray(step, jnp.float32)
    return factor * d_model**-0.5 * jnp.minimum(step**-0.5, step * warmup_steps**-1.5)


def adam(
    learning_rate: Callable[[jax.Array], jax.Array],
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
    clip_norm: float,
) -> optax.GradientTransformation:
    """Adam (Kingma and Ba 2015), behind clipping by global norm if `clip_norm` > 0.

    The paper clips nothing.
    """
    clip = [optax.clip_by_global_norm(clip_norm)] if clip_norm > 0 else []
    return optax.chain(
        *clip,
        optax.scale_by_adam(b1=beta1, b2=beta2, eps=epsilon),
        # optax counts updates from 0, the paper's first step is 1.
        optax.scale_by_schedule(lambda count: -learning_rate(count + 1)),
    )
