"""Continues texts from Python."""

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict

from transformer.decoding import batch_sizes
from transformer.distributed import layout
from transformer.tasks import saved_model, vocabularies
from transformer.tasks.task import check_positions
from transformer.tools.api.loading import changed, like_input, several


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
        check_positions(run.model, context, f"config.data.context_length={context}")
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

        values = ({"prompt": text} for text in texts)
        return generate.read_prompts(values, self.vocabulary, self.config.data.context_length)

    def _config(self, options: dict[str, Any]) -> ConfigDict:
        config = self.config.copy_and_resolve_references()
        config.generate.update(changed(config, "generate", options))
        return config


def in_turn(answers: Iterator, params: Any) -> Iterator:
    """Yields answers that are computed on demand; on several devices, by one thread at a time."""
    answers, end = iter(answers), object()
    while True:
        with layout.launching(params):
            answer = next(answers, end)
        if answer is end:
            return
        yield answer
