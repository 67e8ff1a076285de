"""--mode=compare DIR DIR ...: compares two or more evaluated runs on one test set."""

import logging
import sys
from pathlib import Path

from ml_collections import ConfigDict

from transformer.errors import UserError
from transformer.modes import lines
from transformer.modes.command_line import trained_config
from transformer.runtime import paths
from transformer.tools.compare import comparison, comparison_page
from transformer.tools.compare import comparison_tables as tables
from transformer.tools.compare.comparison import Comparison
from transformer.tools.pages import charts, evaluated, measures, page, run

ITEMS = 3  # lines shown on a terminal; the page has config.compare.sentences


def compare(config: ConfigDict, workdirs: tuple[Path, ...]) -> None:
    """Compares workdirs with the first, by the results and outputs of their evaluations.

    Prints tables on a terminal, otherwise one line of JSON, and writes `config.compare.page`.
    UserError for workdirs that cannot be compared. No model is loaded.
    """
    options = config.compare
    check(config)
    # Each run is read with the config of its own workdir.
    runs = []
    for workdir in workdirs:
        runs.append(evaluated.read(run.read(trained_config(workdir, []), workdir), options.set))
    evaluated.check_same(runs)
    compared = comparison.compare(runs, resamples=options.resamples, num_items=options.sentences)
    if options.picture and not compared.lengths:
        raise UserError(
            f"config.compare.picture={options.picture!r} is of BLEU by sentence length, which the "
            f"results of {workdirs[0]} do not have"
        )
    if options.page:
        html = page.html(comparison_page.title(compared), comparison_page.sections(compared))
        paths.write_file(file := Path(options.page), html.encode("utf-8", "replace"))
        logging.info("the page is %s", file)
    if options.picture:
        plot = comparison_page.by_length(compared, "bleu")
        picture = charts.svg({"width": 480, **plot.spec, "title": plot.title})
        paths.write_file(Path(options.picture), picture.encode())
    text = _text(compared)
    if sys.stdout.isatty():
        print(text, flush=True)
    else:
        # Standard output has the line of JSON alone, for programs: the tables go to the log.
        logging.info("\n\n%s\n", text)
        values = comparison.values(compared) | {"page": options.page}
        lines.write(sys.stdout.buffer, lines.to_json(values))


def check(config: ConfigDict) -> None:
    """Raises UserError for invalid values of `config.compare`."""
    options = config.compare
    if options.picture and not options.picture.endswith(".svg"):
        raise UserError(f"config.compare.picture must be a FILE.svg, found {options.picture!r}")
    for key in ("page", "picture"):
        if options[key]:
            page.check_writable(Path(options[key]), f"config.compare.{key}")


def _text(compared: Comparison) -> str:
    """Returns a comparison for a terminal: scores, the lines that differ most, the config."""
    # A block is a paragraph or a table; blank lines are between blocks.
    methods = [f"{measures.name_of(name)}: {x.how}" for name, x in compared.measures.items()]
    blocks = ["\n".join([*tables.about(compared), *methods])]
    shown = [tables.score_table(compared), tables.further_table(compared)]
    if compared.lengths:
        shown.append(tables.length_table(compared, "bleu"))
    blocks += [page.text(table) for table in shown]
    for item in compared.items[:ITEMS]:
        texts = dict(item.line)
        for name, output, score in zip(compared.names, item.outputs, item.scores, strict=True):
            texts[name] = f"{output}  ({compared.kind.shown(score)})"
        width = max(map(len, texts))
        rows = [f"  {name:<{width}}  {text}" for name, text in texts.items()]
        blocks.append("\n".join([f"line {item.number}", *rows]))
    if compared.config:
        blocks.append(page.text(tables.config_table(compared)))
    else:
        blocks.append("The configs are the same.")
    return "\n\n".join(blocks)
