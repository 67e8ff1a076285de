"""Shallow fusion: translation with a language model of the target language (Gulcehre et al. 2015).

The next token has log P + weight * log P_LM, normalised (PostNorm of Stahlberg, Cross and Stoyanov
2018), so that scores stay log probabilities. The language model reads the target's pieces: it was
trained with --config.vocabulary.model=DIR/vocabulary/shared.model (or target.model).
"""

import math
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jax import Array
from ml_collections import ConfigDict

from transformer.data.tokenizer import END, START
from transformer.errors import UserError
from transformer.runtime import paths
from transformer.tasks import saved_model, vocabularies
from transformer.tasks.saved_model import SavedModel
from transformer.workdir import saved_config


class Fused(nn.Module):
    """A translation model with a language model, whose caches are a pair."""

    translation: nn.Module
    language: nn.Module
    weight: float

    dtype = property(lambda self: getattr(self.translation, "dtype", "float32"))

    @property
    def position_limit(self) -> float:
        """Returns the smaller of the models' limits."""
        models = self.translation, self.language
        return min(getattr(model, "position_limit", math.inf) for model in models)

    def __call__(self, *, train: bool, **inputs: Array) -> Array:
        """Returns logits [B, T, V] of given pairs, one a row."""
        logits_BTV = self.translation(**inputs, train=train)
        places = {name: inputs[f"target_{name}"] for name in ("positions", "segments")}
        return self._sum(logits_BTV, self.language(_begun(inputs["target"]), **places, train=train))

    def encode(self, *inputs: Array, train: bool) -> Any:
        return self.translation.encode(*inputs, train=train)

    def prepare(
        self, memory: Any, memory_mask_BS: Array, room: int, num_beams: int
    ) -> tuple[Any, tuple]:
        memory, cache = self.translation.prepare(memory, memory_mask_BS, room, num_beams)
        _, cache_of_language = self.language.prepare((), memory_mask_BS, room, num_beams)
        return memory, (cache, cache_of_language)

    def step(
        self, tokens_BWT: Array, position: Array, memory: Any, cache: tuple
    ) -> tuple[Array, tuple]:
        logits, translation_cache = self.translation.step(tokens_BWT, position, memory, cache[0])
        of_language, language_cache = self.language.step(_begun(tokens_BWT), position, (), cache[1])
        return self._sum(logits, of_language), (translation_cache, language_cache)

    def _sum(self, logits: Array, of_language: Array) -> Array:
        logits, of_language = (x.astype(jnp.float32) for x in (logits, of_language))
        return nn.log_softmax(logits) + self.weight * nn.log_softmax(of_language)


def _begun(tokens: Array) -> Array:
    """Returns target tokens as a language model reads them: its texts begin with END."""
    return jnp.where(tokens == START, END, tokens)


def fused(config: ConfigDict, workdir: Path, run: SavedModel) -> SavedModel:
    """Returns a run's model fused with the language model of config.decode.language_model.

    UserError if that is no language model, or has other pieces than the target.
    """
    folder = paths.path(config.decode.language_model)
    lm_config = saved_config.read_with_defaults(folder)
    key = f"config.decode.language_model={config.decode.language_model!r}"
    if lm_config.task != "language_modelling":
        raise UserError(f"{key} must be of the task 'language_modelling', found {lm_config.task!r}")
    target = vocabularies.read(workdir, config).target
    if vocabularies.read(folder, lm_config).fingerprint != target.fingerprint:
        raise UserError(
            f"{key} has other pieces: train it with --config.vocabulary.model=FILE, the "
            "vocabulary/shared.model or target.model of this run"
        )
    if "dtype" in lm_config.model:
        lm_config.model.dtype = config.model.get("dtype", "float32")
    language = saved_model.load(lm_config, folder)
    model = Fused(run.model, language.model, config.decode.language_model_weight)
    params = {"translation": run.params, "language": language.params}
    return run._replace(model=model, params=params)
