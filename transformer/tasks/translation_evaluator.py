"""Loss, accuracy and BLEU of a translation model on a split."""

import functools
from collections.abc import Callable, Sequence

import flax.linen as nn
import jax
import ml_collections
import numpy as np
import sacrebleu

from transformer.data import batches, packing
from transformer.decoding.translator import Translator
from transformer.distributed import inference, processes, step
from transformer.monitoring import memory, progress
from transformer.tasks import losses, splits

Tree = dict


def score(hypotheses: Sequence[str], references: Sequence[str], *, tokenize: str) -> dict:
    """sacreBLEU (with its signature) and chrF of detokenised, cased text, and the length ratio."""
    bleu = sacrebleu.BLEU(tokenize=tokenize)
    found = bleu.corpus_score(hypotheses, [references])
    return {
        "bleu": found.score,
        "signature": str(bleu.get_signature()),
        "chrf": sacrebleu.CHRF().corpus_score(hypotheses, [references]).score,
        "length_ratio": found.sys_len / max(1, found.ref_len),
    }


class StoppedError(Exception):
    """Scoring was given up, because the run was told to stop."""


class Examiner:
    """Scores parameters on one split: every sentence of it, whatever its length."""

    def __init__(
        self,
        config: ml_collections.ConfigDict,
        split: str,
        translator: Translator,
    ):
        pairs = splits.pairs(config, split)
        self.files = list(pairs.files)
        self.sources, self.references = pairs.read(range(len(pairs)))
        tokens = splits.whole_tokens(config, pairs, translator.vocabulary, split, translator.model)
        rows = packing.unpacked(tokens, np.arange(len(pairs)), config.data.row_length)
        # Smaller batches than in training: all of a batch's logits are on one device here.
        self._batches = batches.Batches(tokens, rows, config.decode.batch_tokens, seed=None)
        self._split = split
        self._tokenize = config.evaluate.tokenize
        self._translator = translator
        self._sums = functools.partial(_sums, model=translator.model, **config.loss)

    def rehearse(self, parameters: Tree) -> None:
        """Computes once in the largest shapes, so that what does not fit into the devices' memory
        is said now: UserError by `capacity.holds`."""
        self._batch_sums(parameters, self._batches.first_of_each_length()[0])
        self._translator.rehearse(parameters, self._batches.tokens.source_lengths)

    def examine(
        self, parameters: Tree, stopping: Callable[[], bool] = lambda: False
    ) -> tuple[dict, list[str]] | None:
        """Loss, nats a token, perplexity and token accuracy, BLEU; and the translations.

        Each process finds some of them. None if one of them was `stopping` before it had its own.
        """
        lines, numbers = processes.share(len(self.sources)), processes.share(len(self._batches))
        try:
            found = self._translations(parameters, lines, stopping)
            sums = [self._batch_sums(parameters, t, stopping) for t in numbers]
        except StoppedError:
            found = None
        if any(processes.everyones(found is None)):
            return None
        found = processes.exchange(found, len(self.sources))
        sums = processes.exchange(sums, len(self._batches))
        means = losses.per_token(jax.tree.map(lambda *x: sum(x), *sums))
        return {**means, **score(found, self.references, tokenize=self._tokenize)}, found

    def _translations(
        self, parameters: Tree, lines: range, stopping: Callable[[], bool]
    ) -> list[str]:
        with progress.counter(f"translate {self._split}", total=len(lines)) as advance:

            def go_on(count: int) -> None:
                advance(count)
                _unless(stopping)

            sources = self.sources[lines.start :: lines.step]
            found = self._translator.translate(parameters, sources, go_on, numbers=lines)
            return list(found)

    def _batch_sums(
        self, parameters: Tree, t: int, stopping: Callable[[], bool] = lambda: False
    ) -> dict:
        _unless(stopping)
        num_rows, length = self._batches.shape(t)
        padded = step.padded_rows(num_rows, inference.num_devices(parameters))
        batch = self._batches.rows(t, 0, padded)
        what = f"the loss of {num_rows} rows of {length} positions"
        with memory.holds(what, "lower config.decode.batch_tokens"):
            sums = self._sums(parameters, inference.by_rows(batch, parameters))
            return jax.tree.map(float, sums)

    def sample(self, translations: list[str], count: int) -> str:
        """A few of the sentences, spread over the split, for a person to read."""
        chosen = np.linspace(0, len(self.sources) - 1, min(count, len(self.sources))).astype(int)
        return "\n".join(
            f"  source       {self.sources[i]}\n"
            f"  translation  {translations[i]}\n"
            f"  reference    {self.references[i]}\n"
            for i in chosen
        )


def _unless(stopping: Callable[[], bool]) -> None:
    if stopping():
        raise StoppedError


@functools.partial(jax.jit, static_argnames=("model", "label_smoothing", "smoothed_over"))
def _sums(
    parameters: Tree, batch: dict, *, model: nn.Module, label_smoothing: float, smoothed_over: str
) -> dict:
    logits_BTV = model.apply({"params": parameters}, **batch["inputs"], train=False)
    return losses.cross_entropy(
        logits_BTV,
        batch["targets"],
        batch["weights"],
        label_smoothing=label_smoothing,
        smoothed_over=smoothed_over,
    )
