"""A run's newest result on a test set, and what its evaluation kept of each line of the set."""

import re
import shlex
from collections.abc import Sequence
from typing import NamedTuple

import sacrebleu

from transformer.errors import UserError
from transformer.tools.pages.run import Run
from transformer.workdir import results

NEEDED = ("split", "checksum", "step", "steps", "weights", "files", "columns")  # of a result
DATASET = ("input", "reference")  # the columns that are of the test set; others are the run's


class Evaluated(NamedTuple):
    """A run, its newest result on a test set, and the lines of that set and of the run's outputs.

    `sides` are these lines by name, {"source": lines, ...}; {} for a task whose evaluation keeps no
    outputs of single items.
    """

    run: Run
    result: dict
    sides: dict[str, list[str]]

    def side(self, role: str) -> list[str]:
        """Returns the lines of the column that has a role in the result: 'input', 'output', ..."""
        return self.sides[self.result["columns"][role]]

    def dataset(self) -> list[str]:
        """Returns the names of the sides that are of the test set."""
        columns = self.result["columns"]
        return [columns[role] for role in DATASET if role in columns]


def read(run: Run, wanted: str = "") -> Evaluated:
    """Returns the newest result on the set `wanted`, a set's name; "": on the set evaluated last.

    UserError if there is no such result, or if the files in evaluation/ do not belong to it.
    """
    again = run.command("evaluate")
    if not run.evaluations:
        raise UserError(f"{run.workdir} has not been evaluated: {again}")
    by_name = {evaluation.result["set"]: evaluation for evaluation in run.evaluations}
    name = wanted or next(reversed(by_name))
    if name not in by_name:
        raise UserError(
            f"config.compare.set={name!r}: {run.workdir} has been evaluated on "
            f"{', '.join(by_name)}; for another set: {again} --config.evaluate.split=SPLIT"
        )
    result, what = by_name[name].result, run.workdir / results.FOLDER / name
    if lacking := [key for key in NEEDED if key not in result]:
        raise UserError(f"damaged: {what}.json has no {lacking[0]}; evaluate again: {again}")
    # The columns are read together, so that line i of each is item i of the set.
    names = result["columns"].values()
    try:
        columns = by_name[name].columns(*names)
    except UserError as error:
        raise UserError(f"{run.workdir} is {error}: {again}") from error
    read = Evaluated(run, result, dict(zip(names, columns or [[]] * len(names), strict=True)))
    if not columns:
        return read._replace(sides={})
    if results.checksum({side: read.sides[side] for side in read.dataset()}) != result["checksum"]:
        raise UserError(
            f"damaged: {what}.{', .'.join(read.dataset())} do not have the checksum of the result; "
            f"evaluate again: {again}"
        )
    return read


def check_same(runs: Sequence[Evaluated]) -> None:
    """Raises UserError if two runs were not evaluated on the same text in the same way."""
    first, *others = runs
    for other in others:
        both = f"{first.run.workdir} and {other.run.workdir}"
        columns = [", ".join(run.result["columns"].values()) for run in (first, other)]
        if columns[0] != columns[1]:
            raise UserError(
                f"{both} are of different tasks, whose results have {columns[0]} and {columns[1]}: "
                "compare runs of one"
            )
        texts = [run.result["checksum"] for run in (first, other)]
        if texts[0] != texts[1]:
            raise UserError(
                f"{both} were evaluated on different text: set {first.result['set']}, checksum "
                f"{texts[0][:12]}, and set {other.result['set']}, checksum {texts[1][:12]}. "
                f"{_remedy(first, other)}"
            )
        if first.sides.keys() != other.sides.keys():
            lacking = min(first, other, key=lambda run: len(run.sides))
            raise UserError(
                f"{both} do not have the same files in {results.FOLDER}/; evaluate again: "
                f"{lacking.run.command('evaluate')}"
            )
        tokenizers = [tokenizer(run.result) for run in (first, other)]
        if tokenizers[0] != tokenizers[1]:
            raise UserError(
                f"{both}: BLEU is of the tokenizers {tokenizers[0]} and {tokenizers[1]}; evaluate "
                f"with one: {other.run.command('evaluate')} "
                f"--config.evaluate.tokenize={tokenizers[0]}"
            )


def tokenizer(result: dict) -> str:
    """Returns the name of sacreBLEU's tokenizer in a result's signature; "" without a signature.

    UserError for a signature that names no tokenizer of sacreBLEU.
    """
    signature = result.get("signature", "")
    named = re.search(r"\|tok:([^|]+)", signature)
    if signature and not (named and named[1] in sacrebleu.BLEU.TOKENIZERS):
        raise UserError(f"damaged: {signature!r} is not sacreBLEU's: evaluate the run again")
    return named[1] if named else ""


def _remedy(first: Evaluated, other: Evaluated) -> str:
    """Says how two runs evaluated on different text can be compared."""
    sets = [{(x.get("checksum"), x.get("set")) for x in run.run.results} for run in (first, other)]
    if shared := sorted(name for _, name in sets[0] & sets[1]):
        return f"Both have been evaluated on {shared[0]}: --config.compare.set={shared[0]}"
    split, files = first.result["split"], ", ".join(first.result["files"])
    where = f", files {files}" if files else ""
    command = f"{other.run.command('evaluate')} --config.evaluate.split={split}"
    data, others = first.run.config.data, other.run.config.data
    flags = "".join(
        f" --config.data.{key}={shlex.quote(str(data.get(key)))}"
        for key in ("corpus", "directory", split)
        if data.get(key) != others.get(key)
    )
    # Without a difference the text of the first was named on its command line.
    flags = flags or ", with the --config.data flags that name this text"
    return f"Evaluate the second on the text of the first ({split}{where}): {command}{flags}"
