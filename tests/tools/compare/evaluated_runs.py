"""Evaluated workdirs, written by hand: a test set, and what a run made of it."""

import json

import numpy as np
from tools.pages import workdirs

from transformer.families.labels import classifiers
from transformer.tasks.translation import score
from transformer.workdir import results

SOURCES = [" ".join(f"s{i + j}" for j in range(1 + i % 12)) for i in range(120)]
REFERENCES = [" ".join(f"w{(i + 3 * j) % 17}" for j in range(4 + i % 5)) for i in range(120)]


def worse(lines, share, seed=0):
    """The lines, a share of which have lost a word."""
    draws = np.random.default_rng(seed)
    lose = lambda words: words[:1] + words[2:]
    return [" ".join(lose(x.split())) if draws.random() < share else x for x in lines]


def translations(
    folder, hypotheses, *, references=REFERENCES, sources=SOURCES, name="test", **changes
):
    """A workdir that was evaluated on a test set by these hypotheses."""
    dataset = {"source": sources, "reference": references}
    scores = {**score(hypotheses, [references], tokenize="13a"), "loss": 1.5}
    return write(folder, name, dataset, {**dataset, "hypothesis": hypotheses}, scores, **changes)


def classifications(folder, predictions, labels, **changes):
    """A workdir that was evaluated on a test set by these predictions."""
    dataset = {"text": [f"text {i}" for i in range(len(labels))], "label": labels}
    names = sorted({*labels, *predictions})
    truth, guess = (np.array([names.index(x) for x in side]) for side in (labels, predictions))
    f1 = classifiers.precision_recall_f1(classifiers.confusion(truth, guess, len(names)))[2]
    scores = {"accuracy": float((truth == guess).mean()), "macro_f1": float(np.nanmean(f1))}
    outputs = {**dataset, "prediction": predictions, "probability": ["0.9"] * len(labels)}
    return write(folder, "test", dataset, outputs, scores, task="classification", **changes)


def texts(folder, lines, nats, **changes):
    """A workdir that was evaluated on a text by these cross entropies, in nats a line."""
    outputs = {"text": lines, "nats": [str(x) for x in nats]}
    scores = {"bits_per_character": sum(nats) / np.log(2) / sum(len(line) + 1 for line in lines)}
    task = {"task": "language_modelling"}
    return write(folder, "test", {"text": lines}, outputs, scores, **task, **changes)


def write(folder, name, dataset, outputs, scores, **changes):
    """A workdir with a log and one result."""
    log = [*workdirs.lines(), {"kind": "validation", "step": 200, "loss": 1.5, "bleu": 9.0}]
    workdirs.write(folder, log=log, starts=[{"step": 0, "time": "2026-11-20"}], **changes)
    return write_result(folder, name, dataset, outputs, scores)


def write_result(folder, name, dataset, outputs, scores):
    """Adds a result to a workdir, as --mode=evaluate does."""
    named = (x for x in workdirs.COLUMNS.values() if x.items() and {*x.values()} <= {*outputs})
    result = {
        **{"set": name, "split": "test", "step": 200, "weights": "best", **scores, "files": []},
        "columns": max(named, key=len, default={}),
        **{"checksum": results.checksum(dataset), "steps": [200], "ensemble": "", "versions": {}},
    }
    results.keep(folder, result, outputs)
    return folder


def rewrite(folder, change):
    """Changes the newest result of a workdir in its two files, by a function of the result."""
    for file in [folder / "evaluations.jsonl", *(folder / "evaluation").glob("*.json")]:
        lines = file.read_text().splitlines() if file.suffix == ".jsonl" else [file.read_text()]
        file.write_text("".join(f"{json.dumps(change(json.loads(x)))}\n" for x in lines))
