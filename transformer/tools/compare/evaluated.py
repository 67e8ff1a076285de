"""Reads a run's newest result on a test set, and the lines that the evaluation saved."""

from collections.abc import Sequence
from typing import NamedTuple

from transformer.errors import UserError
from transformer.tools.pages import measures
from transformer.tools.pages.run import Run
from transformer.workdir import results


class Evaluated(NamedTuple):
    """A run, its newest result on a test set, and the lines of the set and of the run's outputs.

    `sides` maps roles in the result to lines, {"input": lines, "output": lines, ...}; {} for a task
    whose evaluation saves no outputs of single items.
    """

    run: Run
    result: dict
    sides: dict[str, list[str]]

    def dataset(self) -> dict[str, list[str]]:
        """Returns the columns of the test set, not the run's, by name: {"source": lines, ...}."""
        names = self.result["columns"]
        roles = ("input", *measures.reference_roles(self.result))
        return {names[role]: self.sides[role] for role in roles if role in self.sides}


def read(run: Run, wanted: str = "") -> Evaluated:
    """Returns the newest result on the set named `wanted`; "": on the set evaluated last.

    UserError if there is no such result, or if the files in evaluation/ do not belong to it.
    """
    again = run.command("evaluate")
    if not run.evaluations:
        raise UserError(f"{run.workdir} has not been evaluated: {again}")
    by_name = {evaluation.result["set"]: evaluation for evaluation in run.evaluations}
    if wanted and wanted not in by_name:
        raise UserError(
            f"config.compare.set={wanted!r}: {run.workdir} has been evaluated on "
            f"{', '.join(by_name)}; for another set: {again} --config.evaluate.split=SPLIT"
        )
    evaluation = by_name.get(wanted, run.evaluations[-1])
    result, stem = evaluation.result, evaluation.stem
    # All columns in one call, which checks that line i of each can be item i of the set.
    columns = evaluation.columns(*result["columns"])
    if not columns:
        return Evaluated(run, result, {})
    # A later evaluation may have replaced the files: the checksum detects it.
    evaluated = Evaluated(run, result, dict(zip(result["columns"], columns, strict=True)))
    dataset = evaluated.dataset()
    if results.checksum(dataset) != result["checksum"]:
        raise UserError(
            f"damaged: {stem}.{', .'.join(dataset)} do not have the checksum of the result; "
            f"evaluate again: {again}"
        )
    return evaluated


def check_same(runs: Sequence[Evaluated]) -> None:
    """Raises UserError if two runs were not evaluated on the same text in the same way."""
    # All conditions are equalities, so comparing each run with the first is enough.
    first, *others = runs
    for second in others:
        if difference := _difference(first, second):
            raise UserError(f"{first.run.workdir} and {second.run.workdir} {difference}")


def _difference(first: Evaluated, second: Evaluated) -> str:
    """Returns why two runs cannot be compared, with a remedy; "" for comparable runs."""
    pair = (first, second)
    columns = [", ".join(run.result["columns"].values()) for run in pair]
    if columns[0] != columns[1]:
        return (
            f"are of different tasks or references, with {columns[0]} and {columns[1]}: compare "
            "runs of one task, evaluated with the same config.evaluate.references"
        )
    if first.result["checksum"] != second.result["checksum"]:
        sets = [f"set {x.result['set']}, checksum {x.result['checksum'][:12]}" for x in pair]
        return (
            f"were evaluated on different text: {' and '.join(sets)}: evaluate the second on the "
            f"text of the first, {second.run.command('evaluate')} --config.evaluate.split=SPLIT "
            "--config.data.directory=FOLDER, or compare another set, --config.compare.set=SET"
        )
    if first.sides.keys() != second.sides.keys():
        # The run with fewer files must be evaluated again.
        command = min(pair, key=lambda run: len(run.sides)).run.command("evaluate")
        return f"do not have the same files in {results.FOLDER}/; evaluate again: {command}"
    tokenizers = [measures.tokenizer(run.result) for run in pair]
    if tokenizers[0] != tokenizers[1]:
        return (
            f"have BLEU of the tokenizers {tokenizers[0]} and {tokenizers[1]}; evaluate with one: "
            f"{second.run.command('evaluate')} --config.evaluate.tokenize={tokenizers[0]}"
        )
    return ""
