"""--mode=compare DIR DIR ...: compares two or more evaluated runs on one test set."""

from pathlib import Path

from ml_collections import ConfigDict

from transformer.runtime import paths
from transformer.tools.compare import comparison, comparison_page, evaluated
from transformer.tools.compare.comparison import Comparison
from transformer.tools.pages import measures, page, run
from transformer.workdir.saved_config import read_with_defaults

ITEMS = 3  # lines shown on a terminal; the page has config.compare.sentences


def compare(config: ConfigDict, workdirs: tuple[Path, ...]) -> None:
    """Compares workdirs with the first, by the results and outputs of their evaluations.

    Prints tables on a terminal, otherwise one line of JSON, and writes `config.compare.page`.
    UserError for workdirs that cannot be compared. No model is loaded.
    """
    options = config.compare
    if options.page:
        page.check_writable(paths.path(options.page), "config.compare.page")
    # Each run is read with the config of its own workdir.
    runs = []
    for workdir in workdirs:
        runs.append(evaluated.read(run.read(read_with_defaults(workdir), workdir), options.set))
    evaluated.check_same(runs)
    compared = comparison.compare(runs, resamples=options.resamples, num_items=options.sentences)
    if options.page:
        title = comparison_page.title(compared)
        page.write(paths.path(options.page), title, comparison_page.sections(compared))
    page.show(_text(compared), comparison.values(compared) | {"page": options.page})


def _text(compared: Comparison) -> str:
    """Returns a comparison for a terminal: scores, the lines that differ most, the config."""
    # A block is a paragraph or a table; blank lines are between blocks.
    methods = [f"{measures.name_of(name)}: {x.how}" for name, x in compared.measures.items()]
    blocks = ["\n".join([*comparison_page.about(compared), *methods])]
    shown = [comparison_page.score_table(compared), comparison_page.further_table(compared)]
    if compared.lengths:
        shown.append(comparison_page.length_table(compared, "bleu"))
    blocks += [page.text(table) for table in shown]
    for item in compared.items[:ITEMS]:
        texts = list(item.line.items())  # not a dict: a run may be called like a column
        for name, output, score in zip(compared.names, item.outputs, item.scores, strict=True):
            texts.append((name, f"{output}  ({compared.kind.shown(score)})"))
        width = max(len(name) for name, _ in texts)
        rows = [f"  {name:<{width}}  {text}" for name, text in texts]
        blocks.append("\n".join([f"line {item.number}", *rows]))
    if compared.config:
        blocks.append(page.text(comparison_page.config_table(compared)))
    else:
        blocks.append("The configs are the same.")
    return "\n\n".join(blocks)
