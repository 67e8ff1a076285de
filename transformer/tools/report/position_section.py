"""The section on positions: how a model encodes the order of its input."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from flax import traverse_util
from ml_collections import ConfigDict

from transformer.models import boxes
from transformer.models.positions import waves
from transformer.tools.pages import charts
from transformer.tools.pages.page import Plot, Section, Table
from transformer.tools.report.inside import Inside, Tree

# Maximum rows and columns of a heat map; more are unreadable.
POSITIONS, DIMENSIONS = 40, 32

ABOUT = {
    "interleaved": (
        "Sinusoids (paper, 3.5): position p has sin(p / 10000^(2i/D)) and cos of the same, which "
        "are added to the embedding; sines are drawn on the left. How alike two encodings are "
        "depends on their distance alone."
    ),
    "learned": (
        "Learned positions: a vector for each, added to the embedding. Nothing but training makes "
        "the vectors of neighbours similar. Positions that training never saw stay as they were."
    ),
    "rotary": (
        "Rotary positions (Su et al. 2021): each pair of components of a query or key is rotated "
        "by an angle in proportion to its position, whose sine and cosine are drawn. The product "
        "of a query and a key then depends on their distance alone."
    ),
    "shaw": (
        "Relative positions (Shaw et al. 2018): each head has learned a key and a value for each "
        "distance; farther ones share those of the farthest. The longer a distance's key, the more "
        "it can change a score."
    ),
    "alibi": (
        "ALiBi (Press et al. 2022): the farther a key is from a query, the more is subtracted from "
        "its score, in proportion to the distance and to a slope of the head's own. Nothing is "
        "learned."
    ),
    "t5": (
        "T5's bias (Raffel et al. 2020): each head has learned what is added to the score of a key "
        "at each distance; far distances share a value. A decoder sees no later words."
    ),
    "none": (
        "This model has no positions: self-attention sees a set of words, whose order makes no "
        "difference, but where a mask hides what comes later, or another mixer of words has an "
        "order of its own."
    ),
}
ABOUT |= dict.fromkeys(("concatenated", "halves"), ABOUT["interleaved"])


def section(loaded: Inside) -> Section | None:
    """Returns the position encodings of a model; None for models without a text in ABOUT."""
    model, params = loaded.run.config.model, loaded.params
    if "positions" not in model:
        return None
    [(kind, _, fields)] = boxes.parse("positions", model.positions)
    if kind not in ABOUT:  # such as 'appended', or a fork's own
        return None
    plots = []
    if kind == "shaw":
        plots = [_distances(params, fields["max_distance"])]
    elif kind in ("alibi", "t5"):
        plots = [_biases(kind, params, model, fields)]
    elif "position_grid" in params:
        plots = [_grid(np.asarray(params["position_grid"]))]
    elif kind != "none":
        for name, table_PD in _vectors(kind, model, params).items():
            plots += _table(name, table_PD)
    return Section("Positions", [ABOUT[kind], *plots])


def _vectors(kind: str, model: ConfigDict, params: Tree) -> dict[str, np.ndarray]:
    """Returns {name: vectors of the positions [P, D]}; learned vectors have a name per input."""
    if kind == "learned":
        names = ("source_positions", "target_positions", "add_positions")
        return {name: np.asarray(params[name]["embedding"]) for name in names if name in params}
    D = model.d_model
    if kind == "rotary":
        D = model.key_size or model.d_model // model.num_heads
    # Sines, then cosines: interleaved, as in the paper, they look like noise.
    half = D // 2
    exponents = np.arange(half) / (half - 1 if kind == "concatenated" else half)
    return {"positions": np.concatenate(waves(np.arange(POSITIONS), exponents), axis=-1)}


def _table(name: str, table_PD: np.ndarray) -> list[Plot]:
    """Returns heat maps of the first positions' vectors, and of their similarities."""
    vectors_PD = table_PD[:POSITIONS]
    P, D = vectors_PD.shape
    # Dimensions evenly spaced from 0 on: 3 of 9 are 0 3 6.
    shown = np.arange(min(D, DIMENSIONS)) * D // min(D, DIMENSIONS)
    axes = {"position": range(P), "dimension": shown.tolist()}
    about = f"The first {P} positions, {len(shown)} of {D} dimensions."
    title = name.removeprefix("add_").replace("_", " ").capitalize()
    pairs = {"position": range(P), "second position": range(P)}
    alike = "Cosine similarity of each two positions' vectors."
    return [
        _heat_map(title, vectors_PD[:, shown], about, axes),
        _heat_map(f"{title}, compared", cosines(vectors_PD), alike, pairs),
    ]


def _grid(grid_HWD: np.ndarray) -> Plot:
    """Returns a heat map of similarities to the middle (Dosovitskiy et al. 2021, figure 7)."""
    H, W, D = grid_HWD.shape
    # Place (y, x) is row y * W + x of the reshaped grid: of 8 x 8 places, (4, 4) is row 36.
    middle_P = cosines(grid_HWD.reshape(H * W, D))[H // 2 * W + W // 2]
    about = f"Cosine similarity of each patch's vector with that of row {H // 2}, column {W // 2}."
    axes = {"row": range(H), "column": range(W)}
    return _heat_map("Positions of patches", middle_P.reshape(H, W), about, axes)


def _distances(params: Tree, max_distance: int) -> Plot:
    """Returns a heat map of the norms of the distances' keys (Shaw et al. 2018, section 3.2)."""
    lengths = {}
    for half, number, keys_HKR in _of_layers(params, "distance_keys"):
        # The norm over K leaves a row of R distances for each head.
        for head, length_R in enumerate(np.linalg.norm(keys_HKR, axis=1), start=1):
            lengths[f"{half} {number}.{head}"] = length_R
    # With max_distance 16, column 0 is 16 words before, and column 16 the word itself.
    axes = {"layer and head": lengths, "distance": range(-max_distance, max_distance + 1)}
    about = "Length of the key of each distance; a negative distance is of words before."
    return _heat_map("Distances", list(lengths.values()), about, axes)


def _biases(kind: str, params: Tree, model: ConfigDict, fields: dict) -> Plot:
    """Returns a heat map of the bias of scores at each distance, with a row per head.

    `fields` belong to this kind of positions.
    """
    from transformer.families.parts import biases

    shown = np.arange(1 - POSITIONS // 2, POSITIONS // 2)
    query, keys = np.zeros((1, 1), int), shown[None]
    rows = {}
    if kind == "alibi":
        biases_HS = np.asarray(biases.alibi(query, keys, model.num_heads))[0, :, 0]
        rows = {f"head {head}": bias for head, bias in enumerate(biases_HS, start=1)}
    for half, number, bias_HR in _of_layers(params, "distance_bias"):
        causal = half == "decoder"
        buckets = biases.t5_buckets(query, keys, fields["max_distance"], causal)
        is_seen = (shown <= 0) | (not causal)
        for head, bias in enumerate(bias_HR[:, buckets[0, 0]] * is_seen, start=1):
            rows[f"{half} {number}.{head}"] = bias
    axes = {"layer and head": rows, "distance": shown.tolist()}
    about = "What is added to the score of a key; a negative distance is of words before."
    return _heat_map("Distances", list(rows.values()), about, axes)


def _of_layers(params: Tree, name: str) -> Iterator[tuple[str, int, np.ndarray]]:
    """Yields each layer's param `name` with its half of the model and its number, from 1."""
    for (half, layer, *_, last), array in traverse_util.flatten_dict(params).items():
        if last == name:
            yield half, int(layer.removeprefix("layers_")) + 1, np.asarray(array)


def _heat_map(title: str, matrix: Sequence[np.ndarray], about: str, axes: Mapping) -> Plot:
    """Returns a heat map of a matrix, with values as shares of the largest absolute value.

    `axes` are {name: labels} of the rows, then of the columns.
    """
    (y, rows), (x, columns) = axes.items()
    matrix = np.array(matrix) / max(np.abs(matrix).max(), 1e-12)
    cells = []
    for row, values in zip(rows, matrix.round(3).tolist(), strict=True):
        for column, value in zip(columns, values, strict=True):
            cells.append({y: row, x: column, "value": value})
    table = Table([y, x, "value"], [list(cell.values()) for cell in cells])
    return Plot(title, charts.heat_map(cells, x, y), f"{about} 1 is the largest value.", table)


def cosines(x_PD: np.ndarray) -> np.ndarray:
    """Returns the cosine similarity of all pairs of rows [P, P]; 0 for a row of zeros."""
    unit_PD = x_PD / np.maximum(np.linalg.norm(x_PD, axis=1, keepdims=True), 1e-12)
    return unit_PD @ unit_PD.T
