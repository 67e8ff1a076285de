"""Pictures of positions: the numbers are those of the model."""

import math

import numpy as np
import pytest
from helpers import browser, insides, workdirs

from transformer.tools.pages import page
from transformer.tools.pages.page import Plot
from transformer.tools.report import position_section


def section(folder, params, *, task="translation", **model):
    """The section of a model with these keys of the config."""
    changes = {f"model.{name}": value for name, value in model.items()}
    run = workdirs.load(workdirs.write(folder / "run", task=task, **changes))
    return position_section.section(insides.of(run, None, params, []))


def plots(section):
    return [part for part in section.parts if isinstance(part, Plot)]


def rows(plot):
    return [tuple(row) for row in plot.table.rows]


def test_sinusoids_are_the_papers(tmp_path):
    matrix, products = plots(section(tmp_path, {}, positions="interleaved", d_model=256))
    cells = {(p, d): x for p, d, x in rows(matrix)}
    assert len(cells) == position_section.POSITIONS * position_section.COLUMNS
    for (p, d), value in list(cells.items())[::97]:
        wave = math.cos if d % 2 else math.sin
        assert value == pytest.approx(wave(p / 10000 ** (d // 2 * 2 / 256)), abs=1e-3)
    assert {d % 2 for _, d in cells} == {0, 1}
    for distance, product in rows(products):
        angles = [distance / 10000 ** (i / 128) for i in range(128)]
        assert product == pytest.approx(np.cos(angles).mean(), abs=1e-3)


def test_learned_positions_are_compared(tmp_path):
    table = np.array([[1.0, 0], [0, 2], [3, 3], [-1, 0]])
    params = {"source_positions": {"embedding": table}, "target_positions": {"embedding": -table}}
    matrix, source, other, target = plots(section(tmp_path, params, positions="learned"))
    titles = [
        f"{side} positions{rest}" for side in ("Source", "Target") for rest in ("", ", compared")
    ]
    assert [plot.title for plot in (matrix, source, other, target)] == titles
    of_largest = {(p, d): round(table[p, d] / 3, 3) for p in range(4) for d in range(2)}
    assert {(p, d): x for p, d, x in rows(matrix)} == of_largest
    cells = {(p, q): x for p, q, x in rows(source)}
    half = round(math.sqrt(0.5), 3)
    assert cells[0, 1] == 0
    assert cells[0, 2] == cells[2, 1] == half
    assert cells[0, 3] == -1
    assert rows(source) == rows(target)


def test_a_grid_of_grids(tmp_path):
    grid = np.random.default_rng(0).standard_normal((2, 3, 5))
    params = {"position_grid": grid}
    [plot] = plots(section(tmp_path, params, task="image_classification", positions="learned"))
    cells = {(p, q): x for p, q, x in rows(plot)}
    assert len(cells) == 36
    a, b = grid[1, 2], grid[0, 1]
    expected = a @ b / math.sqrt(a @ a * (b @ b))
    assert cells["1, 2", "0, 1"] == pytest.approx(expected, abs=1e-3)
    values = plot.spec["data"]["values"]
    assert len({(cell["x"], cell["y"]) for cell in values}) == 36


def test_rotations_depend_on_the_distance(tmp_path):
    keys = {"positions": "rotary", "d_model": 16, "num_heads": 2, "key_size": 0}
    [plot] = plots(section(tmp_path, {}, **keys))
    for distance, product in rows(plot):
        angles = [distance / 10000 ** (i / 4) for i in range(4)]
        assert product == pytest.approx(np.cos(angles).mean(), abs=1e-3)


def test_the_keys_of_distances(tmp_path):
    keys_HKR = np.random.default_rng(0).standard_normal((2, 3, 5))
    layer = {"self_attention": {"distance_keys": keys_HKR}}
    params = {"decoder": {"layers_0": layer, "layers_1": layer}}
    [plot] = plots(section(tmp_path, params, positions="shaw", max_distance=2))
    cells = {(name, distance): x for name, distance, x in rows(plot)}
    assert len(cells) == 2 * 2 * 5
    expected = np.linalg.norm(keys_HKR[1, :, 0])
    assert cells["2.2", -2] == pytest.approx(expected, abs=1e-3)


def test_none_is_said_and_a_recurrent_model_is_left_out(tmp_path):
    assert len(section(tmp_path, {}, positions="none").parts) == 1
    run = workdirs.load(tmp_path / "run")
    del run.config.model.positions
    assert position_section.section(insides.of(run, None, {}, [])) is None


@pytest.mark.slow
def test_a_browser_draws_all_kinds(tmp_path):
    grid = {"position_grid": np.random.default_rng(0).standard_normal((4, 4, 5))}
    layers = {"layers_0": {"self_attention": {"distance_keys": np.ones((2, 3, 5))}}}
    tables = {"add_positions": {"embedding": np.random.default_rng(1).random((64, 8))}}
    sections = [
        section(tmp_path / "a", {}, positions="concatenated", d_model=64),
        section(tmp_path / "b", tables, positions="learned"),
        section(tmp_path / "c", grid, task="image_classification", positions="learned"),
        section(tmp_path / "d", {"encoder": layers}, positions="shaw", max_distance=2),
        section(tmp_path / "e", {}, positions="rotary"),
    ]
    file = tmp_path / "page.html"
    file.write_text(page.html("positions", sections))
    with browser.chromium() as driver:
        for width in browser.WIDTHS.values():
            browser.open_page(driver, file, width=width)
            assert browser.faults(driver) == browser.NONE
