"""Writes the tables of docs/fidelity.md: the paper beside the configs, table 3, and the budget.

    python -m docs.fidelity

docs/fidelity.toml has the rows: what the paper says, the config keys that hold it, code, tests and
a command. Values are read from the WMT configs, parameters and FLOPs are counted by their models.
"""

import functools
import math
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
from ml_collections import ConfigDict

from configs import wmt_base, wmt_big, wmt_enfr_base, wmt_enfr_big
from docs import tables
from transformer.runtime.devices import hardware
from transformer.tasks import task, translation

DOCS = Path(__file__).parent
PAGE = DOCS / "fidelity.md"
ROWS = DOCS / "fidelity.toml"
TABLE_3 = DOCS.parent / "configs" / "sweeps" / "table3.toml"
PRESETS = ("t2t_v1", "t2t_v3")
CONFIGS = {"": wmt_base, "big": wmt_big, "En-Fr": wmt_enfr_base, "big En-Fr": wmt_enfr_big}
HEAD = ["the paper", "here", "code; test", "shown by"]


def read() -> dict[str, Any]:
    """Returns docs/fidelity.toml."""
    return tomllib.loads(ROWS.read_text("utf-8"))


def filled(page: str) -> str:
    """Returns the page with its tables as the configs and the models have them."""
    content = read()
    page = tables.written(page, "sentences", [HEAD, *map(row_of, content["rows"])])
    page = tables.written(page, "table_3", [*table_3(content["table_3"])], "---:")
    return tables.written(page, "budget", [*budget(content["budget"])], "---:")


# The paper's sentences


def row_of(row: dict[str, Any]) -> list[str]:
    """Returns the cells of a sentence."""
    here = [*map(values_of, row.get("keys", ())), *filter(None, [row.get("here")])]
    held = [row["code"], *(f"`{Path(test).name}`" for test in row["tests"])]
    return [row["paper"], "; ".join(here), "; ".join(held), row["shown"]]


def values_of(key: str) -> str:
    """Returns a key with its values: "`model.d_model=512`; big `1024`".

    The base model's comes first, then the values of configs and presets that differ.
    """
    first, *rest = differences(key)
    by_value = {}
    for label, value in rest:
        by_value.setdefault(value, []).append(label)
    told = [f"{', '.join(labels)} `{value}`" for value, labels in by_value.items()]
    return ", ".join([f"`{key}={first[1]}`", *told])


def differences(key: str) -> Iterator[tuple[str, Any]]:
    """Yields (label, value) of base, and of each config and preset that has another."""
    value = lambda name, preset="paper": value_in(config_of(name, preset), key)
    base, big, other = value(""), value("big"), value("En-Fr")
    yield "", base
    expected = {"big": base, "En-Fr": base, "big En-Fr": big if big != base else other}
    yield from ((name, value(name)) for name in expected if value(name) != expected[name])
    for preset in PRESETS:
        changed = {name: value(name, preset) for name in CONFIGS}
        changed = {name: x for name, x in changed.items() if x != value(name)}
        if changed.keys() == CONFIGS.keys():
            yield preset, changed[""]
        else:
            yield from ((f"{name} {preset}", x) for name, x in changed.items())


@functools.cache
def config_of(name: str, preset: str) -> ConfigDict:
    return CONFIGS[name].get_config(preset)


def value_in(config: ConfigDict, key: str) -> Any:
    for name in key.split("."):
        config = config[name]
    return config


# Table 3


def table_3(millions: dict[str, int]) -> Iterator[list[str]]:
    """Yields the head, and base and the rows of the paper's table 3 with another size than base.

    `millions` are the paper's. The last column has the sizes of the vocabulary that would give as
    many, rounded.
    """
    yield ["row", "changed", "the paper, millions", "here", "pieces for the paper's number"]
    base = count(wmt_base.get_config())
    for name, changes, config in rows_of_table_3():
        parameters, paper = count(config), millions.get(name)
        pieces = ""
        if paper:
            low, high = implied(paper, parameters, config.model.d_model)
            pieces = f"{low:,}-{high:,}"
        if name == "base" or parameters != base:
            yield [name, changes, str(paper or ""), f"{parameters:,}", pieces]


def rows_of_table_3() -> Iterator[tuple[str, str, ConfigDict]]:
    """Yields the name, the changes and the config of each row of the sweep of table 3."""
    sweep = tomllib.loads(TABLE_3.read_text("utf-8"))
    for name, row in sweep["rows"].items():
        config = wmt_big.get_config() if name == "big" else wmt_base.get_config()
        sections = {section: x for section, x in row.items() if section != "config"}
        config.update(sections)
        changes = [f"`{key}={x}`" for part in sections.values() for key, x in part.items()]
        yield name, ", ".join(changes), config


def count(config: ConfigDict) -> int:
    """Returns the number of parameters of a config's model."""
    return parameters_of(model(config))


@functools.cache
def parameters_of(made: nn.Module) -> int:
    """Returns the number of a model's parameters, by shapes alone."""
    params = task.abstract_params(made, translation.example(wmt_base.get_config(), 1))
    return sum(x.size for x in jax.tree.leaves(params))


def model(config: ConfigDict) -> nn.Module:
    return translation.model(config, translation.sizes(config, None))


def implied(millions: int, parameters: int, width: int) -> tuple[int, int]:
    """Returns the least and the largest vocabulary with so many millions of parameters, rounded.

    `parameters` are those with the configs' vocabulary: each piece has one row of `width` numbers.
    """
    rest = parameters - wmt_base.get_config().vocabulary.size * width
    low, high = (((millions + x) * 10**6 - rest) / width for x in (-0.5, 0.5))
    return math.ceil(low), math.floor(high)


# The budget


def budget(given: dict[str, Any]) -> Iterator[list[str]]:
    """Yields the head, and the rows of the FLOPs of training, the paper's and the models' own.

    The paper's are hours times devices times a device's peak. Hours and energy of a device are
    those of the model's FLOPs at a share of its peak in bfloat16.
    """
    yield ["", "base", "big"]
    configs = wmt_base.get_config(), wmt_big.get_config()
    flops, positions = zip(*map(training, configs), strict=True)
    devices, peak, watts = (given[key] for key in ("devices", "peak", "watts"))
    paper = [hours * 3600 * devices * peak for hours in given["hours"]]
    yield ["target positions", *map(scientific, positions)]
    yield ["FLOPs, the paper's", *map(scientific, paper)]
    yield ["FLOPs, the model's", *map(scientific, flops)]
    yield ["share", *(f"{x / y * 100:.0f} %" for x, y in zip(flops, paper, strict=True))]
    cost = lambda hours, watts: f"{hours:.1f} h, {hours * watts / 1000:.1f} kWh"
    yield ["eight P100", *(cost(x, devices * watts) for x in given["hours"])]
    for name, watts in given["today"].items():
        hours = [x / hardware(name).peak / given["share"] / 3600 for x in flops]
        yield [f"one {name}", *(cost(x, watts) for x in hours)]


def scientific(x: float) -> str:
    """Returns 3.3e18 for 3.28e18."""
    return f"{x:.1e}".replace("e+0", "e").replace("e+", "e")


def training(config: ConfigDict) -> tuple[int, int]:
    """Returns the FLOPs and the target positions of a config's training."""
    length, steps = config.data.row_length, config.train.num_steps
    rows = config.data.batch_tokens // length
    return steps * model(config).flops(rows, length), steps * rows * length


def main() -> None:
    PAGE.write_text(filled(PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
