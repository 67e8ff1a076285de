"""The run in a few lines: task, model, data, devices, time, the best score."""

import itertools

from sacrebleu.metrics import BLEU, CHRF

from transformer.errors import UserError, quantity
from transformer.runtime import progress
from transformer.tools.pages import measures
from transformer.tools.pages.evaluated import tokenizer
from transformer.tools.pages.page import Section
from transformer.tools.pages.run import Evaluation, Run, num_parameters


def section(run: Run) -> Section:
    """Returns a line each of task, model, data, devices, training, validation, result and seed."""
    rows = {
        "Task": run.config.task.replace("_", " ") + _languages(run),
        "Model": _model(run),
        "Data": run.starts[-1]["data"] if run.starts else _corpus(run),
        "Devices": _devices(run),
        "Training": _training(run),
        "Validation": _validation(run),
        **_result(run),
        "Seed": str(run.config.train.seed),
    }
    return Section("The run", [rows])


def headline(run: Run) -> str:
    """Returns one line: the task, and the newest score."""
    task = f"{run.config.task.replace('_', ' ').capitalize()}{_languages(run)}"
    if not run.evaluations:
        return f"{task}. Not evaluated yet."
    result = run.evaluations[-1].result
    return f"{task}. {measures.in_words(result).partition(', ')[0]} on {result['set']}."


def _languages(run: Run) -> str:
    """Returns ', en to de' for translation, '' for other tasks."""
    data = run.config.data
    return (
        f", {data.source_language} to {data.target_language}" if "source_language" in data else ""
    )


def _model(run: Run) -> str:
    """Returns the model's name, how many parameters it has, and their dtype."""
    # A task with a single model may have no config.architecture.
    name = run.config.get("architecture", run.config.task).replace("_", " ")
    dtype = run.config.model.get("dtype", "float32")
    try:
        return f"{name}, {quantity(num_parameters(run), 'parameter')}, {dtype}"
    except UserError as error:  # such as a missing vocabulary
        return f"{name}, {dtype}; how many parameters is not known: {error}"


def _corpus(run: Run) -> str:
    data = run.config.data
    return f"{data.get('corpus', 'files')}: {data.train} (more is not recorded in this workdir)"


def _devices(run: Run) -> str:
    if not run.starts:
        return "not recorded: the workdir has no starts.jsonl"
    start = run.starts[-1]
    processes = quantity(start["processes"], "process", "processes")
    return f"{start['devices']} × {start['device']}, {processes}, {start['strategy']}"


def _training(run: Run) -> str:
    """Returns how many steps were trained in which time, and when."""
    lines = run.of_kind("train")
    if not lines:
        return "no step is logged"
    # The last steps may be in no line but the validation's after them.
    last = max(line["step"] for line in [*lines, *run.of_kind("validation")])
    # A line's step_seconds is the mean since the line before it: lines of steps 100 and 250 stand
    # for 100 and 150 steps.
    steps = itertools.pairwise([0, *(line["step"] for line in lines[:-1]), last])
    seconds = sum(
        (step - before) * line.get("step_seconds", 0.0)
        for (before, step), line in zip(steps, lines, strict=True)
    )
    words = [
        f"{last:,} of {run.config.train.num_steps:,} steps",
        f"{progress.duration(seconds)} without validations",
    ]
    if run.starts:
        words.append(f"begun {run.starts[0]['time'][:16].replace('T', ' ')} UTC")
    if resumes := run.resumes():
        words.append(f"resumed {_from(resumes)}")
    return ", ".join(words)


def _from(steps: list[int]) -> str:
    """Says from which steps a run was resumed, or how often if the steps are more than four."""
    if len(steps) <= 4:
        return f"from {', '.join(f'{step:,}' for step in steps)}"
    return f"{len(steps)} times, last from {steps[-1]:,}"


def _validation(run: Run) -> str:
    """Returns the scores of the best validation, of the newest if the best is not logged."""
    lines = {line["step"]: line for line in run.of_kind("validation")}
    if not lines:
        return "none is logged"
    step = run.best_step if run.best_step in lines else max(lines)
    which = "best" if step == run.best_step else "newest"
    return f"{measures.in_words(lines[step])} ({which}, of step {step:,})"


def _result(run: Run) -> dict[str, str]:
    """Returns the rows of the newest result, {name: text}."""
    if not run.evaluations:
        return {"Result": f"not evaluated yet: `{run.command('evaluate')}`"}
    newest = run.evaluations[-1]
    result = newest.result
    counts = {name: x for name, x in result.items() if isinstance(x, int) and name != "step"}
    sizes = (f"{count:,} {name}" for name, count in counts.items())
    steps = ", ".join(f"{step:,}" for step in result.get("steps", []))
    rows = {
        "Result": _score(newest),
        "Test set": ", ".join([result["set"], *sizes]),
        "Weights": f"{result.get('weights', '')}, of step {steps}",
    }
    return rows | ({"Signature": result["signature"]} if "signature" in result else {})


def _score(evaluation: Evaluation) -> str:
    """Returns a result's scores with their 95 % intervals."""
    scores = {k: v for k, v in evaluation.result.items() if isinstance(v, float)}
    sides = evaluation.named("output", "reference")
    if sides and "bleu" in scores:
        metrics = {"bleu": BLEU(tokenize=tokenizer(evaluation.result)), "chrf": CHRF()}
        scores |= {name: measures.bootstrap(metric, *sides) for name, metric in metrics.items()}
        how = f"; in brackets are 95 % intervals of {measures.RESAMPLES:,} bootstrap resamples"
    elif sides and "macro_f1" in scores:
        right = sum(prediction == label for prediction, label in zip(*sides, strict=True))
        scores["accuracy"] = measures.wilson(right, len(sides[0]))
        how = "; in brackets is the 95 % interval"
    else:
        how = ""
    return measures.in_words(scores) + how
