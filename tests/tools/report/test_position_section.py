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
    largest = {(p, d): round(table[p, d] / 3, 3) for p in range(4) for d in range(2)}
    assert cells(matrix) == largest
    half = round(math.sqrt(0.5), 3)
    pairs = {(0, 1): 0, (0, 2): half, (2, 1): half, (0, 3): -1}
    assert pairs.items() <= cells(source).items()
    assert cells(source) == cells(target)


def test_patches_are_compared_with_the_middle(tmp_path):
    grid = np.random.default_rng(0).standard_normal((2, 3, 5))
    keys = {"task": "image_classification", "positions": "learned"}
    _, plot = section(tmp_path, {"position_grid": grid}, **keys).parts
    middle, corner = grid[1, 1], grid[0, 2]
    expected = middle @ corner / math.sqrt(middle @ middle * (corner @ corner))
    assert len(cells(plot)) == 6
    assert cells(plot)[0, 2] == pytest.approx(expected, abs=1e-3)


def test_the_keys_of_distances(tmp_path):
    keys_HKR = np.random.default_rng(0).standard_normal((2, 3, 5))
    layer = {"self_attention": {"distance_keys": keys_HKR, "query": {"kernel": np.ones(3)}}}
    params = {"decoder": {"layers_0": layer, "layers_1": layer}}
    _, plot = section(tmp_path, params, positions="shaw(max_distance=2)").parts
    lengths_HR = np.linalg.norm(keys_HKR, axis=1)
    assert len(cells(plot)) == 2 * 2 * 5
    expected = lengths_HR[1, 0] / lengths_HR.max()
    assert cells(plot)["decoder 2.2", -2] == pytest.approx(expected, abs=1e-3)


def test_slopes_of_distances(tmp_path):
    _, plot = section(tmp_path, {}, positions="alibi", num_heads=4).parts
    # Slopes 1/4, 1/16, 1/64, 1/256; the largest value is 19 away from the first head.
    assert cells(plot)["head 1", -19] == -1
    assert cells(plot)["head 2", 5] == pytest.approx(-5 / 16 / (19 / 4), abs=1e-3)


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


def test_none_is_said_and_a_recurrent_model_is_left_out(tmp_path):
    assert len(section(tmp_path, {}, positions="none").parts) == 1
    run = workdirs.load(tmp_path / "run")
    del run.config.model.positions
    assert position_section.section(insides.inside(run, None, {}, [])) is None
