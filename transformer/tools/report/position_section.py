"""The section on positions: how a model knows the order of its input."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from transformer.models import positions
from transformer.tools.pages import charts
from transformer.tools.pages.page import Plot, Section, Table
from transformer.tools.report.inside import Inside

POSITIONS, COLUMNS = 50, 64  # of a matrix that is drawn; more cannot be seen
DISTANCES = 50
LEARNED = 32  # on each side, of a learned matrix
GRIDS = 7  # on each side, of a grid of grids

ABOUT = {
    "sinusoids": (
        "Sinusoids (paper, 3.5): position p has sin(p / 10000^(2i/D)) and cos of the same, waves "
        "from a length of 2π to 10000 · 2π, which are added to the embedding. The product of two "
        "positions' encodings depends on their distance alone."
    ),
    "learned": (
        "Learned positions: a vector for each, added to the embedding. Nothing but training makes "
        "the vectors of neighbours similar. Positions that training never saw stay as they were."
    ),
    "grid": (
        "Learned positions of the patches (Dosovitskiy et al. 2021, figure 7): a vector for each "
        "place of the grid, added to its patch. Nothing but training tells it rows and columns."
    ),
    "rotary": (
        "Rotary positions (Su et al. 2021): each pair of components of a query or key is turned by "
        "an angle in proportion to its position. Their product then depends on the distance alone: "
        "equal vectors match less, the farther they are apart."
    ),
    "shaw": (
        "Relative positions (Shaw et al. 2018): each head has learned a key and a value for each "
        "distance; farther ones share those of the farthest. The longer a distance's key, the more "
        "it can change a score."
    ),
    "none": (
        "This model has no positions: self-attention sees a set of words, whose order makes no "
        "difference, but where a mask hides what comes later."
    ),
}


def section(this: Inside) -> Section | None:
    """Returns the position encodings of a model; None for a recurrent one, which has none."""
    kind = this.run.config.model.get("positions")
    if kind is None:
        return None
    params, model = this.params, this.run.config.model
    if kind == "learned" and "position_grid" in params:
        parts = [ABOUT["grid"], *_grid(np.asarray(params["position_grid"]))]
    elif kind == "learned":
        names = ("source_positions", "target_positions", "add_positions")
        tables = {name: np.asarray(params[name]["embedding"]) for name in names if name in params}
        parts = [ABOUT["learned"], *(plot for x in tables.items() for plot in _learned(*x))]
    elif kind == "rotary":
        parts = [ABOUT["rotary"], _rotary(model.key_size or model.d_model // model.num_heads)]
    elif kind == "shaw":
        parts = [ABOUT["shaw"], *_shaw(params, model.max_distance)]
    elif kind == "none":
        parts = [ABOUT["none"]]
    else:
        parts = [ABOUT["sinusoids"], *_sinusoids(model.d_model, kind)]
    return Section("Positions", parts)


def _sinusoids(d_model: int, layout: str) -> list[Plot]:
    """Returns the encodings (paper, section 3.5) as a matrix, and their product by distance."""
    encodings_PD = np.asarray(positions.sinusoids(np.arange(POSITIONS), d_model, layout))
    products_P = encodings_PD @ encodings_PD[0] / (d_model / 2)
    shown = _evenly(d_model, COLUMNS)
    if layout == "interleaved":  # sines, then cosines: side by side they look like noise
        sines = 2 * _evenly(d_model // 2, COLUMNS // 2)
        shown = np.concatenate([sines, sines + 1])
    cells = [
        {"position": p, "dimension": int(d), "value": round(float(encodings_PD[p, d]), 3)}
        for p in range(POSITIONS)
        for d in shown
    ]
    about = (
        f"Rows are positions, columns {len(shown)} of the {d_model} dimensions, sines on the left, "
        "cosines on the right."
    )
    matrix = _map("The encodings", cells, about, x="dimension", y="position", both_signs=True)
    return [matrix, _by_distance(products_P, "1 is the product with itself.")]


def _rotary(key_size: int) -> Plot:
    """Returns the product of two equal vectors, one of them turned, by distance."""
    # Of an interleaved row [sin, cos, sin, cos, ...] the cosines: a pair of components turned by an
    # angle has cos(angle) times the product with the unturned pair.
    angles_P = positions.sinusoids(np.arange(DISTANCES), key_size, "interleaved")[:, 1::2]
    return _by_distance(np.asarray(angles_P).mean(axis=1), "Of two equal vectors, 1 at distance 0.")


def _by_distance(products_P: np.ndarray, about: str) -> Plot:
    """Returns the curve of a product over the distance of two positions."""
    rows = [[p, round(float(x), 4)] for p, x in enumerate(products_P)]
    spec = {
        "data": {"values": [{"distance": p, "product": x} for p, x in rows]},
        "height": 220,
        "mark": {"type": "line", "point": True, "tooltip": True},
        "encoding": {
            "x": {"field": "distance", "type": "quantitative"},
            "y": {"field": "product", "type": "quantitative", "title": None},
        },
    }
    title = "Product of two positions, by their distance"
    return Plot(title, spec, about, Table(["distance", "product"], rows))


def _learned(name: str, table_PD: np.ndarray) -> list[Plot]:
    """Returns the learned matrix, and how alike its rows are."""
    (P, D), most = table_PD.shape, max(float(np.abs(table_PD).max()), 1e-12)
    rows, columns = np.arange(min(P, LEARNED)), _evenly(D, LEARNED)
    cells = [
        {"position": int(p), "dimension": int(d), "value": round(float(table_PD[p, d]) / most, 3)}
        for p in rows
        for d in columns
    ]
    cosines_PP = cosines(table_PD[rows])
    pairs = [
        {"position": int(p), "other position": int(q), "value": round(float(cosines_PP[p, q]), 3)}
        for p in rows
        for q in rows
    ]
    title = name.replace("_", " ").replace("add positions", "positions").capitalize()
    about = (
        f"Rows are the first {len(rows)} of {P} positions, columns {len(columns)} of {D} "
        f"dimensions; values are shares of the largest, {most:.3g}."
    )
    alike = "Cosine similarity of each two positions' vectors."
    return [
        _map(title, cells, about, x="dimension", y="position", both_signs=True),
        _map(f"{title}, compared", pairs, alike, x="other position", y="position", both_signs=True),
    ]


def _grid(grid_HWD: np.ndarray) -> list[Plot]:
    """Returns a grid of small grids: the similarity of each place with all places.

    The small grid in row m and column n begins at row m * (H + 1) and column n * (W + 1).
    """
    H, W, D = grid_HWD.shape
    cosines_HWYX = cosines(grid_HWD.reshape(H * W, D)).reshape(H, W, H, W)
    cells = [
        {
            # A column and a row are left free between the small grids.
            **{"x": n * (W + 1) + x, "y": m * (H + 1) + y, "place": f"{i}, {j}"},
            **{"other": f"{y}, {x}", "value": round(float(cosines_HWYX[i, j, y, x]), 3)},
        }
        for m, i in enumerate(_evenly(H, GRIDS))
        for n, j in enumerate(_evenly(W, GRIDS))
        for y in range(H)
        for x in range(W)
    ]
    about = (
        "Each small grid is of one place, row by row: the cosine similarity of its vector with "
        "those of all places."
    )
    plot = _map("Learned positions", cells, about, x="x", y="y", both_signs=True)
    for name in "xy":
        indices = list(range(1 + max(cell[name] for cell in cells)))
        plot.spec["encoding"][name] |= {"axis": None, "scale": {"domain": indices}}
    rows = [[cell["place"], cell["other"], cell["value"]] for cell in cells]
    table = Table(["place (row, column)", "other place", "similarity"], rows)
    return [plot._replace(spec={**plot.spec, "width": 260}, table=table)]


def _shaw(params: Any, max_distance: int) -> list[Plot]:
    """Returns the length of each distance's key in each head (Shaw et al. 2018, section 3.2).

    Column r of a head's keys is of distance r - max_distance: with 16, column 0 is of 16 words
    before, column 16 of the word itself.
    """
    plots = []
    for half in ("encoder", "decoder"):
        layers = params.get(half, {})
        cells = [
            {
                **{"layer and head": f"{i + 1}.{h + 1}", "distance": r - max_distance},
                "value": round(float(length), 3),
            }
            for i in range(sum(name.startswith("layers_") for name in layers))
            for h, keys_KR in enumerate(
                np.asarray(layers[f"layers_{i}"]["self_attention"]["distance_keys"])
            )
            for r, length in enumerate(np.linalg.norm(keys_KR, axis=0))
        ]
        if cells:
            about = "Length of the key of each distance; a negative one is of words before."
            axes = {"x": "distance", "y": "layer and head"}
            plots.append(_map(f"Distances in the {half}", cells, about, **axes))
    return plots


def _map(title: str, cells: Sequence[dict], about: str, **options: Any) -> Plot:
    """Returns a heat map of cells; `options` are those of `charts.heat_map`."""
    table = Table(list(cells[0]), [list(cell.values()) for cell in cells])
    return Plot(title, charts.heat_map(cells, **options), about, table)


def cosines(x_PD: np.ndarray) -> np.ndarray:
    """Returns the cosine similarity of each two rows; 0 with a row of zeros."""
    unit_PD = x_PD / np.maximum(np.linalg.norm(x_PD, axis=1, keepdims=True), 1e-12)
    return unit_PD @ unit_PD.T


def _evenly(total: int, most: int) -> np.ndarray:
    """Returns up to `most` indices below `total`, evenly spaced from 0 on: 3 of 9 are 0 3 6."""
    return np.arange(min(total, most)) * total // min(total, most)
