"""Trained models to call from Python, to translate, score, align, continue texts and classify."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from ml_collections import ConfigDict

from transformer.data import tokenizer
from transformer.decoding import batch_sizes
from transformer.decoding.translator import Hypothesis, Request, Translator
from transformer.distributed import layout
from transformer.errors import UserError, check_value
from transformer.models import fields
from transformer.modes import lines as mode_lines
from transformer.tasks import attention_weights, saved_model, translation, vocabularies
from transformer.tasks.task import load_task
from transformer.tools.api.calls import changed, like_input, several
from transformer.workdir import key_tables

Texts = str | Iterable[str]
# One item: a text, the path of an image, two texts (a tuple), or an image.
SINGLE = (str, Path, tuple, np.ndarray)


@dataclasses.dataclass(frozen=True)
class TranslationModel:
    """A trained translation model. Several threads may call it.

    `config` is the run's; `run` has the Flax module, its params and the vocabulary.
    """

    config: ConfigDict = dataclasses.field(repr=False)
    run: saved_model.SavedModel = dataclasses.field(repr=False)
    workdir: Path | None = None

    @classmethod
    def from_run(cls, config: ConfigDict, folder: Path) -> "TranslationModel":
        return cls(config, translation.load(config, folder), folder)

    @functools.cached_property
    def _translators(self) -> Callable[..., Translator]:
        """Returns a cached `translation.translator`; few are kept, because each has threads."""
        make = lambda **x: translation.translator(self.config, self.workdir, self.run, x)
        return functools.lru_cache(maxsize=8)(make)

    def translator(self, **decode: Any) -> Translator:
        """Returns the Translator of this model with changed keys of config.decode."""
        return self._translators(**changed(self.config, "decode", decode))

    def translate(self, texts: Texts, **decode: Any) -> str | list[str] | Iterator[str]:
        """Translates a string to a string, a list to a list, a generator to a generator.

        `decode` are keys of config.decode: translate(text, beam_width=8, length_alpha=1.0), and
        `terms`, {term: its translation}, with method='terminology', or a list of one for each text;
        then all texts are read first. Otherwise a generator is read `chunk_lines` texts ahead.
        UserError for a text of several lines.
        """
        answers = self._hypotheses(several(texts), decode)
        return like_input(texts, (hypotheses[0].text for hypotheses in answers))

    def hypotheses(self, texts: Texts, count: int = 4, **decode: Any) -> Any:
        """Returns the best Hypotheses (text, score, missing, ...) of each text, best first.

        With method='sample' they are samples, in the order drawn.
        """
        changed(self.config, "decode", {"num_hypotheses": count})  # checks it before `max`
        if decode.get("method", self.config.decode.method) in ("beam", "terminology"):
            decode.setdefault("beam_width", max(count, self.config.decode.beam_width))
        answers = self._hypotheses(several(texts), {**decode, "num_hypotheses": count})
        return like_input(texts, answers)

    def score(self, source: str, target: str, **decode: Any) -> tuple[float, float, int]:
        """Returns (score, log_prob, length): a hypothesis' score, and its length in pieces."""
        from transformer.families.scoring import score

        options = ConfigDict(changed(self.config, "decode", decode))
        self._tag(options.tag)
        with layout.launching(self.run.params):
            pair = {"source": line(source), "target": line(target)}
            [(_, result)] = score.forced(self.run, [(1, pair)], options)
        return result

    def attention(self, source: str, target: str, tag: str | None = None) -> dict[str, np.ndarray]:
        """Returns the attention weights of a pair, and its pieces, which begin with the tag.

        `tag` is by default decode.tag.

        {'encoder': [L, H, S, S], 'decoder': [L, H, T, T], 'cross': [L, H, T, S], 'source': [S],
        'target': [T]}: row t of the decoder's weights is the step that predicts target piece t.
        """
        tagged = tokenizer.tagged(self._tag(tag), line(source))
        with layout.launching(self.run.params):
            return attention_weights.pair_weights(self.run, tagged, line(target))

    def align(
        self, source: str, target: str, tag: str | None = None, **attention: int
    ) -> list[tuple[int, int]]:
        """Returns (source word, target word), from 0: where each target word attends most.

        `tag` is by default decode.tag. `attention` has `layer` and `head`, from 1; 0, the default,
        is the mean over all.
        """
        from transformer.families.scoring import align

        config = key_tables.set_mode_keys(ConfigDict({"task": "translation"}), "align")
        options = ConfigDict(changed(config, "attention", attention))
        tag = self._tag(tag)
        source, target = line(source), line(target)
        cross_LHTS = self.attention(source, target, tag)["cross"]
        align.check_choice(options, *cross_LHTS.shape[:2])
        return align.alignment(self.run.vocabulary, source, target, cross_LHTS, options, tag)

    def _tag(self, tag: str | None) -> str:
        """Returns a tag, decode.tag for None; UserError for a tag that the vocabulary lacks."""
        tag = self.config.decode.tag if tag is None else tag
        if tag:
            check_value("decode.tag", tag, ("", *tokenizer.tags(self.run.vocabulary.source)))
        return tag

    def _hypotheses(self, texts: Iterable[str], decode: dict) -> Iterator[list[Hypothesis]]:
        # The key decode.terms itself is a string, the name of a file.
        terms = decode.pop("terms") if isinstance(decode.get("terms"), dict | list | tuple) else {}
        translator = self.translator(**decode)
        if isinstance(terms, dict):
            terms = itertools.repeat(terms)
        elif len(texts := [*texts]) != len(terms):
            raise UserError(f"expected terms for each of {len(texts)} texts, found {len(terms)}")
        requests = (Request(line(x), terms=its) for x, its in zip(texts, terms, strict=False))
        return translator.hypotheses(self.run.params, requests)


def line(text: str) -> str:
    """Returns a text of one line, without its line break; UserError for any other input."""
    text = checked(text).removesuffix("\n").removesuffix("\r")
    if "\n" in text:
        raise UserError(f"expected a text of one line, found {text!r:.80}; see str.splitlines")
    return text


def checked(text: str) -> str:
    """Returns a text that UTF-8 can encode; UserError for a value of another type."""
    if not isinstance(text, str):
        raise UserError(f"expected a text, found {text!r:.80}")
    return mode_lines.encodable(text)


@dataclasses.dataclass(frozen=True)
class LanguageModel:
    """A trained language model. Several threads may call it."""

    config: ConfigDict = dataclasses.field(repr=False)
    run: saved_model.SavedModel = dataclasses.field(repr=False)  # the Flax module and its params
    vocabulary: Any = dataclasses.field(repr=False)
    workdir: Path

    @classmethod
    def from_run(cls, config: ConfigDict, folder: Path) -> "LanguageModel":
        run, context = saved_model.load(config, folder), config.data.context_length
        fields.check_positions(run.model, context, f"config.data.context_length={context}")
        return cls(config, run, vocabularies.read(folder, config), folder)

    def generate(self, prompts: str | Iterable[str], **options: Any) -> Any:
        """Continues a string by a string, a list by a list, a generator by a generator.

        `options` are keys of config.generate: generate(prompt, max_tokens=100, temperature=0.8).
        With num_samples above 1, each prompt has a list of continuations.
        """
        from transformer.families.language_model import generate

        config = self._config(options)
        count = config.generate.num_samples
        sample = generate.sampler(config, self.run, self.vocabulary)
        size = max(1, config.generate.batch_size // count)

        def answers() -> Iterator[str | list[str]]:
            for batch in batch_sizes.chunks(self._prompts(several(prompts)), size):
                with layout.launching(self.run.params):
                    answered = generate.answered(sample, self.vocabulary, batch, count)
                yield from (texts if count > 1 else texts[0] for texts in answered)

        return like_input(prompts, answers())

    def stream(self, prompt: str, **options: Any) -> Iterator[str]:
        """Yields a prompt's continuation in pieces, each as soon as it is sampled."""
        from transformer.families.language_model import generate

        sample = generate.sampler(self._config(options), self.run, self.vocabulary, block=1)
        [prompt] = self._prompts([prompt])
        pieces = generate.pieces(self.vocabulary, prompt, sample([prompt.ids], [(0, 0)]))
        return in_turn(pieces, self.run.params)

    def _prompts(self, texts: Iterable[str]) -> Iterator[Any]:
        from transformer.families.language_model import generate

        values = ({"prompt": checked(text)} for text in texts)
        return generate.read_prompts(values, self.vocabulary, self.config.data.context_length)

    def _config(self, options: dict[str, Any]) -> ConfigDict:
        config = self.config.copy_and_resolve_references()
        config.generate.update(changed(config, "generate", options))
        return config


def in_turn(answers: Iterator, params: Any) -> Iterator:
    """Yields answers computed on demand; on several devices, by one thread at a time."""
    answers, end = iter(answers), object()
    while True:
        with layout.launching(params):
            answer = next(answers, end)
        if answer is end:
            return
        yield answer


@dataclasses.dataclass(frozen=True)
class Classifier:
    """A trained classifier of texts, of pairs of texts, or of images. Several threads may call it.

    An item is a text, a tuple of two texts, the path of a PNG or JPEG, or an image: uint8
    [height, width, channels].
    """

    config: ConfigDict = dataclasses.field(repr=False)
    run: saved_model.SavedModel = dataclasses.field(repr=False)  # the Flax module and its params
    names: tuple[str, ...]  # of the classes
    # (item, number) -> the model's inputs
    _read: Callable[[Any, int], dict[str, np.ndarray]] = dataclasses.field(repr=False)
    workdir: Path

    @classmethod
    def from_run(cls, config: ConfigDict, folder: Path) -> "Classifier":
        from transformer.families.labels import class_names

        names = class_names.read(folder, config.vocabulary.labels_fingerprint)
        read = load_task(config.task).reader(config, folder)
        return cls(config, saved_model.load(config, folder), names, read, folder)

    def classify(self, items: Any) -> str | list[str] | Iterator[str]:
        """Returns the class of one item; a list for a list, a generator for a generator."""
        likeliest = (max(x, key=x.get) for x in self._probabilities(items))
        return like_input(items, likeliest, SINGLE)

    def probabilities(self, items: Any) -> Any:
        """Returns {class: probability} of one item, or of each item, as in `classify`."""
        return like_input(items, self._probabilities(items), SINGLE)

    def _probabilities(self, items: Any) -> Iterator[dict[str, float]]:
        from transformer.families.labels import classify

        options = self.config.classify
        numbered = enumerate(several(items, SINGLE), start=1)
        for chunk in batch_sizes.chunks(numbered, options.chunk_lines):
            rows = [self._read(self._line(item), number) for number, item in chunk]
            with layout.launching(self.run.params):
                shares = list(classify.probabilities(self.run, rows, options.batch_size))
            yield from (dict(zip(self.names, row.tolist(), strict=True)) for row in shares)

    def _line(self, item: Any) -> Any:
        """Returns an item as --mode=classify reads it; an image stays an array."""
        if isinstance(item, np.ndarray) and self.config.task == "image_classification":
            return item
        if isinstance(item, tuple):
            return "\t".join(map(line, item))
        return line(str(item) if isinstance(item, Path) else item)
