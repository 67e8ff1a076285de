"""Loss, accuracy, BLEU and chrF of a translation model on a split."""

import functools
import logging
import re
from collections.abc import Callable, Sequence

import flax.linen as nn
import ml_collections
import numpy as np
import sacrebleu

from transformer.data import packing, tokenizer
from transformer.data.batches import Batches
from transformer.data.pairs import assemble as assemble_pairs
from transformer.decoding.translator import Translator
from transformer.distributed import processes
from transformer.runtime import progress
from transformer.tasks import losses, splits
from transformer.tasks.evaluation_loss import EvaluationLoss

Tree = dict


def score(hypotheses: Sequence[str], references: Sequence[str], *, tokenize: str) -> dict:
    """Returns 'bleu' (sacreBLEU, 0 to 100) and its 'signature', 'chrf', and 'length_ratio'.

    Text is detokenised and cased; `tokenize` is sacreBLEU's tokeniser. 'length_ratio' is the
    number of tokens in the hypotheses over that in the references.
    """
    bleu = sacrebleu.BLEU(tokenize=tokenize)
    bleu_score = bleu.corpus_score(hypotheses, [references])
    return {
        "bleu": bleu_score.score,
        "signature": str(bleu.get_signature()),
        "chrf": sacrebleu.CHRF().corpus_score(hypotheses, [references]).score,
        "length_ratio": bleu_score.sys_len / max(1, bleu_score.ref_len),
    }


class StoppedError(Exception):
    """Evaluation was interrupted because the run was signalled to stop."""


class Evaluator:
    """Scores params on every sentence of one split, whatever its length.

    `dataset` is the split's text, {'source': lines, 'reference': lines}, and `files` are the paths
    it was read from. `outputs` is `dataset`, and after `scores` also has the translations under
    'hypothesis'. `settings` holds what else a result depends on.
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
            "split %s: %r of corpus %s, config.data.directory=%r; token ids are cached in "
            "config.data.data_dir=%r",
            *(split, data.get(split, split), data.corpus, data.directory, data.data_dir),
        )
        pairs = splits.pairs(config, split)
        self.split = split
        self.files = list(pairs.files)
        # References in the form of the translations: é in two parts would count as another letter.
        self._sources, self._references = (
            tokenizer.normalised(lines, side.normalisation)
            for lines, side in zip(pairs.read(range(len(pairs))), vocabulary, strict=True)
        )
        self.dataset = {"source": self._sources, "reference": self._references}
        self.outputs = self.dataset
        self.settings = {"sentences": len(pairs), "decode": config.decode.to_dict()}
        self._translator = Translator(model, vocabulary, **config.decode)
        self._tokens = splits.evaluation_tokens(config, pairs, vocabulary, split, model)
        row_length, items = config.data.row_length, np.arange(len(pairs))
        rows = packing.one_per_row(self._tokens.lengths, items, row_length)
        assemble = functools.partial(assemble_pairs, self._tokens)
        self._loss = EvaluationLoss(
            Batches(rows, config.decode.batch_tokens, None, assemble),
            model,
            tuple(config.loss.items()),
            what=f"loss of {split}",
            remedy="lower config.decode.batch_tokens",
        )
        self._tokenize = config.evaluate.tokenize
        self._samples = config.evaluate.samples

    def rehearse(self, params: Tree) -> None:
        """Computes loss and translations once in their largest shapes.

        UserError (from `memory.fits_in_memory`) if they do not fit into the devices' memory, so
        that a run fails before its first step and not at its first validation.
        """
        self._loss.rehearse(params)
        self._translator.rehearse(params, self._tokens.sides["source"].lengths)

    def scores(
        self, params: Tree, should_stop: Callable[[], bool] = lambda: False
    ) -> dict[str, float | str] | None:
        """Returns means per token ('loss', 'nats_per_token', 'perplexity', 'accuracy'), the keys of
        `score`, and 'samples' (text).

        Collective: each process translates and scores its share, and all return the same. None in
        all processes if `should_stop()` was true in one before its share was done.
        """
        lines = processes.my_share(len(self._sources))
        try:
            translations = self._translations(params, lines, should_stop)
        except StoppedError:
            translations = None
        # A process that was stopped must not leave the others waiting in gather_shares.
        if any(processes.all_gather(translations is None)):
            return None
        translations = processes.gather_shares(translations, len(self._sources))
        if (sums := self._loss.sums(params, should_stop)) is None:
            return None
        means = losses.per_token(sums)
        self.outputs = {**self.dataset, "hypothesis": translations}
        scores = score(translations, self._references, tokenize=self._tokenize)
        return {**means, **scores, "samples": self._sample(translations)}

    def rows(self, scores: dict) -> dict[str, str]:
        """Formats scores as a table, {name: text}, with the main score first."""
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
        """Translates this process's share of the sources, in order."""
        with progress.counter(f"translate {self.split}", total=len(lines)) as advance:

            def after_batch(count: int) -> None:
                advance(count)
                if should_stop():
                    raise StoppedError

            sources = self._sources[lines.start :: lines.step]
            return list(self._translator.translate(params, sources, after_batch, numbers=lines))

    def _sample(self, translations: list[str]) -> str:
        """Formats a few sentences, evenly spaced over the split, for the log."""
        chosen = np.linspace(
            0, len(self._sources) - 1, min(self._samples, len(self._sources))
        ).astype(int)
        sides = self._sources, translations, self._references
        return "\n".join(SAMPLE.format(*(side[i] for side in sides)) for i in chosen)


# What a log line has under 'samples': these three lines for each sentence, between empty ones.
SAMPLE = "  source       {}\n  translation  {}\n  reference    {}\n"


def read_samples(text: str) -> list[tuple[str, str, str]]:
    """Returns (source, translation, reference) of each sentence of a log line's 'samples'."""
    return re.findall(SAMPLE.format("(.*)", "(.*)", "(.*)"), text)
