"""Shows a run in a few lines: task, model, data, devices, time, the best score."""

from transformer.errors import UserError, quantity
from transformer.runtime import progress
from transformer.tasks.task import load_task
from transformer.tools.pages import measures
from transformer.tools.pages.page import Section
from transformer.tools.pages.run import Evaluation, Run, num_parameters, trained_for


def section(run: Run) -> Section:
    """Returns a table of task, model, data, devices, training, validation, result and seed."""
    # Without starts.jsonl, only the config's file names are known.
    data = run.config.data
    devices = "not recorded: the workdir has no starts.jsonl"
    read = f"{data.get('corpus', 'files')}: {data.get('train', '')} (more is not recorded)"
    if run.starts:
        newest = run.starts[-1]
        processes = quantity(newest["processes"], "process", "processes")
        devices = f"{newest['devices']} × {newest['device']}, {processes}, {newest['strategy']}"
        read = newest["data"]
    rows = {
        "Task": _task(run),
        "Model": _model(run),
        "Data": read,
        "Devices": devices,
        "Training": _training(run),
        "Validation": _validation(run),
        **_result(run),
        "Seed": str(run.config.train.seed),
    }
    return Section("The run", [rows])


def headline(run: Run) -> str:
    """Returns one line: the task, and the newest score."""
    task = _task(run)
    task = task[:1].upper() + task[1:]
    if not run.evaluations:
        return f"{task}. Not evaluated yet."
    result = run.evaluations[-1].result
    return f"{task}. {_in_words(run, result).partition(', ')[0]} on {result['set']}."


def _in_words(run: Run, scores: dict) -> str:
    """Returns scores as text, first the one that selects best/."""
    return measures.in_words(scores, load_task(run.config.task).SCORE["best_by"])


def _task(run: Run) -> str:
    """Returns the name of the task: 'translation, en to de'."""
    task = run.config.task.replace("_", " ")
    data = run.config.data
    if "source_language" in data:
        task += f", {data.source_language} to {data.target_language}"
    return task


def _model(run: Run) -> str:
    """Returns the model's name, number of parameters and their dtype."""
    # A task with a single model may have no config.architecture.
    name = run.config.get("architecture", run.config.task).replace("_", " ")
    dtype = run.config.model.get("dtype", "float32")
    try:
        return f"{name}, {quantity(num_parameters(run), 'parameter')}, {dtype}"
    except UserError as error:  # such as a missing vocabulary
        return f"{name}, {dtype}; how many parameters is not known: {error}"


def _training(run: Run) -> str:
    """Returns the number of steps, their time, and when training began and was resumed."""
    if not run.logged("train"):
        return "no step is logged"
    last, seconds = trained_for(run)
    words = f"{last:,} of {run.config.train.num_steps:,} steps, "
    words += f"{progress.duration(seconds)} without validations"
    if run.starts:
        words += f", begun {run.starts[0]['time'][:16].replace('T', ' ')} UTC"
    resumes = [f"{step:,}" for step in run.resumes()]
    if len(resumes) > 4:
        words += f", resumed {len(resumes)} times, last from {resumes[-1]}"
    elif resumes:
        words += f", resumed from {', '.join(resumes)}"
    return words


def _validation(run: Run) -> str:
    """Returns the scores of the best validation, or of the newest if the best is not logged."""
    lines = {line["step"]: line for line in run.logged("validation")}
    if not lines:
        return "none is logged"
    step = run.best_step if run.best_step in lines else max(lines)
    which = "best" if step == run.best_step else "newest"
    return f"{_in_words(run, lines[step])} ({which}, of step {step:,})"


def _result(run: Run) -> dict[str, str]:
    """Returns the rows of the newest result, {name: text}."""
    if not run.evaluations:
        return {"Result": f"not evaluated yet: `{run.command('evaluate')}`"}
    newest = run.evaluations[-1]
    result = newest.result
    # The integers of a result count items of the test set, except for the step.
    counts = {name: x for name, x in result.items() if isinstance(x, int) and name != "step"}
    sizes = [f"{count:,} {measures.name_of(name)}" for name, count in counts.items()]
    steps = ", ".join(f"{step:,}" for step in result.get("steps", []))
    rows = {
        "Result": _score(run, newest),
        "Test set": ", ".join([result["set"], *sizes]),
        "Weights": f"{result.get('weights', '')}, of step {steps}",
        "Signature": result.get("signature", ""),
    }
    return {name: text for name, text in rows.items() if text}


def _score(run: Run, evaluation: Evaluation) -> str:
    """Returns a result's scores, with 95 % intervals of BLEU and chrF, or of accuracy."""
    scores = {k: v for k, v in evaluation.result.items() if isinstance(v, float)}
    sides = evaluation.columns("output", *measures.reference_roles(evaluation.result))
    how = ""
    if sides and "bleu" in scores:
        output, *references = sides
        for name, metric in measures.metrics(evaluation.result).items():
            scores[name] = measures.bootstrap(metric, output, references)
        how = f"; in brackets are 95 % intervals of {measures.RESAMPLES:,} bootstrap resamples"
    elif sides and "macro_f1" in scores:
        right = sum(prediction == label for prediction, label in zip(*sides, strict=True))
        scores["accuracy"] = measures.wilson(right, len(sides[0]))
        how = "; in brackets is the 95 % interval"
    return _in_words(run, scores) + how
