"""What the loss needs of all classes of a position, each logit of [B, T, V] read few times."""

import jax
import jax.numpy as jnp

Array = jax.Array


def over_classes(logits_BTV: Array, targets_BT: Array) -> tuple[Array, Array, Array, Array]:
    """Returns log normaliser, gold logit, sum and maximum over the classes, [B, T] in float32."""
    return jax.lax.platform_dependent(
        logits_BTV.astype(jnp.float32), targets_BT, cpu=by_index, default=in_one_pass
    )


def by_index(logits_BTV: Array, targets_BT: Array) -> tuple[Array, Array, Array, Array]:
    # Index computation: gold_BT[b, t] = logits_BTV[b, t, targets_BT[b, t]].
    gold_BT = jnp.take_along_axis(logits_BTV, targets_BT[..., None], axis=-1)[..., 0]
    log_normaliser_BT = jax.nn.logsumexp(logits_BTV, axis=-1)
    return log_normaliser_BT, gold_BT, logits_BTV.sum(axis=-1), logits_BTV.max(axis=-1)


def in_one_pass(logits_BTV: Array, targets_BT: Array) -> tuple[Array, Array, Array, Array]:
    # All sums are of the logits less the highest, so that they are made in one pass. The gradient
    # of an index would be a scatter into zeros [B, T, V]: 15 of 127 GB that a step of base moved.
    V = logits_BTV.shape[-1]
    highest_BT = jax.lax.stop_gradient(logits_BTV.max(axis=-1))
    logits_BTV -= highest_BT[..., None]
    is_gold_BTV = jnp.arange(V) == targets_BT[..., None]
    gold_BT = jnp.where(is_gold_BTV, logits_BTV, 0.0).sum(axis=-1)
    gold_BT = jnp.where((targets_BT >= 0) & (targets_BT < V), gold_BT, jnp.nan)  # as an index does
    log_normaliser_BT = jnp.log(jnp.exp(logits_BTV).sum(axis=-1))
    sum_BT = logits_BTV.sum(axis=-1) + V * highest_BT
    return log_normaliser_BT + highest_BT, gold_BT + highest_BT, sum_BT, highest_BT
