"""Shows a classifier's predictions: which classes it confuses, where it was wrong but sure."""

from transformer.errors import UserError
from transformer.tools.pages import charts, page
from transformer.tools.pages.page import Markup, Plot, Section, Table
from transformer.tools.pages.run import Evaluation, Run
from transformer.tools.pages.sentences import shortened
from transformer.tools.report import pictures

MOST_CLASSES = 40  # of a confusion matrix that can be read
MOST_ITEMS = 20


def section(run: Run) -> Section | None:
    """Returns F1 by class, the confusion matrix and the most confident errors of a test set.

    None for a task without classes.
    """
    if not run.evaluations or "classes" not in run.evaluations[-1].outputs:
        return None
    newest = run.evaluations[-1]
    per_class = [line.split("\t") for line in newest.outputs.get("classes", [])]
    counts = [line.split("\t") for line in newest.outputs.get("confusion", [])]
    rows = [[name, int(items), *map(float, scores)] for name, items, *scores in per_class]
    table = Table(["class", "items", "precision", "recall", "F1"], rows, "Scores by class")
    parts = [f"Of the set {newest.result['set']}.", table]
    matrix = {(label, predicted): int(count) for label, predicted, count in counts}
    names = [row[0] for row in rows]
    if matrix and len(names) <= MOST_CLASSES:
        parts.append(confusion(matrix, names))
    return Section("Predictions", [*parts, *errors(newest, run)])


def confusion(matrix: dict[tuple[str, str], int], names: list[str]) -> Plot:
    """Returns the matrix of {(label, prediction): items}; its colour is the share of the label."""
    # Rows are labels: a row's total is how many items have that label.
    totals = {name: sum(matrix.get((name, other), 0) for other in names) for name in names}
    cells = [(label, predicted) for label in names for predicted in names]
    values = [
        {
            "label": label,
            "prediction": predicted,
            "items": matrix.get((label, predicted), 0),
            "share": matrix.get((label, predicted), 0) / max(1, totals[label]),
        }
        for label, predicted in cells
    ]
    number = "items" if len(names) <= 12 else ""
    spec = charts.cells(values, "prediction", "label", "share", number=number)
    correct = sum(matrix.get((name, name), 0) for name in names)
    wrong = {pair: count for pair, count in matrix.items() if pair[0] != pair[1]}
    most = max(wrong, key=wrong.get, default=None)
    often = f"; most often {most[0]} was taken for {most[1]} ({wrong[most]:,})" if most else ""
    rows = [[label, *(matrix.get((label, x), 0) for x in names)] for label in names]
    about = f"{correct:,} of {sum(matrix.values()):,} items are on the diagonal{often}. "
    return Plot(
        "Confusion matrix",
        {**_size(len(names)), **spec},
        f"{about}The stronger the colour, the larger the share of the label.",
        Table(["label / prediction", *names], rows),
    )


def _size(count: int) -> dict:
    """Returns the size of a matrix: as wide as the page from five classes on."""
    return {"height": 70 * count, "width": 70 * count} if count < 5 else {"height": 28 * count}


def errors(evaluation: Evaluation, run: Run) -> list[str | Table | Markup]:
    """Returns the errors whose prediction had the highest probability."""
    columns = evaluation.named("input", "reference", "output", "measure")
    if not columns:
        again = f"evaluate again to see it: `{run.command('evaluate')}`"
        return [f"How sure the model was of each item is not in this result; {again}"]
    rows = [
        (float(probability), label, prediction, text, line)
        for line, (text, label, prediction, probability) in enumerate(zip(*columns, strict=True))
        if label != prediction
    ]
    rows.sort(key=lambda row: -row[0])
    chosen = rows[:MOST_ITEMS]
    caption = f"Wrong and sure of it: {len(chosen)} of {len(rows):,} errors"
    table = Table(
        ["probability", "label", "prediction", evaluation.result["columns"]["input"]],
        [(*row[:3], shortened(row[3])) for row in chosen],
        caption,
    )
    if "image" not in table.columns or not chosen:
        return [table]
    try:
        urls = pictures.urls(run, evaluation, [row[4] for row in chosen])
    except UserError as error:
        return [table, f"The images themselves cannot be shown: {error}"]
    images = page.markup("report/gallery", items=list(zip(urls, chosen, strict=True)))
    return [images, table._replace(folded="as a table")]
