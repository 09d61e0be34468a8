"""How often intervals cover the truth, and how often a family of tests makes a wrong claim.

``docs/statistics_simulated.json`` has 1,000 families of each design; here some are simulated again, with fewer.
"""

import itertools
import json

import numpy as np
import pytest
from scipy import stats

from attribution_benchmarks.report.significance import MARGIN, too_few_networks
from attribution_benchmarks.stats import correlation
from tools.docs import simulate_statistics
from tools.docs.simulate_statistics import KINDS, NETWORKS, SIZES, marks, simulate, simulate_rate

RECORDED = json.loads(simulate_statistics.FILE.read_text())
PAGE = simulate_statistics.FILE.with_name("statistics.md").read_text("utf-8")

TEXT = " ".join(PAGE.split())


def noise_of(share, count):
    """Three standard errors of a share found in so many simulations."""
    return 3 * np.sqrt(share * (1 - share) / count)


@pytest.mark.parametrize("networks", [1, 3, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_recorded_simulations_can_be_repeated(kind, networks):
    (row, *_) = [
        row for row in RECORDED["means"]
        if (row["kind"], row["networks"], row["members"]) == (kind, networks, 1) and row["ratio"] in (0, 3)
    ]  # fmt: skip
    for n, (coverage, wrong) in zip(SIZES, row["found"], strict=True):
        found = simulate(kind, n, networks, row["ratio"], families=60)
        assert found[0] == pytest.approx(coverage, abs=noise_of(0.05, 240))  # half of the variance is common
        assert found[1] == pytest.approx(wrong, abs=noise_of(max(wrong, 0.05), 60))


def test_several_networks_hold_the_level_whatever_the_distribution():
    for row in RECORDED["means"]:
        for coverage, wrong in row["found"]:
            if row["networks"] > 1:
                assert coverage >= 0.94 and wrong <= 0.06, row
            if row["kind"] in ("normal", "ties", "gains"):
                assert coverage >= 0.93 and wrong <= 0.06, row


def test_one_network_is_deceived_by_rare_large_losses_that_few_inputs_do_not_show():
    """The known limit: what a sample does not contain no test sees."""
    alone = {row["kind"]: row["found"] for row in RECORDED["means"] if row["networks"] == row["members"] == 1}
    for kind in ("losses", "large losses", "rare losses"):
        wrong = [share for _, share in alone[kind]]
        assert wrong == sorted(wrong, reverse=True) and wrong[-1] <= 0.06
    assert alone["rare losses"][0][1] > 0.2


def test_intervals_of_rates_cover_the_truth():
    for row in RECORDED["rates"]:
        assert min(row["found"]) >= 0.95 - noise_of(0.05, RECORDED["families"])
    assert simulate_rate(0.98, 60, 5, 200) >= 0.95 - noise_of(0.05, 200)
    assert simulate_rate(0.5, 15, 1, 200) >= 0.95 - noise_of(0.05, 200)


def test_repeated_looks_find_too_much():
    assert RECORDED["looks"] > 0.15
    assert f"find a difference in {100 * RECORDED['looks']:.0f} % of the" in " ".join(PAGE.split())


def test_the_page_has_the_recorded_table_and_names_the_cells_above_the_level():
    rows = simulate_statistics.table(RECORDED).splitlines()
    assert [row for row in rows[2:] if row not in PAGE] == []
    made = [cell for row in rows[2:] for cell in row.split(" | ")[3:] if "too few" not in cell]
    above = [wrong for cell in made if (wrong := float(cell.rstrip(" |").split(" / ")[1])) > 0.05]
    assert max(above) <= 0.06 and len(made) == len(RECORDED["means"]) * len(SIZES) - 2 * 8
    assert f"Of the other cells two exceed 0.05, with {above[0]:.3f} and {above[1]:.3f}." in TEXT and len(above) == 2


def test_the_limits_name_what_rarer_losses_do():
    (of_60, of_200), (rarer_60, rarer_200) = ([wrong for _, wrong in row["found"]] for row in RECORDED["rarer"])
    assert [row["share"] for row in RECORDED["rarer"]] == [0.05, 0.02]
    assert f"5 % of the inputs, {of_60:.3f} of the families have a wrong claim on 60 inputs and {of_200:.3f} on" in TEXT
    assert f"losses on 2 %, {rarer_60:.3f} and {rarer_200:.3f}." in TEXT
    assert simulate(0.02, 60, 1, 0, families=60)[1] == pytest.approx(rarer_60, abs=noise_of(rarer_60, 60))


def test_marks_hold_the_level_in_every_cell_or_are_withheld():
    for row in RECORDED["marks"]:
        for networks, (tests, marked) in zip(simulate_statistics.COUNTS, row["found"], strict=True):
            assert marked <= 0.06 and (marked == 0 or not too_few_networks(networks, simulate_statistics.METHODS)), row
            assert tests >= marked
    assert {row["kind"] for row in RECORDED["marks"]} == NETWORKS.keys()
    (five,) = [row["found"] for row in RECORDED["marks"] if row["kind"] == "one in five fails"]
    before = [tests for tests, _ in five]
    assert f"Without the additional network, {100 * min(before):.0f} to {100 * max(before):.0f} %" in TEXT


def test_recorded_marks_can_be_repeated():
    count = 30
    for kind, column in (("normal", 3), ("one in five fails", 2)):
        (row,) = [row for row in RECORDED["marks"] if row["kind"] == kind]
        cells = [
            marks(kind, simulate_statistics.COUNTS[column], *cell, MARGIN, count) for cell in simulate_statistics.CELLS
        ]
        for found, recorded in zip(np.max(cells, axis=0), row["found"][column], strict=True):
            assert found == pytest.approx(recorded, abs=noise_of(max(recorded, 0.05), count) + 0.05)


def test_a_mark_has_power_from_ten_networks_on_and_ranges_cover_ranks():
    power = {row["share"]: row["found"] for row in RECORDED["power"]}
    assert power[0.4][2][1] > 0.9 and power[0.2][3][1] > 0.99 and power[0.4][1][1] == 0
    assert min(value for row in RECORDED["ranks"] for value in row["found"]) >= 0.95


def test_the_page_has_the_tables_of_marks():
    for table in (simulate_statistics.marks_table(RECORDED), simulate_statistics.power_table(RECORDED)):
        assert table.rstrip("\n") in PAGE


@pytest.mark.parametrize("families", [np.arange(15), np.repeat(np.arange(7), [5, 4, 2, 1, 1, 1, 1])])
@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_intervals_of_kendalls_w_cover_that_of_all_methods(families, rho):
    generator = np.random.default_rng((len(set(families)), int(10 * rho)))
    judges, count = 3, families.max() + 1
    truth = (1 + (judges - 1) * 6 / np.pi * np.arcsin(rho / 2)) / judges
    covered = []
    for _ in range(250):
        ideas, own = (
            np.sqrt(rho) * generator.normal(size=(size, 1)) + np.sqrt(1 - rho) * generator.normal(size=(size, judges))
            for size in (count, 15)
        )
        scores = ideas if count == 15 else np.sqrt(0.9) * ideas[families] + np.sqrt(0.1) * own
        found = correlation.kendalls_w(scores, permutations=1, families=families)
        covered.append(found.low <= truth <= found.high)
    assert np.mean(covered) >= 0.95 - (0.02 if count == 15 else 0.05) - noise_of(0.05, 250)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 7])
def test_tau_by_chance_is_the_smallest_that_covers_95_percent_of_all_orders(n):
    orders = list(itertools.permutations(range(n)))
    taus = np.abs([stats.kendalltau(range(n), order).statistic for order in orders])
    for judges, seed in ((2, 0), (3, 1)):
        found = correlation.agreement_by_chance(n, judges, seed=seed).tau
        assert np.mean(taus <= found + 1e-9) >= 0.95 > np.mean(taus < found - 1e-9)
    assert n != 5 or found == pytest.approx(0.8)


def test_agreement_by_chance_is_that_of_unrelated_rankings():
    """Of two rankings W is (1 + Spearman) / 2; of many methods Spearman's quantile is that of a normal distribution."""
    found = correlation.agreement_by_chance(60, 2)
    assert found.w == pytest.approx((1 + 1.645 / np.sqrt(59)) / 2, abs=0.01)
    assert found.tau == pytest.approx(1.96 * np.sqrt(2 * (2 * 60 + 5) / (9 * 60 * 59)), rel=0.1)
    assert found.power > 0.95 and correlation.agreement_by_chance(5, 3, 0.0).power == pytest.approx(0.05, abs=0.02)
    assert np.isnan(correlation.agreement_by_chance(1, 3)).all()
