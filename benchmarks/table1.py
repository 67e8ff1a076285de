"""Table 1 of the paper, measured: cost of a layer by length and width, for each token mixer.

    python -m benchmarks.table1          # measures all, in an hour on two cores; writes the page
    python -m benchmarks.table1 --page   # writes the page again, from docs/table1.json
    python -m benchmarks.table1 --kinds attention,LSTM --lengths 64,256 --json /tmp/some.json

Each mixer has a process of its own. A layer is the mixer alone, causal, without residual connection
and feed-forward network; a step is that of a language model of two layers. FLOPs are counted in the
compiled program, loops as often as they run. What would take more than --gigabytes or --patience is
left out, and nothing is extrapolated. docs/table1.md, whose tables and picture are made from
docs/table1.json, says what is seen.
"""

import argparse
import functools
import itertools
import json
import math
import os
import re
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import yardstick
from docs.tables import written

PAGE = Path(__file__).parents[1] / "docs" / "table1.md"
RESULTS, PICTURE = PAGE.with_suffix(".json"), PAGE.parent / "pictures" / "table1.svg"
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
POSITIONS = (16, 64, 256, 1024, 4096, 8192)  # at which a token is decoded
WIDTHS = (64, 128, 256, 512)
SHOWN_LENGTHS, SHOWN_WIDTHS, SHOWN_POSITIONS = LENGTHS[::3], WIDTHS[::3], POSITIONS[::4]
WIDTH, HEAD, BEAMS, STEP_POSITIONS = 256, 64, 4, 4096


QUANTITIES = (
    *("flops", "layer_ms", "step_ms", "row_bytes"),
    *("decoding_bytes", "decoding_tokens_per_second"),
)


class Kind(NamedTuple):
    """A row of the table: a mixer, and what is known of its cost; n is the length, d the width."""

    mixer: str
    cost: str
    sequential: str
    path: str


KINDS = {
    "attention": Kind("attention", "n²d", "1", "1"),
    "multi-query": Kind("grouped_query(num_key_heads=1)", "n²d", "1", "1"),
    "local attention": Kind("local(window=64)", "rnd", "1", "n/r"),
    "LSTM": Kind("lstm(forget_bias=1.0)", "nd²", "n", "n"),
    "convolution": Kind("convolution(width=3)", "knd²", "1", "n/k"),
    "lightweight convolution": Kind("light_convolution(width=7)", "nd² + knd", "1", "n/k"),
    "dynamic convolution": Kind("dynamic_convolution(width=7)", "nd² + knd", "1", "n/k"),
    "gated linear attention": Kind("gated_linear(chunk=16)", "nd²", "n/c", "n/c"),
    "state space": Kind("state_space(state_size=16, expand=2, width=4)", "nd² + ndm", "n", "n"),
}


# Measuring, in a process of one kind


def measure(kind: Kind, arguments: argparse.Namespace) -> dict[str, dict]:
    """Returns {quantity: {"n,d" or "n": value}} of a kind of layer."""
    import jax

    jax.config.update("jax_platforms", "cpu")
    lengths, patience = numbers(arguments.lengths), 1e3 * arguments.patience
    room = 1e9 * arguments.gigabytes
    costs = {name: {} for name in QUANTITIES}
    for d in numbers(arguments.widths):
        for n in lengths:
            run, program, size = layer(kind, n, d)
            costs["flops"][f"{n},{d}"] = flops(program)
            if size < room:
                costs["layer_ms"][f"{n},{d}"] = milliseconds = median_ms(run, arguments)
                if milliseconds > patience:
                    break
    for n in lengths:
        rows = max(1, STEP_POSITIONS // n)
        run, size = training_step(kind, n, rows)
        costs["row_bytes"][str(n)] = size
        if size * rows < room:
            costs["step_ms"][str(n)] = milliseconds = median_ms(run, arguments)
            if milliseconds > patience:
                break
    for position in POSITIONS:
        run, size = decoding_step(kind, position)
        costs["decoding_bytes"][str(position)] = size
        costs["decoding_tokens_per_second"][str(position)] = 1e3 / median_ms(run, arguments)
    return costs


def median_ms(run: Callable[[], object], arguments: argparse.Namespace) -> float:
    """Returns the median time of a run, in milliseconds, without the first."""
    run()
    times = yardstick.timed(run, least=3, seconds=arguments.seconds)
    return 1e3 * statistics.median(times)


def options_of(kind: Kind, d: int) -> Any:
    """Returns the LayerOptions of a width: heads of 64, or one that is narrower."""
    from configs import _keys, _layers
    from transformer.models.layer_options import LayerOptions

    keys = _keys.make(_layers.KEYS).model
    keys.update(d_model=d, d_ff=4 * d, num_heads=max(1, d // HEAD), num_layers=2, mixer=kind.mixer)
    del keys["dtype"]
    return LayerOptions(**keys)


def layer(kind: Kind, n: int, d: int) -> tuple[Callable[[], object], str, int]:
    """Returns a forward and backward pass of a layer on one row, its program, and its bytes."""
    import jax
    import jax.numpy as jnp

    from transformer.models import boxes, masks

    given = {"options": options_of(kind, d), "causal": True, "dtype": jnp.dtype("float32")}
    make = boxes.part("mixer", kind.mixer, **given)
    mixer, positions = make(parent=None), jnp.arange(n)[None]
    x = jax.random.normal(jax.random.key(0), (1, n, d))

    def view() -> masks.View:
        return masks.self_view(positions, jnp.ones_like(positions), causal=True)

    short = masks.self_view(positions[:, :2], jnp.ones((1, 2), jnp.int32), causal=True)
    init = jax.jit(lambda key: mixer.init(key, x[:, :2], short, train=False)["params"])
    params = init(jax.random.key(0))

    @jax.jit
    @functools.partial(jax.value_and_grad, argnums=(0, 1))
    def passes(params: Any, x: jax.Array) -> jax.Array:
        return mixer.apply({"params": params}, x, view(), train=False).sum()

    compiled = passes.lower(params, x).compile()
    size = compiled.memory_analysis().temp_size_in_bytes
    return lambda: jax.block_until_ready(compiled(params, x)), compiled.as_text(), size


def language_model(kind: Kind) -> tuple[Any, Any]:
    """Returns (config, model) of a language model of two layers over bytes."""
    import dataclasses

    from transformer.families.language_model.language_model import LanguageModel
    from transformer.models import kernels
    from transformer.workdir import config_files

    config = config_files.load_config("configs/shakespeare.py")
    kernels.use(config.kernels)  # as launch.py
    options = dataclasses.replace(options_of(kind, WIDTH), dropout_rate=0.0)
    fields = {"vocab_size": 256, "max_positions": 0, "tied_embeddings": True, "dtype": "float32"}
    config.loss.blocks = 1
    return config, LanguageModel(options=options, **fields)


def training_step(kind: Kind, n: int, rows: int) -> tuple[Callable[[], object], int]:
    """Returns an update on rows of n positions, and the bytes that the gradient of a row needs."""
    import jax
    import numpy as np

    from transformer.families.language_model import language_modelling

    config, model = language_model(kind)

    def batch(rows: int) -> dict:
        tokens = np.random.default_rng(0).integers(2, 256, (rows, n)).astype(np.int32)
        positions = np.tile(np.arange(n, dtype=np.int32), (rows, 1))
        inputs = {"tokens": tokens, "positions": positions, "segments": np.ones_like(positions)}
        return {"inputs": inputs, "targets": tokens, "weights": np.ones((rows, n), np.float32)}

    loss = language_modelling.loss(config, model)
    shapes = jax.eval_shape(
        lambda key: model.init(key, **batch(1)["inputs"], train=False)["params"], jax.random.key(0)
    )
    gradient = jax.jit(jax.grad(lambda p, b: loss(p, b, rng=jax.random.key(0))["loss"]))
    size = gradient.lower(shapes, batch(1)).compile().memory_analysis().temp_size_in_bytes

    # Made when it is first called: not where it would not fit.
    @functools.cache
    def update() -> Callable[[], float]:
        return yardstick.updates(config, model, language_modelling, batch(rows))

    return lambda: update()(), size


def decoding_step(kind: Kind, position: int) -> tuple[Callable[[], object], int]:
    """Returns a step of BEAMS beams of one sentence at a position, and the bytes of its state."""
    import jax
    import jax.numpy as jnp

    _, model = language_model(kind)
    mask, room = jnp.ones((1, 1), bool), position + 1
    tokens = jnp.ones((1, BEAMS, 1), jnp.int32)
    inputs = [tokens[:, 0]] * 3
    init = jax.jit(lambda key: model.init(key, *inputs, train=False))
    variables = init(jax.random.key(0))

    def begin() -> Any:
        return model.apply(variables, (), mask, room, BEAMS, method="prepare")[1]

    @functools.partial(jax.jit, donate_argnums=1)
    def step(variables: Any, cache: Any) -> tuple:
        return model.apply(variables, tokens, position, (), cache, method="step")

    cache = jax.jit(begin)()
    size = sum(x.nbytes for x in jax.tree.leaves(cache.states))

    def run() -> None:
        nonlocal cache
        logits, cache = step(variables, cache)
        jax.block_until_ready(logits)

    return run, size


def flops(program: str) -> int:
    """Returns the FLOPs of a compiled program: products, and one an element of other arithmetic."""
    from transformer.tools.plan import program as hlo

    _, named = hlo.computations(program)
    shapes = {x.name: x.shape for instructions in named.values() for x in instructions}
    size = lambda shape: sum(
        math.prod(map(int, filter(None, sizes.split(","))))
        for _, _, sizes, _ in hlo.ARRAY.findall(shape)
    )
    total = 0
    for instruction, count, _ in hlo.runs(program):
        if instruction.op == "dot":
            # f32[2,3,5] and lhs_contracting_dims={2} is a sum over 5.
            left = hlo.ARRAY.search(shapes[instruction.operands[0]])[3].split(",")
            contracted = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", instruction.rest)[1]
            terms = math.prod(int(left[int(axis)]) for axis in contracted.split(",") if axis)
            total += count * 2 * size(instruction.shape) * terms
        elif instruction.op in ARITHMETIC:
            total += count * size(instruction.shape)
        elif instruction.op == "reduce":
            total += count * size(shapes[instruction.operands[0]])
        elif instruction.op in ("custom-call", "convolution"):
            raise ValueError(f"the FLOPs of {instruction} are unknown")
    return total


ARITHMETIC = {
    *("add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "negate", "abs"),
    *("exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "tanh", "erf"),
    *("rsqrt", "sqrt", "sine", "cosine", "cbrt"),
}


# What is read off


def exponent(points: dict[int, float]) -> float | None:
    """Returns the slope of log(value) by log(size) over the last three sizes; None if fewer."""
    last = sorted(points.items())[-3:]
    if len(last) < 3:
        return None
    x, y = ([math.log(z) for z in axis] for axis in zip(*last, strict=True))
    return statistics.linear_regression(x, y).slope


def overtakes(values: dict[str, dict], attention: dict[str, dict], quantity: str, d: int) -> str:
    """Returns the length from which on a kind costs less than attention, between two measured ones.

    'always' or 'never' are of the measured lengths. Multi-query attention of one head is attention.
    """
    of = lambda costs, quantity: by_length(costs[quantity], d)
    if of(values, "flops") == of(attention, "flops"):
        return "the same"
    points, others = of(values, quantity), of(attention, quantity)
    shared = sorted(points.keys() & others.keys())
    less = [points[n] < others[n] for n in shared]
    if all(less):
        return "always"
    if not less[-1]:
        return "never"
    # The last length at which it costs more; lines between points are straight in logarithms.
    last = max(i for i, is_less in enumerate(less) if not is_less)
    a, b = shared[last : last + 2]
    ratio_a, ratio_b = (math.log(points[n] / others[n]) for n in (a, b))
    share = ratio_a / (ratio_a - ratio_b)
    return f"{round(a * (b / a) ** share, -1):,.0f}"


def by_length(points: dict[str, float], d: int | None = None) -> dict[int, float]:
    """Returns {n: value} of {"n": value}, or, of a width, of {"n,d": value}."""
    ending = "" if d is None else f",{d}"
    return {int(k.removesuffix(ending)): v for k, v in points.items() if k.endswith(ending)}


def by_width(points: dict[str, float], n: int) -> dict[int, float]:
    """Returns {d: value} of a length, of {"n,d": value}."""
    return {int(k.split(",")[1]): v for k, v in points.items() if k.startswith(f"{n},")}


def numbers(text: str) -> list[int]:
    return [int(x) for x in text.split(",")]


# The page


def tables(kinds: dict[str, dict]) -> dict[str, list[list[str]]]:
    """Returns {title: rows}, the first of which is the head."""
    heads = lambda sizes, *names: [f"{name}{size:,}" for name in names for size in sizes]
    rows = {
        "costs": [["layer", "cost", "sequential", "path", "FLOPs by n", "by d", "time by n"]],
        "less": [["from n", *heads(SHOWN_WIDTHS, "FLOPs, d = ", "time, d = ")]],
        "time": [["ms, by n", *heads(SHOWN_LENGTHS, "layer at ", "step at ")]],
        "memory": [["MB a row, by n", *heads(SHOWN_LENGTHS[::2], "")]],
        "decoding": [["layer", *heads(SHOWN_POSITIONS, "tokens/s at ", "kB at ")]],
    }
    for name, values in kinds.items():
        rows["costs"].append([name, *orders(KINDS[name]), *exponents(values)])
        times = shown(values["layer_ms"], SHOWN_LENGTHS, ",.1f", d=WIDTH)
        rows["time"].append([name, *times, *shown(values["step_ms"], SHOWN_LENGTHS)])
        rows["memory"].append([name, *shown(values["row_bytes"], SHOWN_LENGTHS[::2], unit=1e6)])
        rates = shown(values["decoding_tokens_per_second"], SHOWN_POSITIONS)
        states = shown(values["decoding_bytes"], SHOWN_POSITIONS, unit=1e3)
        rows["decoding"].append([name, *rates, *states])
        if name != "attention":
            quantities = itertools.product(("flops", "layer_ms"), SHOWN_WIDTHS)
            less = [overtakes(values, kinds["attention"], x, d) for x, d in quantities]
            rows["less"].append([name, *less])
    return rows


def orders(kind: Kind) -> list[str]:
    """Returns a kind's cost, sequential steps and path as the paper writes them."""
    return [f"O({x})" for x in (kind.cost, kind.sequential, kind.path)]


def exponents(values: dict[str, dict]) -> list[str]:
    """Returns the growth of a kind's FLOPs by length and width, and of its time by length."""
    by_n = exponent(by_length(values["flops"], min(WIDTHS)))
    by_d = exponent(by_width(values["flops"], min(LENGTHS)))
    time_by_n = exponent(by_length(values["layer_ms"], WIDTH))
    return [f"n^{by_n:.2f}", f"d^{by_d:.2f}", f"n^{time_by_n:.2f}"]


def shown(
    values: dict[str, float],
    sizes: tuple[int, ...],
    form: str = ",.0f",
    unit: float = 1,
    d: int | None = None,
) -> list[str]:
    """Returns the values of some lengths or positions, empty where nothing was measured."""
    points = by_length(values, d)
    return [f"{points[n] / unit:{form}}" if n in points else "" for n in sizes]


def filled(page: str, kinds: dict[str, dict]) -> str:
    """Returns the page with its tables rebuilt; each follows a comment with its title."""
    for title, rows in tables(kinds).items():
        page = written(page, title, rows, others="---:")
    return page


def chart(kinds: dict[str, dict]) -> dict:
    """Returns the picture: time of a layer by length, and what a token costs by position."""
    panels = []
    for title, quantity, x, y, d in (
        ("A layer, forward and backward", "layer_ms", "length", "ms", WIDTH),
        ("Decoding", "decoding_tokens_per_second", "position", "tokens/s", None),
        ("State of a sentence's 4 beams", "decoding_bytes", "position", "bytes", None),
    ):
        values = [
            {x: n, y: value, "layer": name}
            for name, costs in kinds.items()
            for n, value in by_length(costs[quantity], d).items()
        ]
        panels.append(panel(title, values, x, y, "layer", {"type": "log"}))
    return {"hconcat": panels}


def panel(title: str, values: list[dict], x: str, y: str, line: str, scale: dict) -> dict:
    """Returns a chart of y by x, which is logarithmic, with a line for each value of `line`."""
    quantitative = {"type": "quantitative"}
    colours = {"scheme": "tableau20"}
    return {
        **{"title": title, "width": 270, "height": 230, "data": {"values": values}},
        "mark": {"type": "line", "point": {"size": 18}},
        "encoding": {
            "x": {"field": x, **quantitative, "scale": {"type": "log", "base": 2}},
            "y": {"field": y, **quantitative, "scale": scale},
            "color": {"field": line, "type": "nominal", "sort": None, "scale": colours},
        },
    }


def write_page(results: dict) -> None:
    """Writes the tables into docs/table1.md, and the picture."""
    from transformer.tools.pages import charts

    PAGE.write_text(filled(PAGE.read_text(), results["kinds"]))
    PICTURE.write_text(charts.svg(chart(results["kinds"])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)))
    parser.add_argument("--widths", default=",".join(map(str, WIDTHS)))
    parser.add_argument("--seconds", type=float, default=0.3, help="of each measurement, at least")
    parser.add_argument("--gigabytes", type=float, default=8, help="longer rows are not run")
    parser.add_argument(
        "--patience", type=float, default=5, help="seconds; longer rows are left out"
    )
    parser.add_argument("--json", type=Path, help="a file for the results; else the page's own")
    parser.add_argument("--page", action="store_true", help="write the page from the results alone")
    parser.add_argument("--engine", help="one kind (for the program itself)")
    arguments = parser.parse_args()
    if arguments.engine:
        print(json.dumps(measure(KINDS[arguments.engine], arguments)))
        return
    if not arguments.page:
        from transformer.runtime.startup import ALLOCATOR

        results = {"kinds": {}}
        for name in arguments.kinds.split(","):
            begun = time.perf_counter()
            environment = {**os.environ, **ALLOCATOR}
            taken = yardstick.take_turn("benchmarks.table1", name, environment=environment)
            results["kinds"][name] = taken
            print(f"{name}: {time.perf_counter() - begun:.0f} s", file=sys.stderr)
        (arguments.json or RESULTS).write_text(json.dumps(results, indent=1) + "\n")
    if not arguments.json:
        write_page(json.loads(RESULTS.read_text()))


if __name__ == "__main__":
    main()
