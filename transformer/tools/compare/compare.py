"""--mode=compare DIR DIR ...: two or more evaluated runs side by side, on one test set."""

import logging
import shutil
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
from transformer.tools.compare.kinds import kind_of
from transformer.tools.pages import charts, evaluated, measures, page, run
from transformer.workdir.config_files import flatten
from transformer.workdir.run_config import MACHINE, read_config

ITEMS = 3  # lines shown on a terminal; the page has config.compare.sentences


def compare(config: ConfigDict, workdirs: tuple[Path, ...]) -> None:
    """Compares workdirs with the first, by the results and outputs of their evaluations.

    Prints tables on a terminal, otherwise one line of JSON, and writes `config.compare.page`.
    UserError if they cannot be compared. Nothing is decoded or computed by a model.
    """
    options = config.compare
    check(config)
    read = [run.read(trained_config(workdir, []), workdir) for workdir in workdirs]
    runs = [evaluated.read(x, options.set) for x in read]
    evaluated.check_same(runs)
    kind = kind_of(runs[0])
    if options.picture and not (kind and kind.has_lengths):
        raise UserError(
            f"config.compare.picture={options.picture!r} is of BLEU by sentence length, which the "
            f"results of {workdirs[0]} do not have"
        )
    compared = comparison.compare(
        runs,
        [_settings(x) for x in runs],
        [run.num_parameters(x.run) for x in runs],
        resamples=options.resamples,
        num_items=options.sentences,
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
        logging.info("\n\n%s\n", text)
        values = {**comparison.values(compared), "page": options.page}
        lines.write(sys.stdout.buffer, lines.to_json(values))


def check(config: ConfigDict) -> None:
    """Raises UserError for invalid values of `config.compare`."""
    options = config.compare
    for key, least in (("resamples", 100), ("sentences", 0)):
        if options[key] < least:
            raise UserError(f"config.compare.{key} is at least {least}, found {options[key]}")
    if options.picture and not options.picture.endswith(".svg"):
        raise UserError(f"config.compare.picture is a FILE.svg, found {options.picture!r}")
    for key in ("page", "picture"):
        if options[key]:
            paths.check_writable(Path(options[key]), f"config.compare.{key}")


def _settings(of_run: evaluated.Evaluated) -> dict[str, object]:
    """Returns the flat config of a run, with the settings that its result was obtained with."""
    # `run.config` has defaults for the keys of the machine and no versions: config.json has both.
    raw, result = flatten(read_config(of_run.run.workdir)), of_run.result
    settings = flatten(of_run.run.config)
    settings |= {key: x for key, x in raw.items() if key.startswith((*MACHINE, "versions."))}
    settings |= {f"decode.{key}": x for key, x in result.get("decode", {}).items()}
    return settings | {f"evaluate.{key}": result.get(key, "") for key in ("weights", "ensemble")}


def _text(compared: Comparison) -> str:
    """Returns a comparison for a terminal: scores, the lines that differ most, the config."""
    first = compared.runs[0].result
    methods = (f"{measures.spelt(name)}: {x.how}" for name, x in compared.measures.items())
    blocks = [
        f"{first['set']}, checksum {first['checksum'][:12]}",
        *filter(None, [tables.scoring(compared)]),
        _aligned(tables.score_table(compared)),
        "\n".join([tables.legend(compared), *methods]),
        _aligned(tables.further_table(compared)),
    ]
    if compared.lengths:
        blocks.append(_aligned(tables.length_table(compared, "bleu")))
    blocks += [_item(compared, item) for item in compared.items[:ITEMS]]
    return "\n\n".join([*blocks, _config(compared)])


def _item(compared: Comparison, item: comparison.Item) -> str:
    """Returns a line of the test set with each run's output and its score."""
    names = [*item.line, *compared.names]
    scores = (tables.score_of_line(compared, score) for score in item.scores)
    outputs = [f"{x}  ({score})" for x, score in zip(item.outputs, scores, strict=True)]
    width = max(map(len, names))
    rows = zip(names, [*item.line.values(), *outputs], strict=True)
    return f"line {item.number}\n" + "\n".join(f"  {a:<{width}}  {b}" for a, b in rows)


def _config(compared: Comparison) -> str:
    """Returns the keys that differ as a table; one run after the other if that is too wide."""
    if not compared.config:
        return "The configs are the same."
    table = _aligned(tables.config_table(compared))
    if len(table.split("\n")[0]) <= shutil.get_terminal_size().columns:
        return table
    rows = []
    for i, run_name in enumerate(compared.names):
        different = {key: x[i] for key, x in compared.config.items() if i == 0 or x[i] != x[0]}
        rows.append(run_name)
        rows += [f"  {key} = {tables.setting(x)}" for key, x in different.items()]
    return "\n".join(rows)


def _aligned(table: tuple[list[str], list[list[str]]]) -> str:
    """Returns a table's columns and rows as text; the first column is aligned left."""
    # zip turns rows into columns, whose widest text is the column's width.
    rows = [table[0], *table[1]]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        row[0].ljust(widths[0])
        + "".join(f"  {x:>{n}}" for x, n in zip(row[1:], widths[1:], strict=True))
        for row in rows
    )
