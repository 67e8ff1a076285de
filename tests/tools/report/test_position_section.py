"""Pictures of positions: the numbers are those of the model."""

import math

import numpy as np
import pytest
from tools.pages import workdirs
from tools.report import insides

from transformer.tools.report import position_section


def section(folder, params, *, task="translation", **model):
    """The section of a model with these keys of the config."""
    changes = {f"model.{name}": value for name, value in model.items()}
    run = workdirs.load(workdirs.write(folder / "run", task=task, **changes))
    return position_section.section(insides.inside(run, None, params, []))


def cells(plot):
    """{(row, column): value} of a heat map."""
    return {(y, x): value for y, x, value in plot.table.rows}


@pytest.mark.parametrize(
    ("keys", "size"),
    [
        ({"positions": "interleaved", "d_model": 64}, 64),
        ({"positions": "rotary", "d_model": 16, "num_heads": 2, "key_size": 0}, 8),
    ],
)
def test_sinusoids_are_the_papers(tmp_path, keys, size):
    """Drawn with the sines first; those of rotary positions have the size of a head's keys."""
    _, vectors, compared = section(tmp_path, {}, **keys).parts
    for (p, d), value in cells(vectors).items():
        wave = math.cos if d >= size // 2 else math.sin
        assert value == pytest.approx(wave(p / 10000 ** (d % (size // 2) * 2 / size)), abs=1e-3)
    angles = [7 / 10000 ** (i * 2 / size) for i in range(size // 2)]
    assert cells(compared)[3, 10] == pytest.approx(np.cos(angles).mean(), abs=1e-3)


def test_learned_positions_are_compared(tmp_path):
    table = np.array([[1.0, 0], [0, 2], [3, 3], [-1, 0]])
    params = {"source_positions": {"embedding": table}, "target_positions": {"embedding": -table}}
    _, matrix, source, _, target = section(tmp_path, params, positions="learned").parts
    assert [matrix.title, target.title] == ["Source positions", "Target positions, compared"]
    assert cells(matrix) == {(p, d): round(table[p, d] / 3, 3) for p in range(4) for d in range(2)}
    half = round(math.sqrt(0.5), 3)
    assert {(0, 1): 0, (0, 2): half, (2, 1): half, (0, 3): -1}.items() <= cells(source).items()
    assert cells(source) == cells(target)


GRID, KEYS = np.random.default_rng(0).standard_normal((2, 2, 3, 5))  # [H, W, D], [H, K, R]
DISTANCES = {"distance_keys": KEYS, "query": {"kernel": np.ones(3)}}
LAYERS = {f"layers_{i}": {"self_attention": DISTANCES} for i in range(2)}
NORMS = np.linalg.norm(KEYS, axis=1)
ALIKE = GRID[1, 1] @ GRID[0, 2] / np.prod(np.linalg.norm(GRID[[1, 0], [1, 2]], axis=1))


@pytest.mark.parametrize(
    ("keys", "params", "count", "values"),
    [
        (  # patches are compared with the middle one
            {"task": "image_classification", "positions": "learned"},
            *({"position_grid": GRID}, 2 * 3, {(0, 2): ALIKE}),
        ),
        (  # two layers and heads, five distances
            *({"positions": "shaw(max_distance=2)"}, {"decoder": LAYERS}, 2 * 2 * 5),
            {("decoder 2.2", -2): NORMS[1, 0] / NORMS.max()},
        ),
        (  # slopes 1/4, 1/16, 1/64, 1/256; the largest value is 19 away from the first head
            *({"positions": "alibi", "num_heads": 4}, {}, 4 * 39),
            {("head 1", -19): -1, ("head 2", 5): -5 / 16 / (19 / 4)},
        ),
    ],
)
def test_one_heat_map(tmp_path, keys, params, count, values):
    _, plot = section(tmp_path, params, **keys).parts
    assert len(cells(plot)) == count
    assert {place: cells(plot)[place] for place in values} == pytest.approx(values, abs=1e-3)


def test_a_recurrent_model_has_no_positions(tmp_path):
    """Nor are those drawn that the page has no text for."""
    assert section(tmp_path / "appended", {}, positions="appended") is None
    run = workdirs.load(workdirs.write(tmp_path / "run"))
    del run.config.model.positions
    assert position_section.section(insides.inside(run, None, {}, [])) is None


def test_learned_biases_of_distances(tmp_path):
    bias_HR = np.random.default_rng(0).standard_normal((2, 32))
    layer = {"self_attention": {"distance_bias": bias_HR}}
    params = {"encoder": {"layers_0": layer}, "decoder": {"layers_0": layer}}
    _, plot = section(tmp_path, params, positions="t5(max_distance=128)").parts
    biases = cells(plot)
    # Distances up to 15 have a bucket each in a decoder; in an encoder later words begin at 16.
    assert biases["decoder 1.2", -12] / biases["decoder 1.2", -3] == pytest.approx(
        bias_HR[1, 12] / bias_HR[1, 3], rel=0.02
    )
    assert biases["decoder 1.2", 4] == 0
    assert biases["encoder 1.1", 4] / biases["encoder 1.1", -4] == pytest.approx(
        bias_HR[0, 20] / bias_HR[0, 4], rel=0.02
    )
