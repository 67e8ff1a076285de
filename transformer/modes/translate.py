"""--mode=translate: translates standard input to standard output, line by line."""

import itertools
import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ml_collections import ConfigDict

from transformer.decoding.translator import Hypothesis, Request, Translator
from transformer.models import kernels
from transformer.modes import lines
from transformer.runtime import progress
from transformer.tasks import translation


def translate(config: ConfigDict, workdir: Path) -> None:
    """Reads lines (or JSON objects) and writes one translation per line.

    With `config.decode.num_hypotheses` above 1, writes a line per hypothesis instead, NUMBER |||
    TRANSLATION ||| SCORE, where NUMBER counts the input lines from 0.
    """
    form = config.translate.format
    names = ("source", "prefix")
    # Without prefixes, a tab in a line is part of the source.
    if form == "text" and not config.translate.prefix:
        names = names[:1]
    inputs = lines.columns(lines.read(sys.stdin.buffer), names, needed=1, form=form)
    kernels.chosen().advise(config.model.get("dtype"))
    run = translation.load(config, workdir)
    translator = translation.translator(config, workdir, run, config.decode)
    request = lambda x: Request(x["source"], x.get("prefix", ""), x.get("terms", {}))
    answered = answers(translator, run.params, inputs, request, "translate")
    num_flagged = 0
    for number, (hypotheses, values) in enumerate(answered):
        num_flagged += bool(hypotheses[0].flagged)
        for line in _format(number, values, hypotheses, form, config.decode.num_hypotheses):
            lines.write(sys.stdout.buffer, line)
    if num_flagged:
        logging.warning("%d of %d lines are flagged", num_flagged, number + 1)


def answers(
    translator: Translator,
    params: dict,
    inputs: Iterable[dict],
    request: Callable[[dict], Request],
    what: str,
) -> Iterator[tuple[list[Hypothesis], dict]]:
    """Yields the hypotheses of each line of standard input, in order, with the line's values.

    `inputs` are the values, and request(values) is translated. A line of a terminal is answered
    before the next is read. Otherwise the progress is shown, labelled by `what`.
    """
    total = lines.count(sys.stdin.buffer)
    interactive = sys.stdin.isatty()
    if interactive:
        translator.decode.chunk_lines = 1
        with progress.waiting("compile"):  # before the first line is typed
            list(translator.translate(params, ["."]))
        logging.info("ready: type a line and press Enter; Ctrl-D ends")
    # Queue of inputs that the translator has read but not answered. Answers come in order.
    inputs, unanswered = itertools.tee(inputs)
    with progress.counter(what, total=total, hidden=interactive) as advance:
        # Read a file ahead, but not a pipe, because its writer may wait for the answer.
        read_ahead = total is not None
        requests = map(request, inputs)
        answered = translator.hypotheses(params, requests, advance, read_ahead=read_ahead)
        yield from zip(answered, unanswered, strict=True)


def _format(
    number: int, values: dict, hypotheses: list[Hypothesis], form: str, count: int
) -> Iterator[str]:
    """Yields the output lines of one input; `values` are its columns or JSON keys."""
    if form == "json":
        answer = {**values, "translation": hypotheses[0].text, **hypotheses[0].details()}
        if count > 1:
            answer["hypotheses"] = [{"text": x.text, **x.details()} for x in hypotheses]
        yield lines.to_json(answer)
    elif count > 1:
        for x in hypotheses:
            yield f"{number} ||| {x.text} ||| {x.score:.6f}"
    else:
        yield hypotheses[0].text
