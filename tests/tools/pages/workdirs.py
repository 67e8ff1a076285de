"""Workdirs as runs leave them, written by hand: no run is needed to look at its logs."""

import json

from transformer.tools.pages import run
from transformer.workdir import config_files
from transformer.workdir.saved_config import read_config

# What the results of a task name as their columns.
LABELLED = {"reference": "label", "output": "prediction", "measure": "probability"}
COLUMNS = {
    "translation": {"input": "source", "reference": "reference", "output": "hypothesis"},
    "classification": {"input": "text", **LABELLED},
    "image_classification": {"input": "image", **LABELLED},
    "language_modelling": {"input": "text", "measure": "nats"},
    "masked_language": {"input": "text"},
}

HOSTILE = (
    "</script><script>document.title = 'taken'</script><!-- <img src=x onerror=alert(1)> &amp;"
)

START = {
    **{"parameters": 1234567, "dtype": "float32", "processes": 1, "devices": 8, "device": "TPU v5"},
    **{"strategy": "jit", "mesh": [8, 1, 1], "data": "600 training pairs", "bytes_per_device": 1},
}


def lines(steps=range(50, 201, 50), unit="token"):
    """The lines of a log: training every 50 steps, and a validation every 100."""
    for step in steps:
        yield {
            **{"kind": "train", "step": step, "loss": 300 / step, "perplexity": 2000 / step},
            **{"gradient_norm": 1.0, "learning_rate": step / 1e5, "skipped": 0, "padding": 0.1},
            **{f"{unit}s_per_second": 1e4, "step_seconds": 0.1, "waiting": 0.0},
        }
        if step % 100 == 0:
            yield {"kind": "validation", "step": step, "loss": 330 / step}


def write(folder, *, task="translation", log=(), starts=(), results=(), files=None, **changes):
    """Writes config.json with `changes` by key, the logs, and evaluation/NAME for {NAME: lines}."""
    config = config_files.default_config(task)
    config.update_from_flattened_dict({k.replace("__", "."): v for k, v in changes.items()})
    (folder / "evaluation").mkdir(parents=True)
    values = {**config.to_dict(), "versions": {"jax": "0.10.2"}}
    (folder / "config.json").write_text(json.dumps(values))
    starts = [{**START, **start} for start in starts]
    results = [{"columns": COLUMNS.get(task, {}), **result} for result in results]
    logs = {"metrics.jsonl": log, "starts.jsonl": starts, "evaluations.jsonl": results}
    for name, values in logs.items():
        if values:
            (folder / name).write_text("".join(json.dumps(line) + "\n" for line in values))
    for result in results:
        (folder / "evaluation" / f"{result['set']}.json").write_text(json.dumps(result))
    for name, texts in (files or {}).items():
        (folder / "evaluation" / name).write_text("".join(f"{text}\n" for text in texts))
    return folder


def load(folder, **changes):
    return run.read(read_config(folder), folder)._replace(**changes)


def translated(folder, *, best_step=None, **logs):
    """A run that has translated 60 sentences, some of their words wrong."""
    references = [" ".join(f"w{i + j}" for j in range(3 + i % 9)) for i in range(60)]
    texts = {
        "test.source": [f"{HOSTILE} {'x ' * (i % 13)}" for i in range(60)],
        "test.hypothesis": [line.replace("w1", "x") for line in references],
        "test.reference": references,
    }
    result = {
        **{"set": "test", "step": 200, "steps": [200], "weights": "best", "bleu": 50.0},
        **{"signature": "nrefs:1|tok:13a", "sentences": 60, "versions": {"jax": "0.11.0"}},
    }
    written = write(folder / "translated", results=[result], files=texts, **logs)
    return load(written, best_step=best_step)


def classified(folder, **logs):
    """A run that has classified six texts, three of them wrong."""
    rows = ["bad bad 0.8", "good bad 0.6", "good good 0.9", "good bad 0.9", "odd good 0.7"]
    label, prediction, probability = zip(*map(str.split, [*rows, "odd odd 0.5"]), strict=True)
    pairs = list(zip(label, prediction, strict=True))
    texts = {
        "test.text": [f"text {i}" for i in range(6)],
        **{"test.label": label, "test.prediction": prediction, "test.probability": probability},
        "test.classes": [f"{name}\t2\t0.5\t0.5\t0.5" for name in ("bad", "good", "odd")],
        "test.confusion": [f"{a}\t{b}\t{pairs.count((a, b))}" for a, b in sorted(set(pairs))],
    }
    result = {"set": "test", "step": 200, "steps": [200], "texts": 6}
    result |= {"accuracy": 0.5, "macro_f1": 0.5}
    logs |= {"task": "classification", "results": [result], "files": texts}
    return load(write(folder / "run", **logs))
