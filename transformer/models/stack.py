"""Stacks of layers: the encoder and the decoder of all Transformers (paper 3.1, figure 1)."""

import functools

import flax.linen as nn
import jax.numpy as jnp
from jax import Array

from transformer.errors import UserError
from transformer.models import boxes, cache
from transformer.models.attention import MultiHeadAttention
from transformer.models.cache import Cache, KeysValues, Queries
from transformer.models.layer_options import LayerOptions
from transformer.models.layers import Layer
from transformer.models.masks import View
from transformer.models.positions import Positions, overrides


class Stack(nn.Module):
    """Applies layers of self-attention, cross-attention to a memory, and feed-forward network.

    An encoder and a decoder-only model have no cross-attention, and their memory is None.
    """

    options: LayerOptions
    causal: bool  # True in a decoder: no position sees a later one
    dtype: str  # of activations
    cross_attention: bool = False

    def setup(self) -> None:
        options = self.options
        if not self.causal:
            _check_both_ways(options)
        given = {"options": options, "causal": self.causal, "dtype": jnp.dtype(self.dtype)}
        mixers = boxes.parts("mixer", options.mixer, options.num_layers, **given)
        networks = boxes.parts("feed_forward", options.feed_forward, options.num_layers, **given)
        residual = boxes.part("residual", options.residual, **given)
        cross_attention = functools.partial(MultiHeadAttention, **given | {"causal": False})
        self.layers = [
            Layer(
                self_attention=mixer(),
                self_attention_residual=residual(),
                cross_attention=cross_attention() if self.cross_attention else None,
                cross_attention_residual=residual(),
                feed_forward=feed_forward(),
                feed_forward_residual=residual(),
            )
            for mixer, feed_forward in zip(mixers, networks, strict=True)
        ]
        if options.final_norm:
            self.norm = boxes.part("norm", options.norm, **given)()

    def __call__(
        self,
        x_BTD: Array,
        view: View,
        memory_BSD: Array | None = None,
        memory_view: View | None = None,
        *,
        train: bool,
    ) -> Array:
        """Returns the output [B, T, D] of all positions.

        `view` masks the positions of x, and `memory_view` those of the memory.
        """

        # nn.remat takes a function of a submodule and of the arrays that need gradients. The memory
        # is projected inside, so that its keys and values are recomputed, too.
        def apply(layer: nn.Module, x_BTD: Array, memory_BSD: Array | None) -> Array:
            memory = layer.cross_attention.project(memory_BSD) if self.cross_attention else None
            return layer(x_BTD, view, memory, memory_view, train=train)[0]

        apply = nn.remat(apply) if self.options.remat and train else apply
        for layer in self.layers:
            x_BTD = apply(layer, x_BTD, memory_BSD)
        return self.norm(x_BTD) if self.options.final_norm else x_BTD

    def project(self, memory_BSD: Array) -> list[KeysValues]:
        """Returns the memory's keys and values of each layer's cross-attention, for `step`."""
        return [layer.cross_attention.project(memory_BSD) for layer in self.layers]

    def empty_cache(self, x_BTD: Array, room: int, num_beams: int) -> Cache:
        """Returns an empty cache for inputs with the batch size, width and dtype of x."""
        states = [layer.self_attention.empty_state(x_BTD, room, num_beams) for layer in self.layers]
        return Cache(states, cache.empty_ancestry(len(x_BTD), room, num_beams))

    def step(
        self,
        x_BQD: Array,
        queries: Queries,
        memories: list[KeysValues] | None,
        memory_view: View | None,
        states: list,
    ) -> tuple[Array, Cache]:
        """Returns the output [B, Q, D] of Q queries, and the cache with each mixer's new state.

        `memories` come from `project`.
        """
        memories = memories or [None] * len(self.layers)  # none in a decoder-only model
        updated = []
        for layer, memory, state in zip(self.layers, memories, states, strict=True):
            x_BQD, state = layer(
                x_BQD, queries.view, memory, memory_view, queries=queries, state=state, train=False
            )
            updated.append(state)
        x_BQD = self.norm(x_BQD) if self.options.final_norm else x_BQD
        return x_BQD, Cache(updated, queries.ancestry_BWP)


def _check_both_ways(options: LayerOptions) -> None:
    """Raises UserError for a mixer that cannot be in an encoder."""
    for mixer in boxes.parse("mixer", options.mixer):
        if not getattr(mixer.code, "both_ways", True):
            raise UserError(
                f"config.model.mixer={options.mixer!r}: {mixer.name} reads earlier positions only, "
                "an encoder reads later ones, too: give the decoder alone another mixer by "
                "config.model.decoder_mixer"
            )


def multiply_adds(
    options: LayerOptions, length: int, *, causal: bool, cross_attention: bool = False
) -> int:
    """Returns the multiply-adds of one of `length` positions, in all layers and the input's."""
    given = {"options": options, "causal": causal, "dtype": jnp.dtype("float32")}

    def modules(box: str, count: int = options.num_layers) -> list[nn.Module]:
        made = boxes.parts(box, getattr(options, box), count, **given)
        # Unbound: called inside a model's method, flax would make them its submodules.
        return [part(parent=None) for part in made]

    sublayers = [mixer.multiply_adds(length) for mixer in modules("mixer")]
    sublayers += [x.multiply_adds() for x in modules("feed_forward") if x is not None]
    if cross_attention:
        attention = MultiHeadAttention(**given, parent=None)
        sublayers += [attention.multiply_adds(length)] * options.num_layers
    [positions], [residual] = modules("positions", 1), modules("residual", 1)
    return positions.multiply_adds + sum(sublayers) + len(sublayers) * residual.multiply_adds


def check_options(model: nn.Module) -> None:
    """Raises UserError for fields of a model that contradict each other."""
    options = model.options
    if options.d_model % options.num_heads and not (options.key_size and options.value_size):
        raise UserError(
            f"config.model.d_model={options.d_model} must be a multiple of "
            f"config.model.num_heads={options.num_heads} (or give key_size and value_size)"
        )
    reads_relative = any(issubclass(mixer, MultiHeadAttention) for mixer in _mixers(model))
    [positions] = boxes.parse("positions", options.positions)
    if overrides(positions.code, "heads", "scores", "context") and not reads_relative:
        raise UserError(
            f"config.model.positions={options.positions!r} is read by attention only, and "
            f"config.model.mixer={options.mixer!r} has none"
        )


def take_packed_rows(model: nn.Module) -> bool:
    """Returns whether all mixers of a model keep the texts of a packed row apart."""
    return all(getattr(mixer, "takes_packed_rows", True) for mixer in _mixers(model))


def input_positions(model: nn.Module, **parent: None) -> Positions:
    """Returns the positions of a model's input; pass parent=None outside `setup`."""
    given = {"options": model.options, "max_positions": model.max_positions}
    return boxes.part("positions", model.options.positions, **given)(**parent)


def position_limit(model: nn.Module) -> float:
    """Returns the number of positions that a model's text may have; infinity if unlimited."""
    return input_positions(model, parent=None).limit


def _mixers(model: nn.Module) -> list[type[nn.Module]]:
    """Returns the classes of the mixers in a model's stacks."""
    patterns = {"mixer": model.options.mixer, "decoder_mixer": getattr(model, "decoder_mixer", "")}
    return [x.code for key, p in patterns.items() if p for x in boxes.parse("mixer", p, key)]


def stacked_weights(sown: dict) -> dict[str, Array]:
    """Returns the attention weights of a model by kind, stacked over its layers.

    The kinds are 'encoder' [L, B, H, S, S], 'decoder' [L, B, H, T, T] and 'cross' [L, B, H, T, S].
    `sown` is the collection 'intermediates'. A layer whose mixer sows no weights gets zeros if a
    later layer sows some.
    """
    kinds = {
        "encoder": ("encoder", "self_attention"),
        "decoder": ("decoder", "self_attention"),
        "cross": ("decoder", "cross_attention"),
    }
    # Flax sows a tuple with one entry per call; there is one call.
    weights = {}
    for kind, (half, part) in kinds.items():
        by_layer = {
            int(name.removeprefix("layers_")): layer[part]["attention"][0]
            for name, layer in sown.get(half, {}).items()
            if part in layer
        }
        if by_layer:
            zeros = jnp.zeros_like(next(iter(by_layer.values())))
            layers = range(max(by_layer) + 1)
            weights[kind] = jnp.stack([by_layer.get(i, zeros) for i in layers])
    return weights
