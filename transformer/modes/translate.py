"""--mode=translate: standard input to standard output, line by line."""

import collections
import contextlib
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import ml_collections

from transformer.decoding.translator import Hypothesis, Request, Translator
from transformer.modes import lines
from transformer.monitoring import progress
from transformer.tasks import translation


def translate(config: ml_collections.ConfigDict, workdir: Path) -> None:
    """Translates standard input: a line in, a line out.

    With `config.decode.num_hypotheses` above 1, it is as many lines out as there are translations:
    NUMBER ||| TRANSLATION ||| SCORE, lines numbered from 0.
    """
    interactive = sys.stdin.isatty()
    if interactive:
        config.decode.chunk_lines = 1  # somebody is waiting for each line
    form, names = config.translate.format, ("source", "prefix")
    if form == "text" and not config.translate.prefix:
        names = names[:1]
    texts = lines.read(sys.stdin.buffer)
    asked = lines.columns(texts, names, needed=1, form=form)
    run = translation.load(workdir, config)
    translator = Translator(run.model, run.vocabulary, **config.decode)
    logging.info("%s weights of steps %s", config.evaluate.weights, run.steps)
    if interactive:
        list(translator.translate(run.params, ["."]))
        logging.info("ready: a line, then Enter; Ctrl-D ends")
    waiting = collections.deque()  # what was asked and has no answer yet

    def requests() -> Iterator[Request]:
        for found in asked:
            waiting.append(found)
            yield Request(found["source"], found.get("prefix", ""))

    unseen = contextlib.nullcontext(lambda count: None)
    total = lines.count(sys.stdin.buffer)
    with unseen if interactive else progress.counter("translate", total=total) as advance:
        answers = translator.hypotheses(run.params, requests(), advance)
        for number, hypotheses in enumerate(answers):
            found = waiting.popleft()
            for line in _answer(number, found, hypotheses, form, config.decode.num_hypotheses):
                lines.write(sys.stdout.buffer, line)
    if translator.num_split:
        split = progress.counted(translator.num_split, "over-long line")
        logging.warning("%s translated in parts", split)


def _answer(
    number: int, asked: dict, hypotheses: list[Hypothesis], form: str, count: int
) -> Iterator[str]:
    if form == "json":
        best = hypotheses[0]
        answer = {**asked, "translation": best.text, "score": best.score}
        if count > 1:
            answer["hypotheses"] = [hypothesis._asdict() for hypothesis in hypotheses]
        yield lines.to_json(answer)
    elif count > 1:
        for text, score in hypotheses:
            yield f"{number} ||| {text} ||| {score:.6f}"
    else:
        yield hypotheses[0].text
