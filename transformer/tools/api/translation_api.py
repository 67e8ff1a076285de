"""Translates, scores and aligns from Python."""

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from ml_collections import ConfigDict

from transformer.decoding.translator import Hypothesis, Request, Translator
from transformer.modes import align, align_keys, score
from transformer.tasks import attention_weights, translation
from transformer.tools.api.loading import in_turn, like_input, several

Texts = str | Iterable[str]


@dataclasses.dataclass(frozen=True)
class TranslationModel:
    """A trained translation model. Several threads may call it.

    `config` is that of the run; `run` has the Flax module, its params and the vocabulary.
    """

    config: ConfigDict
    run: translation.TrainedTranslator = dataclasses.field(repr=False)
    _translators: dict = dataclasses.field(default_factory=dict, repr=False)

    @classmethod
    def of_run(cls, config: ConfigDict, folder: Path) -> "TranslationModel":
        return cls(config, translation.load(config, folder))

    def translate(self, texts: Texts, **decode: Any) -> str | list[str] | Iterator[str]:
        """Translates a string to a string, a list to a list, a generator to a generator.

        `decode` are keys of config.decode: translate(text, beam_width=8, length_alpha=1.0). A
        generator is read `chunk_lines` texts ahead.
        """
        answers = self._hypotheses(several(texts), decode)
        return like_input(texts, (hypotheses[0].text for hypotheses in answers))

    def hypotheses(self, texts: Texts, count: int = 4, **decode: Any) -> Any:
        """Returns the best Hypotheses (text, score) of a text, best first; of each of several.

        With method='sample' these are samples, in the order drawn.
        """
        if decode.get("method", self.config.decode.method) == "beam":
            decode.setdefault("beam_width", max(count, self.config.decode.beam_width))
        answers = self._hypotheses(several(texts), {**decode, "num_hypotheses": count})
        return like_input(texts, answers)

    def score(self, source: str, target: str, **decode: Any) -> score.Score:
        """Returns log P(target | source), its length in pieces, and the score of a hypothesis."""
        options = ConfigDict({**self.config.decode, **decode})
        scored = score.forced(self.run, [{"source": source, "target": target}], options)
        return next(in_turn((x for _, x in scored), self.run.params))

    def attention(self, source: str, target: str) -> dict[str, np.ndarray]:
        """Returns the attention weights of a pair, and its pieces.

        {'encoder': [L, H, S, S], 'decoder': [L, H, T, T], 'cross': [L, H, T, S], 'source': [S],
        'target': [T]}: row t of the decoder's belongs to the step that predicts target piece t.
        """
        weights = (attention_weights.pair_weights(self.run, *pair) for pair in [(source, target)])
        return next(in_turn(weights, self.run.params))

    def align(self, source: str, target: str, **attention: int) -> list[tuple[int, int]]:
        """Returns (source word, target word), from 0: where each target word attends to most.

        `attention` are `layer` and `head`, from 1; 0, the default, is the mean over all.
        """
        options = ConfigDict({**align_keys.keys().attention, **attention})
        cross_LHTS = self.attention(source, target)["cross"]
        return align.alignment(self.run.vocabulary, source, target, cross_LHTS, options)

    def _hypotheses(self, texts: Iterable[str], decode: dict) -> Iterator[list[Hypothesis]]:
        options = tuple(sorted({**self.config.decode, **decode}.items()))
        if options not in self._translators:
            made = Translator(self.run.model, self.run.vocabulary, **dict(options))
            self._translators.setdefault(options, made)
        translator = self._translators[options]
        answers = translator.hypotheses(self.run.params, map(Request, texts))
        return in_turn(answers, self.run.params)
