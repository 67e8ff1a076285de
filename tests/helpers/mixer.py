"""A translation model that is no Transformer."""

import flax.linen as nn
import jax.numpy as jnp


class Mixer(nn.Module):
    """The mean of the source's embeddings and the last target piece's say the next piece; there is
    no key of the Transformer's."""

    source_vocab_size: int
    target_vocab_size: int
    width: int

    def setup(self):
        self.source = nn.Embed(self.source_vocab_size, self.width)
        self.target = nn.Embed(self.target_vocab_size, self.width)
        self.output = nn.Dense(self.target_vocab_size)

    def encode(self, source, source_positions, source_segments, *, train):
        return self.source(source)

    def __call__(
        self,
        source,
        target,
        source_positions,
        target_positions,
        source_segments,
        target_segments,
        *,
        train,
    ):
        """Of packed rows, each position has the mean of its own pair's source."""
        same = (target_segments[:, :, None] == source_segments[:, None, :]).astype(jnp.float32)
        same /= jnp.maximum(same.sum(axis=2, keepdims=True), 1)
        context = jnp.einsum("BTS,BSD->BTD", same, self.source(source))
        return self.output(nn.tanh(context + self.target(target)))

    def prepare(self, memory, memory_mask, room, num_beams):
        weights = memory_mask[..., None].astype(jnp.float32)
        return (memory * weights).sum(axis=1) / jnp.maximum(weights.sum(axis=1), 1), ()

    def step(self, tokens, position, memory, cache):
        return self.output(nn.tanh(memory[:, None, None] + self.target(tokens))), cache
