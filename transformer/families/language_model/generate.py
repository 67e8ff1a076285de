"""--mode=generate: a language model's continuations of the prompts on standard input."""

import functools
import itertools
import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from ml_collections import ConfigDict

from transformer.data.tokenizer import Pieces
from transformer.decoding import batch_sizes, compiled
from transformer.errors import quantity
from transformer.families.language_model import continuations
from transformer.models import fields
from transformer.modes import lines
from transformer.runtime import memory, progress
from transformer.tasks import saved_model, vocabularies


class Prompt(NamedTuple):
    """A line of standard input and its tokens."""

    number: int  # of the line, from 0
    values: dict  # {"prompt": text} and a JSON object's other keys
    ids: list[int]


def generate(config: ConfigDict, workdir: Path) -> None:
    """Reads prompts, lines or JSON objects, and writes their continuations in order.

    A continuation has `config.generate.max_tokens` tokens, or ends after `config.generate.lines`
    lines. With `lines` 1 it is one line; otherwise an empty line follows it. A JSON object gets
    "continuation", or "continuations" for several samples. On a terminal, or with
    `config.generate.stream`, tokens are written as they are sampled. For a prompt longer than the
    context, a warning gives the part that the model sees.
    """
    options, form = config.generate, config.generate.format
    interactive = sys.stdin.isatty()
    # A JSON object can only be written as a whole.
    stream = form == "text" and (interactive or options.stream)
    values = lines.columns(lines.read(sys.stdin.buffer), ("prompt",), needed=1, form=form)
    vocabulary = vocabularies.read(workdir, config)
    context = config.data.context_length
    prompts = read_prompts(values, vocabulary, context)
    run = saved_model.load(config, workdir)
    # The context may be larger than in training, but not than the learned positions.
    fields.check_positions(run.model, context, f"config.data.context_length={context}")
    if interactive:
        logging.info("ready: type a prompt and press Enter; Ctrl-D ends")
    sample = sampler(config, run, vocabulary, block=1 if stream else continuations.BLOCK)
    end = "" if options.lines == 1 else "\n"  # an empty line ends a text of several lines
    samples = range(options.num_samples)
    size = 1 if stream or interactive else max(1, options.batch_size // len(samples))
    total, hidden = lines.count(sys.stdin.buffer), stream or interactive
    with progress.counter("generate", total=total, unit="prompt", hidden=hidden) as advance:
        for batch in batch_sizes.chunks(prompts, size):
            if stream:
                for prompt, number in itertools.product(batch, samples):
                    drawn = sample([prompt.ids], [(prompt.number, number)])
                    for piece in pieces(vocabulary, prompt, drawn):
                        lines.write(sys.stdout.buffer, piece, end="")
                    lines.write(sys.stdout.buffer, end)
                continue
            answers = answered(sample, vocabulary, batch, len(samples))
            for prompt, texts in zip(batch, answers, strict=True):
                for line in _format(prompt, texts, form, end):
                    lines.write(sys.stdout.buffer, line)
            advance(len(batch))


def sampler(
    config: ConfigDict,
    run: saved_model.SavedModel,
    vocabulary: Pieces,
    *,
    block: int = continuations.BLOCK,
) -> Callable[[list[list[int]], list[tuple[int, int]]], Iterator[list[list[int]]]]:
    """Returns `continuations.sample` of a run, with the options of `config.generate`."""
    return functools.partial(
        continuations.sample,
        compiled.cast_params(run.params, run.model),
        model=run.model,
        vocabulary=vocabulary,
        context=config.data.context_length,
        block=block,
        num_lines=config.generate.lines,
        **{key: config.generate[key] for key in continuations.SAMPLING},
    )


def answered(
    sample: Callable, vocabulary: Pieces, batch: list[Prompt], num_samples: int
) -> list[list[str]]:
    """Returns the continuations of each prompt of a batch."""
    rows = [(prompt, number) for prompt in batch for number in range(num_samples)]
    keys = [(prompt.number, number) for prompt, number in rows]
    with memory.fits_in_memory("generation", "lower config.generate.batch_size"):
        *_, ids = sample([prompt.ids for prompt, _ in rows], keys)
    texts = [continuation(vocabulary, row[0], x) for row, x in zip(rows, ids, strict=True)]
    # Samples of a prompt are adjacent: with 2 per prompt, prompt 1 has samples 2 and 3.
    return [texts[i : i + num_samples] for i in range(0, len(texts), num_samples)]


def read_prompts(values: Iterable[dict], vocabulary: Pieces, context: int) -> Iterator[Prompt]:
    """Yields each line's prompt; warns if it exceeds the context or has unknown characters."""
    for number, line in enumerate(values):
        # Without END, because the prompt's line continues. A JSON string may have line breaks.
        texts = vocabulary.encode(line["prompt"].split("\n"))
        ids = [i for text in texts for i in text][:-1]
        if len(ids) >= context:
            # A window starts with the last half of the previous window, and grows to the context.
            seen = f"{context // 2 + 1} to {context} (config.data.context_length={context})"
            message = "line %d: the prompt has %d tokens, of which the model sees the last %s"
            logging.warning(message, number + 1, len(ids), seen)
        if unknown := ids.count(vocabulary.unknown):
            what = f"the prompt has {quantity(unknown, 'character')} unknown to the vocabulary"
            logging.warning("line %d: %s", number + 1, what)
        yield Prompt(number, line, ids)


def pieces(vocabulary: Pieces, prompt: Prompt, blocks: Iterator[list[list[int]]]) -> Iterator[str]:
    """Yields the continuation of one row in parts, as it grows."""
    given = answer = ""
    for [ids] in blocks:
        answer = continuation(vocabulary, prompt, ids)
        # A character of several byte tokens is U+FFFD until the last.
        whole = answer.rstrip("\ufffd")
        if len(whole) > len(given):
            yield whole[len(given) :]
            given = whole
    if answer != given:
        yield answer[len(given) :]


def continuation(vocabulary: Pieces, prompt: Prompt, ids: list[int]) -> str:
    """Returns the text that follows a prompt.

    Both are decoded together, because the first piece of a text loses its space.
    """
    prompt_text = continuations.text(vocabulary, prompt.ids)
    return continuations.text(vocabulary, prompt.ids + ids)[len(prompt_text) :]


def _format(prompt: Prompt, texts: list[str], form: str, end: str) -> Iterator[str]:
    """Yields a prompt's output lines: a JSON object, or its texts with `end` appended."""
    if form == "json":
        answer = {"continuation": texts[0]} if len(texts) == 1 else {"continuations": texts}
        yield lines.to_json({**prompt.values, **answer})
    else:
        yield from (answer + end for answer in texts)
