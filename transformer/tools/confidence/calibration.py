"""confidence.json, what --mode=calibrate has learnt of a run; the report shows it, too."""

import math
from pathlib import Path
from typing import NamedTuple

from transformer.errors import UserError
from transformer.runtime import paths

NAME = "confidence.json"


class Calibration(NamedTuple):
    """Weights that give confidence, and how well it predicted other lines of the validation text.

    Lines are good if their `measure` is at least `quality`. A bin is (mean confidence, good lines,
    lines). A row of `thresholds` is (threshold, share of the lines below it, share of these that
    are not good: the precision, share of those not good that are below it: the recall).
    """

    measure: str  # chrF, or the name of a file
    quality: float
    lines: int  # that it was measured on, as many as it learnt from, or one fewer
    good: int
    weights: list[float]  # of the features
    bias: float
    error: float  # expected calibration error, of the bins
    error_by_chance: float  # that of lines which are good with just these probabilities
    auc: float  # area under ROC
    auc_of_score: float  # that of the mean log P alone
    bins: list[list[float]]
    thresholds: list[list[float]]
    params: int = 0  # a hash
    of: str = ""  # in words, the params
    summary: str = ""  # the numbers in words

    def in_words(self) -> str:
        """Returns the few numbers in two sentences."""
        return (
            f"{self.good:,} of {self.lines:,} lines are good ({self.measure} at least "
            f"{self.quality:g}). Calibration error {self.error:.3f} (by chance "
            f"{self.error_by_chance:.3f}); area under ROC {self.auc:.3f}, of the mean log P alone "
            f"{self.auc_of_score:.3f}."
        )


def read(workdir: Path) -> Calibration | None:
    """Returns a workdir's calibration, None without one; UserError if the file is damaged."""
    file = workdir / NAME
    if not file.exists():
        return None
    values, fields = paths.read_json_object(file), Calibration.__annotations__
    if values.keys() == fields.keys() and all(_fits(values[x], fields[x]) for x in fields):
        return Calibration(**values)
    raise UserError(f"damaged: {file} is not of --mode=calibrate: calibrate again")


def _fits(value: object, kind: object) -> bool:
    """Returns whether an untrusted value is of a field's type; numbers have to be finite."""
    if kind in (int, str):
        return type(value) is kind
    if kind is float:
        return type(value) in (int, float) and math.isfinite(value)
    [inner] = kind.__args__
    return isinstance(value, list) and all(_fits(x, inner) for x in value)
