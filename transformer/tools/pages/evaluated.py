"""A run's newest result on a test set, and what its evaluation kept of each line of the set."""

import re
import shlex
from collections.abc import Sequence
from typing import NamedTuple

import sacrebleu

from transformer.errors import UserError
from transformer.tools.pages.run import Run
from transformer.workdir import results

# (output, sides of the test set): which files an evaluation keeps, an item a line. In a language
# model's, the line of .nats is the cross entropy of the line of .text.
KINDS = (
    ("hypothesis", ("source", "reference")),
    ("prediction", ("text", "label")),
    ("prediction", ("image", "label")),
    ("nats", ("text",)),
)


NEEDED = ("split", "checksum", "step", "steps", "weights", "files")  # of a result


class Evaluated(NamedTuple):
    """A run, its newest result on a test set, and that set and the outputs, {side: lines}.

    `sides` is {} for a task whose evaluation keeps no outputs of single items.
    """

    run: Run
    result: dict
    sides: dict[str, list[str]]


def read(run: Run, wanted: str = "") -> Evaluated:
    """Returns the newest result on the set `wanted`, a set's name; "": on the set evaluated last.

    UserError if there is none, or if the files in evaluation/ are not those of the result.
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
    for output, dataset in KINDS:
        try:
            columns = by_name[name].columns(*dataset, output)
        except UserError as error:
            raise UserError(f"{run.workdir} is {error}: {again}") from error
        if columns:
            sides = dict(zip((*dataset, output), columns, strict=True))
            if results.checksum({side: sides[side] for side in dataset}) != result["checksum"]:
                raise UserError(
                    f"damaged: {what}.{', .'.join(dataset)} do not have the checksum of the "
                    f"result; evaluate again: {again}"
                )
            return Evaluated(run, result, sides)
    return Evaluated(run, result, {})


def check_same(runs: Sequence[Evaluated]) -> None:
    """Raises UserError if two runs were not evaluated on the same text in the same way."""
    first, *others = runs
    for other in others:
        both = f"{first.run.workdir} and {other.run.workdir}"
        tasks = [run.run.config.task for run in (first, other)]
        if tasks[0] != tasks[1]:
            raise UserError(
                f"{both} are of different tasks, {tasks[0]} and {tasks[1]}: compare runs of one"
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
    """Returns sacreBLEU's tokenizer that a result's signature names; "" without a signature.

    UserError for a signature that names none.
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
