"""Loss and perplexity of a language model on a split."""

import functools
import json
import logging
import math
from collections.abc import Callable, Sequence

import flax.linen as nn
import ml_collections
import numpy as np

from transformer.data import tokenizer
from transformer.data.batches import Batches
from transformer.errors import UserError
from transformer.families.language_model import streams
from transformer.families.language_model.continuations import unprompted
from transformer.runtime import memory, progress
from transformer.tasks import losses, splits
from transformer.tasks.evaluation_loss import EvaluationLoss
from transformer.workdir.workdir import Vocabulary

Tree = dict


class Evaluator:
    """Scores params on one split, of which each token is predicted exactly once.

    `dataset` is the split's text, {'text': lines}, and `files` are the paths it was read from.
    `outputs` is `dataset`, and after `scores` also has the cross entropy of each line with its line
    break, in nats, under 'nats'. `settings` holds what else a result depends on.
    """

    def __init__(
        self,
        config: ml_collections.ConfigDict,
        vocabulary: Vocabulary,
        model: nn.Module,
        split: str,
    ):
        data = config.data
        logging.info(
            "split %s: %r, config.data.directory=%r; token ids are cached in "
            "config.data.data_dir=%r",
            *(split, data[split], data.directory, data.data_dir),
        )
        corpus = splits.text(config, split)
        self.split, self.files = split, list(corpus.files)
        [lines] = corpus.read(range(len(corpus)))
        lines = tokenizer.normalised(lines, vocabulary.normalisation)
        self.dataset = self.outputs = {"text": lines}
        tokens = splits.tokens(config, corpus, vocabulary, f"tokenise {split}").sides["text"]
        ids, self._starts = tokens.ids, tokens.offsets[:-1]
        unknown = int((ids == vocabulary.unknown).sum())
        if unknown:
            logging.warning(
                "split %s: %s of %d are unknown to the vocabulary, and count as one token each",
                *(split, progress.quantity(unknown, "character"), len(ids)),
            )
        self.settings = {"tokens": len(ids), **counts(lines), "unknown": unknown}
        batches = Batches(
            [streams.windows(len(ids), data.context_length)],
            config.evaluate.batch_tokens,
            None,
            functools.partial(streams.assemble, ids),
        )
        self._loss = EvaluationLoss(
            batches,
            model,
            tuple(config.loss.items()),
            what=f"score {split}",
            remedy="lower config.evaluate.batch_tokens",
        )
        self._samples = config.evaluate.samples
        keys = ("max_tokens", "seed", "temperature", "top_k", "top_p")
        self._unprompted = functools.partial(
            unprompted,
            **{"model": model, "vocabulary": vocabulary, "context": data.context_length},
            **{key: config.generate[key] for key in keys},
        )

    def rehearse(self, params: Tree) -> None:
        """Computes the loss of the largest batches, and the samples.

        UserError if they do not fit into the devices' memory, so that a run fails before its first
        step and not at its first validation.
        """
        self._loss.rehearse(params)
        self._sample(params)

    def scores(
        self, params: Tree, should_stop: Callable[[], bool] = lambda: False
    ) -> dict[str, float | str] | None:
        """Returns means per token ('loss', 'nats_per_token', 'perplexity', 'accuracy'),
        'word_perplexity', 'bits_per_character', and 'samples' (text). Collective; None if stopped
        (see EvaluationLoss).

        The nats of all tokens, line breaks included, are divided by the words between white space,
        which line breaks are not, or by the characters, which they are.
        """
        outcome = self._loss.sums_and_nats(params, should_stop)
        if outcome is None:
            return None
        sums, nats_of_tokens = outcome
        # No line is without tokens: each has at least its line break.
        nats_of_lines = np.add.reduceat(nats_of_tokens, self._starts)
        self.outputs = {**self.dataset, "nats": [f"{x:.6g}" for x in nats_of_lines]}
        nats = sums["nats_per_token"]
        return {
            **losses.per_token(sums),
            "word_perplexity": math.exp(min(nats / max(1, self.settings["words"]), 700.0)),
            "bits_per_character": nats / math.log(2) / self.settings["characters"],
            "samples": self._sample(params),
        }

    def _sample(self, params: Tree) -> str:
        """Writes a few texts without a prompt, the same draws each time, and formats them."""
        if not self._samples:
            return ""
        with memory.fits_in_memory("sampling", "lower config.evaluate.samples"):
            return format_samples(self._unprompted(params, self._samples))

    def rows(self, scores: dict) -> dict[str, str]:
        """Formats scores as a table, {name: text}, with the main score first."""
        size = self.settings
        return {
            "perplexity": f"{scores['perplexity']:.3f} per token ({size['tokens']:,})",
            "per word": f"{scores['word_perplexity']:.2f} ({size['words']:,} words)",
            "bits": f"{scores['bits_per_character']:.4f} per character ({size['characters']:,})",
            "nats": f"{scores['nats_per_token']:.4f} per token",
            "accuracy": f"{scores['accuracy']:.1%} of tokens",
        }


def counts(lines: Sequence[str]) -> dict[str, int]:
    """Returns the numbers of words (between white space) and of characters, with line breaks.

    Characters are those of the file: of several spaces, which SentencePiece makes one, all count.
    """
    return {
        "words": sum(len(line.split()) for line in lines),
        "characters": int(np.sum([len(line) + 1 for line in lines])),
    }


def format_samples(texts: Sequence[str]) -> str:
    """Formats texts for the log: each on a line of its own, as a JSON string."""
    return "\n".join(json.dumps(text, ensure_ascii=False) for text in texts)


def read_samples(text: str) -> list[str]:
    """Returns the texts of a log line's 'samples', as `format_samples` was given them.

    UserError if they are others.
    """
    try:
        texts = [json.loads(line) for line in text.split("\n") if line]
    except (ValueError, RecursionError):
        texts = [None]
    if not all(isinstance(text, str) for text in texts):
        raise UserError("damaged: 'samples' in metrics.jsonl are not JSON strings, one a line")
    return texts
