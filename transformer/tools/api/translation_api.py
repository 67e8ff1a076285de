"""Translates, scores and aligns from Python."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from ml_collections import ConfigDict

from transformer.decoding.translator import Hypothesis, Request, Translator
from transformer.distributed import layout
from transformer.errors import UserError
from transformer.modes import align, score
from transformer.tasks import attention_weights, translation
from transformer.tools.api.loading import changed, like_input, several
from transformer.workdir import key_tables

Texts = str | Iterable[str]


@dataclasses.dataclass(frozen=True)
class TranslationModel:
    """A trained translation model. Several threads may call it.

    `config` is that of the run; `run` has the Flax module, its params and the vocabulary.
    """

    config: ConfigDict = dataclasses.field(repr=False)
    run: translation.TrainedTranslator = dataclasses.field(repr=False)
    workdir: Path | None = None

    @classmethod
    def from_run(cls, config: ConfigDict, folder: Path) -> "TranslationModel":
        return cls(config, translation.load(config, folder), folder)

    @functools.cached_property
    def _translator(self) -> Callable[..., Translator]:
        """Returns a Translator for keys of config.decode; these have threads: few are kept."""
        make = functools.partial(Translator, self.run.model, self.run.vocabulary)
        return functools.lru_cache(maxsize=8)(make)

    def translate(self, texts: Texts, **decode: Any) -> str | list[str] | Iterator[str]:
        """Translates a string to a string, a list to a list, a generator to a generator.

        `decode` are keys of config.decode: translate(text, beam_width=8, length_alpha=1.0). A
        generator is read `chunk_lines` texts ahead. UserError for a text of several lines.
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
        options = ConfigDict(changed(self.config, "decode", decode))
        with layout.launching(self.run.params):
            pair = {"source": line(source), "target": line(target)}
            [(_, result)] = score.forced(self.run, [pair], options)
        return result

    def attention(self, source: str, target: str) -> dict[str, np.ndarray]:
        """Returns the attention weights of a pair, and its pieces.

        {'encoder': [L, H, S, S], 'decoder': [L, H, T, T], 'cross': [L, H, T, S], 'source': [S],
        'target': [T]}: row t of the decoder's belongs to the step that predicts target piece t.
        """
        with layout.launching(self.run.params):
            return attention_weights.pair_weights(self.run, line(source), line(target))

    def align(self, source: str, target: str, **attention: int) -> list[tuple[int, int]]:
        """Returns (source word, target word), from 0: where each target word attends to most.

        `attention` are `layer` and `head`, from 1; 0, the default, is the mean over all.
        """
        config = key_tables.set_mode_keys(ConfigDict({"task": "translation"}), "align")
        options = ConfigDict(changed(config, "attention", attention))
        cross_LHTS = self.attention(source, target)["cross"]
        align.check_choice(options, *cross_LHTS.shape[:2])
        return align.alignment(self.run.vocabulary, source, target, cross_LHTS, options)

    def _hypotheses(self, texts: Iterable[str], decode: dict) -> Iterator[list[Hypothesis]]:
        options = changed(self.config, "decode", decode)
        requests = (Request(line(text)) for text in texts)
        return self._translator(**options).hypotheses(self.run.params, requests)


def line(text: str) -> str:
    """Returns a text of one line, without its line break; UserError for any other."""
    if not isinstance(text, str):
        raise UserError(f"expected a text, found {text!r:.80}")
    text = text.removesuffix("\n").removesuffix("\r")
    if "\n" in text:
        raise UserError(f"expected a text of one line, found {text!r:.80}; see str.splitlines")
    return text
