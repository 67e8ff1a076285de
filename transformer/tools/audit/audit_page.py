"""The page of --mode=audit: each split's faults, where they are, with examples, and the lengths."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from transformer.tools.audit import scripts
from transformer.tools.audit.faults import FAULTS
from transformer.tools.audit.line_measures import Lines
from transformer.tools.audit.scripts import INVISIBLE
from transformer.tools.pages.page import Plot, Section, Table

STRETCHES = 100  # of a split's lines, for the plot of where its faults are
BINS = 40  # of lengths, the longest one per cent of lines aside
MAX_CHARACTERS = 300  # of a text: a longer one is cut off

Texts = Mapping[int, tuple[str, str]]  # {line, from 1: (source, target)}


def section(
    split: str,
    values: dict,
    runs: Sequence[str],
    masks: Mapping[str, np.ndarray],
    sides: Sequence[Lines],
    texts: Texts,
) -> Section:
    """Returns the section of a split.

    `values` are the split's `audit.summary`, `runs` its misaligned lines in words, `masks` {fault:
    bool [pairs]}; `texts` has the first pairs of each fault.
    """
    present = {name: fault for name, fault in values["faults"].items() if fault["pairs"]}
    facts = {
        "pairs": f"{values['pairs']:,}",
        "files": ", ".join(values["files"]),
        "lines": f"{values['source_lines']:,} source, {values['target_lines']:,} target",
        "characters": f"{values['ratio']:.2f} of the target for one of the source",
        "misaligned": "; ".join(runs),
        "without a piece": " ".join(values["without_a_piece"]),
    }
    parts = [{name: text for name, text in facts.items() if text}]
    if present:
        rows = [
            [name, FAULTS[name], fault["pairs"], f"{fault['pairs'] / values['pairs']:.2%}"]
            for name, fault in present.items()
        ]
        parts.append(Table(["fault", "a pair with", "pairs", "share"], rows))
    else:
        parts.append("Nothing was found.")
    plots = [_where({name: masks[name] for name in present})] if present else []
    examples = [
        Table(
            ["line", "source", "target"],
            [[f"{line:,}", *map(_seen, texts[line])] for line in fault["lines"]],
            f"{name}: {FAULTS[name]}",
        )
        for name, fault in present.items()
    ]
    return Section(split.capitalize(), [*parts, *plots, _lengths(sides), *examples])


def _where(masks: Mapping[str, np.ndarray]) -> Plot:
    """Returns a plot of the share of pairs with each fault, along the lines of the split."""
    count = len(next(iter(masks.values())))
    edges = np.unique(np.linspace(0, count, STRETCHES + 1).astype(int))
    rows = [
        {"fault": name, "from": int(a) + 1, "to": int(b), "share": float(mask[a:b].mean())}
        for name, mask in masks.items()
        for a, b in itertools.pairwise(edges)
        if mask[a:b].any()
    ]
    spec = {
        "height": 22 * len(masks),
        "data": {"values": rows},
        "mark": {"type": "rect", "tooltip": {"content": "data"}},
        "encoding": {
            "x": {
                **{"field": "from", "type": "quantitative", "title": "line"},
                "axis": {"grid": False},
                "scale": {"domain": [1, count], "nice": False},
            },
            "x2": {"field": "to"},
            "y": {"field": "fault", "type": "nominal", "sort": [*masks], "title": None},
            "color": {
                **{"field": "share", "type": "quantitative", "scale": {"domain": [0, 1]}},
                "legend": {"title": "share of pairs", "format": "%", "tickCount": 3},
            },
        },
    }
    table = Table(["fault", "from line", "to line", "share"], [[*row.values()] for row in rows])
    return Plot("Where", spec, "The share of pairs with each fault along the file.", table)


def _lengths(sides: Sequence[Lines]) -> Plot:
    """Returns a histogram of the lengths of each side's lines."""
    named = {"source": sides[0].length, "target": sides[1].length}
    longest = max(float(np.quantile(lengths, 0.99)) for lengths in named.values())
    edges = np.unique(np.linspace(0, max(longest, 1), BINS + 1).astype(int))
    rows = [
        {"characters": int(a), "to": int(b) - 1, "side": side, "lines": int(n)}
        for side, lengths in named.items()
        for a, b, n in zip(edges[:-1], edges[1:], np.histogram(lengths, edges)[0], strict=True)
    ]
    spec = {
        "height": 180,
        "data": {"values": rows},
        "mark": {"type": "line", "interpolate": "step-after", "tooltip": {"content": "data"}},
        "encoding": {
            "x": {"field": "characters", "type": "quantitative"},
            "y": {"field": "lines", "type": "quantitative"},
            "color": {"field": "side", "type": "nominal", "sort": [*named]},
        },
    }
    about = ", ".join(
        f"{side} lines have {np.median(lengths):.0f} characters in the median, at most "
        f"{lengths.max():,}"
        for side, lengths in named.items()
    )
    table = Table(["from", "to", "side", "lines"], [[*row.values()] for row in rows])
    return Plot("Lengths", spec, f"{about[:1].upper()}{about[1:]}.", table)


def _seen(text: str) -> str:
    """Returns the beginning of a text, with invisible characters as [U+200B]."""
    invisible = scripts.kinds()[[ord(x) for x in text[:MAX_CHARACTERS]]] == INVISIBLE
    seen = "".join(
        f"[U+{ord(x):04X}]" if is_invisible else x
        for x, is_invisible in zip(text, invisible, strict=False)
    )
    return seen if len(text) <= MAX_CHARACTERS else f"{seen} ..."
