"""Loss, accuracy and BLEU of a translation model on a split."""

import functools
import logging
from collections.abc import Callable, Sequence

import flax.linen as nn
import jax
import ml_collections
import numpy as np
import sacrebleu

from transformer.data import batches, packing, tokenizer
from transformer.data.pairs import assemble as assemble_pairs
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
    """Scoring was given up, because the run was signalled to stop."""


class Evaluator:
    """Scores params on one split: every sentence of it, whatever its length.

    `dataset` is what is scored, {'source': lines, 'reference': lines}, and `files` where it comes
    from; `outputs` are, after `scores`, those and the translations, {'hypothesis': lines}.
    """

    def __init__(
        self,
        config: ml_collections.ConfigDict,
        vocabulary: tokenizer.Vocabulary,
        model: nn.Module,
        split: str,
    ):
        data = config.data
        logging.info(
            "the text of %s is %r of %s, config.data.directory=%r; its ids are kept in "
            "config.data.data_dir=%r",
            *(split, data.get(split, split), data.corpus, data.directory, data.data_dir),
        )
        pairs = splits.pairs(config, split)
        self.split = split
        self.files = list(pairs.files)
        self._sources, self._references = pairs.read(range(len(pairs)))
        self.dataset = {"source": self._sources, "reference": self._references}
        self.outputs = self.dataset
        # What a result depends on besides, kept with it.
        self.settings = {"sentences": len(pairs), "decode": config.decode.to_dict()}
        self._translator = Translator(model, vocabulary, **config.decode)
        self._tokens = splits.whole_tokens(config, pairs, vocabulary, split, model)
        row_length, items = config.data.row_length, np.arange(len(pairs))
        rows = packing.unpacked(self._tokens.lengths, items, row_length)
        # Smaller batches than in training: all of a batch's logits are on one device here.
        assemble = functools.partial(assemble_pairs, self._tokens)
        self._batches = batches.Batches(rows, config.decode.batch_tokens, None, assemble)
        self._tokenize = config.evaluate.tokenize
        self._samples = config.evaluate.samples
        smoothing = {name: config.loss[name] for name in ("label_smoothing", "smoothed_over")}
        self._sums = functools.partial(_sums, model=model, **smoothing)

    def rehearse(self, params: Tree) -> None:
        """Computes once in the largest shapes, so that what does not fit into the devices' memory
        is said now: UserError by `memory.fits_in_memory`."""
        self._batch_sums(params, self._batches.first_of_each_length()[0])
        self._translator.rehearse(params, self._tokens.source_lengths)

    def scores(
        self, params: Tree, should_stop: Callable[[], bool] = lambda: False
    ) -> dict[str, float | str] | None:
        """Loss, nats a token, perplexity and token accuracy; BLEU, its signature, chrF and length
        ratio; samples for a person to read.

        Collective: each process translates and scores its share. None, in all of them, if one was
        told to stop before its share was done.
        """
        lines, numbers = (
            processes.my_share(len(self._sources)),
            processes.my_share(len(self._batches)),
        )
        try:
            found = self._translations(params, lines, should_stop)
            sums = [self._batch_sums(params, t, should_stop) for t in numbers]
        except StoppedError:
            found = None
        if any(processes.all_gather(found is None)):
            return None
        translations = processes.gather_shares(found, len(self._sources))
        sums = processes.gather_shares(sums, len(self._batches))
        means = losses.per_token(jax.tree.map(lambda *x: sum(x), *sums))
        self.outputs = {**self.dataset, "hypothesis": translations}
        scores = score(translations, self._references, tokenize=self._tokenize)
        return {**means, **scores, "samples": self._sample(translations)}

    def rows(self, scores: dict) -> dict[str, str]:
        """The scores as a person reads them, {name: text}, the one that counts first."""
        return {
            "BLEU": f"{scores['bleu']:.2f} ({scores['signature']})",
            "chrF": f"{scores['chrf']:.2f}",
            "length ratio": f"{scores['length_ratio']:.3f}",
            "loss": f"{scores['loss']:.4f}",
            "perplexity": f"{scores['perplexity']:.3f}",
            "accuracy": f"{scores['accuracy']:.1%} of tokens",
            "sentences": f"{len(self._sources):,}",
        }

    def _translations(
        self, params: Tree, lines: range, should_stop: Callable[[], bool]
    ) -> list[str]:
        with progress.counter(f"translate {self.split}", total=len(lines)) as advance:

            def go_on(count: int) -> None:
                advance(count)
                _unless(should_stop)

            sources = self._sources[lines.start :: lines.step]
            found = self._translator.translate(params, sources, go_on, numbers=lines)
            return list(found)

    def _batch_sums(
        self, params: Tree, t: int, should_stop: Callable[[], bool] = lambda: False
    ) -> dict:
        _unless(should_stop)
        num_rows, length = self._batches.shape(t)
        padded = step.rows_for_devices(num_rows, inference.num_devices(params))
        batch = self._batches.rows(t, 0, padded)
        what = f"the loss of {num_rows} rows of {length} positions"
        with memory.fits_in_memory(what, "lower config.decode.batch_tokens"):
            sums = self._sums(params, inference.shard_rows(batch, params))
            return jax.tree.map(float, sums)

    def _sample(self, translations: list[str]) -> str:
        """A few of the sentences, spread over the split, for a person to read."""
        chosen = np.linspace(
            0, len(self._sources) - 1, min(self._samples, len(self._sources))
        ).astype(int)
        return "\n".join(
            f"  source       {self._sources[i]}\n"
            f"  translation  {translations[i]}\n"
            f"  reference    {self._references[i]}\n"
            for i in chosen
        )


def _unless(should_stop: Callable[[], bool]) -> None:
    if should_stop():
        raise StoppedError


@functools.partial(jax.jit, static_argnames=("model", "label_smoothing", "smoothed_over"))
def _sums(
    params: Tree, batch: dict, *, model: nn.Module, label_smoothing: float, smoothed_over: str
) -> dict:
    logits_BTV = model.apply({"params": params}, **batch["inputs"], train=False)
    return losses.cross_entropy(
        logits_BTV,
        batch["targets"],
        batch["weights"],
        label_smoothing=label_smoothing,
        smoothed_over=smoothed_over,
    )
