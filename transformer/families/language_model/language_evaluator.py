"""Loss and perplexity of a language model on a split."""

import functools
import json
import logging
import math
from collections.abc import Sequence
from pathlib import Path

import flax.linen as nn
import numpy as np
from ml_collections import ConfigDict

from transformer.data import tokenizer
from transformer.data.batches import Batches
from transformer.errors import UserError, quantity
from transformer.families.language_model import continuations, streams
from transformer.runtime import memory
from transformer.tasks import losses, splits, vocabularies
from transformer.tasks.evaluation import Evaluation, SplitSums


def evaluator(config: ConfigDict, workdir: Path, model: nn.Module, split: str) -> Evaluation:
    """Returns the evaluator of a split, which predicts each token exactly once.

    Scores are means per token ('loss', 'nats_per_token', 'perplexity', 'accuracy'),
    'word_perplexity' and 'bits_per_character'. The last two divide the nats of all tokens, line
    breaks included, by the words (without line breaks) and by the characters (with line breaks).
    Outputs are 'text' and 'nats', a line's cross entropy including its break.
    """
    data = config.data
    splits.log_origin(config, split)
    corpus, vocabulary = splits.text(config, split), vocabularies.read(workdir, config)
    [lines] = corpus.read()
    dataset = {"text": tokenizer.normalised(lines, vocabulary.normalisation)}
    tokens = splits.tokens(config, corpus, vocabulary, f"tokenise {split}").sides["text"]
    ids, starts = tokens.ids, tokens.offsets[:-1]
    if unknown := int((ids == vocabulary.unknown).sum()):
        what = f"{quantity(unknown, 'character')} of {len(ids)} are unknown to the vocabulary"
        logging.warning("split %s: %s, and count as one token each", split, what)
    size = {"tokens": len(ids), **counts(dataset["text"]), "unknown": unknown}
    # Seed None keeps the windows, and thus `nats_of_tokens`, in the order of the stream.
    windows = streams.windows(len(ids), data.context_length)
    assemble = functools.partial(streams.assemble, ids)
    batches = Batches([windows], config.evaluate.batch_tokens, None, assemble)
    loss = SplitSums(
        batches,
        functools.partial(losses.sums_and_nats, model=model, options=tuple(config.loss.items())),
        what=f"score {split}",
        remedy="lower config.evaluate.batch_tokens",
    )

    def samples(params: dict) -> str:
        """Samples a few texts without a prompt, deterministically, and formats them."""
        if not config.evaluate.samples:
            return ""
        options = {key: config.generate[key] for key in continuations.SAMPLING}
        options |= {"model": model, "vocabulary": vocabulary, "context": data.context_length}
        with memory.fits_in_memory("sampling", "lower config.evaluate.samples"):
            texts = continuations.unprompted(params, config.evaluate.samples, **options)
        return format_samples(texts)

    # Sampling has its own programs, which may run out of memory even if the loss does not.
    def rehearse(params: dict) -> None:
        loss.rehearse(params)
        samples(params)

    def score(params: dict) -> tuple[dict, dict]:
        sums, [nats_of_tokens] = loss.score(params)
        # reduceat sums each line's tokens, starts[i] to starts[i + 1]. No line is empty, because
        # each has its break.
        nats_of_lines = np.add.reduceat(nats_of_tokens, starts)
        nats = sums["nats_per_token"]
        scores = {
            **losses.per_token(sums),
            # At most e^700, because e^710 overflows.
            "word_perplexity": math.exp(min(nats / max(1, size["words"]), 700.0)),
            "bits_per_character": nats / math.log(2) / size["characters"],
            "samples": samples(params),
        }
        return scores, {**dataset, "nats": [f"{x:.6g}" for x in nats_of_lines]}

    def rows(scores: dict) -> dict[str, str]:
        return {
            "perplexity": f"{scores['perplexity']:.3f} per token ({size['tokens']:,})",
            "per word": f"{scores['word_perplexity']:.2f} ({size['words']:,} words)",
            "bits": f"{scores['bits_per_character']:.4f} per character ({size['characters']:,})",
            "nats": f"{scores['nats_per_token']:.4f} per token",
            "accuracy": f"{scores['accuracy']:.1%} of tokens",
        }

    return Evaluation(
        split=split,
        files=list(corpus.files),
        dataset=dataset,
        settings=size,
        columns={"input": "text", "measure": "nats"},
        score=score,
        rehearse=rehearse,
        rows=rows,
    )


def counts(lines: Sequence[str]) -> dict[str, int]:
    """Returns {'words', 'characters'}: split at white space; with all spaces and line breaks."""
    return {
        "words": sum(len(line.split()) for line in lines),
        # Each line's break is a character, even the last line's.
        "characters": sum(len(line) + 1 for line in lines),
    }


def format_samples(texts: Sequence[str]) -> str:
    """Formats texts for the log, one JSON string per line."""
    return "\n".join(json.dumps(text, ensure_ascii=False) for text in texts)


def read_samples(text: str) -> list[str]:
    """Returns the texts that `format_samples` has formatted; UserError if damaged."""
    try:
        texts = [json.loads(line) for line in text.split("\n") if line]
    except (ValueError, RecursionError):
        texts = [None]
    if not all(isinstance(text, str) for text in texts):
        raise UserError("damaged: 'samples' in metrics.jsonl are not JSON strings, one a line")
    return texts
