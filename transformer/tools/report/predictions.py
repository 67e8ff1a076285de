"""Shows a classifier's predictions: scores by class, the confusion matrix, confident errors."""

from transformer.errors import UserError
from transformer.tools.pages import charts, page
from transformer.tools.pages.page import Markup, Plot, Section, Table
from transformer.tools.pages.run import Evaluation, Run
from transformer.tools.pages.sentences import shortened
from transformer.tools.report import pictures

MAX_CLASSES = 40  # of a readable confusion matrix
MAX_ITEMS = 20


def section(run: Run) -> Section | None:
    """Returns F1 by class, the confusion matrix and the most confident errors of a test set.

    None for a task without classes.
    """
    if not run.evaluations or "classes" not in run.evaluations[-1].outputs:
        return None
    newest = run.evaluations[-1]
    # Each line: a class, its items, precision, recall and F1.
    lines = [line.split("\t") for line in newest.outputs["classes"]]
    rows = [[name, int(items), *map(float, scores)] for name, items, *scores in lines]
    table = Table(["class", "items", "precision", "recall", "F1"], rows, "Scores by class")
    parts = [f"Of the set {newest.result['set']}.", table]
    # Each line: a label, a prediction, and the number of items with both.
    counts = [line.split("\t") for line in newest.outputs.get("confusion", [])]
    matrix = {(label, predicted): int(count) for label, predicted, count in counts}
    if matrix and len(rows) <= MAX_CLASSES:
        parts.append(confusion(matrix, [row[0] for row in rows]))
    return Section("Predictions", [*parts, *errors(newest, run)])


def confusion(matrix: dict[tuple[str, str], int], names: list[str]) -> Plot:
    """Returns a plot of {(label, prediction): items}; colours are shares of the label's items."""
    values, rows = [], []
    for label in names:
        # A row: the items with this label by prediction. Pairs without items are not listed.
        counts = [matrix.get((label, predicted), 0) for predicted in names]
        rows.append([label, *counts])
        for predicted, count in zip(names, counts, strict=True):
            cell = {"label": label, "prediction": predicted, "items": count}
            values.append({**cell, "share": count / max(1, sum(counts))})
    correct = sum(count for (label, predicted), count in matrix.items() if label == predicted)
    about = f"{correct:,} of {sum(matrix.values()):,} items are on the diagonal"
    if wrong := {pair: count for pair, count in matrix.items() if pair[0] != pair[1]}:
        label, predicted = max(wrong, key=wrong.get)
        about += f"; most often {label} was taken for {predicted} ({wrong[label, predicted]:,})"
    about += ". The stronger the colour, the larger the share of the label."
    number = "items" if len(names) <= 12 else ""
    spec = charts.cells(values, "prediction", "label", "share", number=number)
    # Full width with five or more classes.
    size = {"height": 28 * len(names)}
    if len(names) < 5:
        size = {"height": 70 * len(names), "width": 70 * len(names)}
    table = Table(["label / prediction", *names], rows)
    return Plot("Confusion matrix", {**size, **spec}, about, table)


def errors(evaluation: Evaluation, run: Run) -> list[str | Table | Markup]:
    """Returns a table of the errors with the highest probabilities; images with a gallery."""
    columns = evaluation.columns("input", "reference", "output", "measure")
    if not columns:
        again = f"evaluate again to see it: `{run.command('evaluate')}`"
        return [f"How sure the model was of each item is not in this result; {again}"]
    wrong = []
    for line, (text, label, prediction, probability) in enumerate(zip(*columns, strict=True)):
        if label != prediction:
            wrong.append((float(probability), label, prediction, text, line))
    wrong.sort(key=lambda row: -row[0])
    chosen = wrong[:MAX_ITEMS]
    name = evaluation.result["columns"]["input"]
    table = Table(
        ["probability", "label", "prediction", name],
        [(*row[:3], shortened(row[3])) for row in chosen],
        f"Wrong and sure of it: {len(chosen)} of {len(wrong):,} errors",
    )
    if name != "image" or not chosen:
        return [table]
    try:
        images = pictures.read(run, evaluation, [row[4] for row in chosen])
    except UserError as error:
        return [table, f"The images themselves cannot be shown: {error}"]
    urls = [pictures.url(image) for image in images]
    gallery = page.markup("report/gallery", items=list(zip(urls, chosen, strict=True)))
    return [gallery, table._replace(folded="as a table")]
