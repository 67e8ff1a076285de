"""docs/fidelity.md: its tables are those of the configs and models, and what they name exists."""

import re

import pytest
import test_configs
from helpers import pages

from configs import wmt_base, wmt_big
from docs import fidelity
from docs.tour.__main__ import STEPS

PAGE = fidelity.PAGE.read_text("utf-8")
GOLDEN = test_configs.PAPER | test_configs.BASE | test_configs.ENDE


@pytest.mark.slow
def test_the_tables_are_those_of_configs_and_models():
    assert fidelity.filled(PAGE) == PAGE


def test_a_row_has_golden_values_tests_and_a_command_or_a_reason():
    for row in fidelity.read()["rows"]:
        assert {*row.get("keys", ())} <= GOLDEN.keys(), row
        for test in row["tests"]:
            file, _, name = test.partition("::")
            assert name in pages.defined(pages.ROOT / "tests" / file), test
        assert re.search("python|not here", row["shown"]), row
        assert {*re.findall(r"docs\.tour (\w+)", row["shown"])} <= {*STEPS}, row


@pytest.mark.parametrize(
    ("config", "expected", "gigaflops"),
    [(wmt_base.get_config(), 63_045_632, 394.2), (wmt_big.get_config(), 214_171_648, 1329.6)],
)
def test_parameters_and_flops_of_the_paper(config, expected, gigaflops):
    """FLOPs of 16 pairs of 64 and 64 positions, by the formula in docs/performance.md."""
    assert fidelity.count(config) == expected
    assert fidelity.model(config).flops(16, 64) / 1e9 == pytest.approx(gigaflops, abs=0.1)


def test_heads_cost_what_one_of_full_width_costs():
    rows = {name: config for name, _, config in fidelity.rows_of_table_3()}
    base, one = ((fidelity.count(x), fidelity.training(x)) for x in (rows["base"], rows["A1"]))
    assert base == one


def test_one_vocabulary_fits_all_rows_of_table_3_but_big():
    ranges = re.findall(r"(\d+)-(\d+) \|$", PAGE.replace(",", ""), re.MULTILINE)
    low, high = zip(*(map(int, x) for x in ranges[:-1]), strict=True)
    assert int(ranges[-1][1]) < max(low)
    assert f"{max(low):,} to {min(high):,} pieces" in PAGE
