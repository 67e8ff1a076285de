"""Trained models as the sections of a report get them, with random params and items by hand."""

import json
import re

from helpers import reversal
from tools.pages import workdirs

from transformer.tools.report.inside import Inside

SOURCES = ["a b c", "d e f g", "h", "b b"]


def inside(run, model, params, items):
    """An `Inside` of all these items."""
    columns = run.evaluations[-1].result["columns"] if run and run.evaluations else {}
    return Inside(run, model, params, items, list(range(1, len(items) + 1)), columns)


def translating(folder, **changes):
    """A run of a tiny translation model that was never trained, with the vocabulary of letters."""
    model, params = reversal.untrained(**changes)
    decode = {f"decode.{name}": value for name, value in reversal.DECODE.items()}
    keys = {"positions": model.options.positions, "d_model": model.options.d_model}
    workdirs.write(folder, **decode, **{f"model.{name}": value for name, value in keys.items()})
    write_vocabulary(workdirs.load(folder), "shared.model", reversal.vocabulary_model())
    items = [{"input": text, "output": text[::-1]} for text in SOURCES]
    return inside(workdirs.load(folder), model, params, items)


def write_vocabulary(run, name, content):
    (run.workdir / "vocabulary").mkdir()
    (run.workdir / "vocabulary" / name).write_bytes(content)


def data_of(markup):
    return json.loads(re.search(r'json">(.*)</script>', markup.html)[1])
