"""A data set -> loss and sacreBLEU, through `translator`: validation and offline scores agree."""

import functools
import logging
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import ml_collections
import numpy as np
import sacrebleu

from transformer import (
    batches,
    capacity,
    loss,
    metrics,
    parallel,
    prepare,
    processes,
    results,
    splits,
    trained,
)
from transformer.translator import Translator

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
        rows = batches.unpacked(tokens, np.arange(len(pairs)), config.data.row_length)
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
        means = per_token(jax.tree.map(lambda *x: sum(x), *sums))
        return {**means, **score(found, self.references, tokenize=self._tokenize)}, found

    def _translations(
        self, parameters: Tree, lines: range, stopping: Callable[[], bool]
    ) -> list[str]:
        with metrics.counter(f"translate {self._split}", total=len(lines)) as advance:

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
        padded = parallel.padded_rows(num_rows, parallel.num_devices(parameters))
        batch = self._batches.rows(t, 0, padded)
        what = f"the loss of {num_rows} rows of {length} positions"
        with capacity.holds(what, "lower config.decode.batch_tokens"):
            sums = self._sums(parameters, parallel.by_rows(batch, parameters))
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


def per_token(sums: dict) -> dict:
    """Means over tokens from the sums of `loss.cross_entropy`."""
    nats = sums["nll"] / sums["tokens"]
    return {
        "loss": sums["loss"] / sums["tokens"],
        "nats_per_token": nats,
        "perplexity": math.exp(min(nats, 700.0)),
        "accuracy": sums["correct"] / sums["tokens"],
    }


def evaluate(config: ml_collections.ConfigDict, workdir: Path) -> None:
    """--mode=evaluate: scores `evaluate.split`; the result on standard output, then in files.

    evaluations.jsonl gets a line a result; evaluation/SET.{source,hypothesis,reference} are the
    sentences of a test set's newest, and evaluation/SET.json is that result.
    """
    prepare.check(config)
    score_split(config, workdir)


def score_split(
    config: ml_collections.ConfigDict, workdir: Path, *, once: bool = False
) -> dict[str, Any]:
    """Scores `evaluate.split` by the saved parameters: the result, after it was printed and kept.

    `once`: a result that evaluations.jsonl has already is not added again.
    """
    if processes.is_first():
        results.warn_if_unwritable(workdir)
    split = splits.final(config)
    run = trained.load(workdir, config)
    translator = Translator(run.model, run.vocabulary, **config.decode)
    examiner = Examiner(config, split, translator)
    scores, translations = examiner.examine(run.parameters)
    texts = (examiner.sources, examiner.references)
    result = {
        "set": results.free_name(workdir, results.name_of(split, examiner.files), *texts),
        "split": split,
        "step": run.steps[-1],
        "weights": config.evaluate.weights,
        **scores,
        "sentences": len(translations),
        "files": examiner.files,
        "checksum": results.checksum(*texts),
        "steps": run.steps,
        "ensemble": config.evaluate.ensemble,
        "decode": config.decode.to_dict(),
        "versions": prepare.versions(),
    }
    if processes.is_first():
        logging.info("%s:\n\n%s", split, examiner.sample(translations, config.evaluate.samples))
        sentences = {"source": texts[0], "hypothesis": translations, "reference": texts[1]}
        try:
            results.show(result)
        finally:  # whoever reads standard output may be gone
            results.keep(workdir, result, sentences, once=once)
    return result


@functools.partial(jax.jit, static_argnames=("model", "label_smoothing", "smoothed_over"))
def _sums(
    parameters: Tree, batch: dict, *, model: nn.Module, label_smoothing: float, smoothed_over: str
) -> dict:
    logits_BTV = model.apply({"params": parameters}, **batch["inputs"], train=False)
    return loss.cross_entropy(
        logits_BTV,
        batch["targets"],
        batch["weights"],
        label_smoothing=label_smoothing,
        smoothed_over=smoothed_over,
    )
