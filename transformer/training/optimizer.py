"""Gradients -> updates: the paper's section 5.3."""

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
    *, beta1: float, beta2: float, epsilon: float, clip_norm: float
) -> optax.GradientTransformation:
    """Adam's direction (Kingma and Ba 2015), behind clipping by global norm if `clip_norm` > 0.

    The paper clips nothing. What it gives is subtracted from the parameters, times the learning
    rate, which goes by the number of the step and not by how often Adam was asked: updates can be
    left out.
    """
    clip = [optax.clip_by_global_norm(clip_norm)] if clip_norm > 0 else []
    return optax.chain(*clip, optax.scale_by_adam(b1=beta1, b2=beta2, eps=epsilon))
