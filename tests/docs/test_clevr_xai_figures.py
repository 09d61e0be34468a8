"""CLEVR-XAI's figures in docs/results.md are those of the CSV files beside it and of the networks' cards."""

import csv
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGE = (DOCS / "results.md").read_text("utf-8")
RESULTS = " ".join(PAGE.split())
NETWORKS = ("relation_network", "relation_network_seed1", "relation_network_seed2")


def rows(name, **chosen):
    """Return the rows of a CSV file whose fields have some values."""
    with open(DOCS / name, newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if all(row[field] == value for field, value in chosen.items())]


def simple(network, **more):
    return rows(
        "clevr_xai_scores.csv", questions="simple", subset="all questions", count="39", network=network, metric="mass",
        pooling="l2-norm,sq", **more,
    )  # fmt: skip


def test_the_table_of_simple_questions_is_that_of_the_scores():
    table = PAGE.split("| method | poster, mass |")[1].split("\n\n")[0].splitlines()[2:]
    shown = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    scores = [{row["method"]: row for row in simple(network)} for network in NETWORKS]
    assert [row[0] for row in shown] == list(scores[0]) and len(shown) == 14
    for title, poster, *cells in shown:
        own = [one[title] for one in scores]
        assert poster == (own[0]["poster"] or "–")
        assert cells == [f"{row['mean']} ({row['low']}–{row['high']})" for row in own]


def test_the_masses_with_300_samples_are_means_over_the_networks():
    means = [
        sum(float(row["mean"]) for network in NETWORKS for row in simple(network, method=name)) / 3
        for name in ("SmoothGrad", "VarGrad")
    ]
    smooth, var = (f"{mean:.2f}" for mean in means)
    assert f"with the paper's 300, their mass on the simple questions is {smooth} and {var}" in RESULTS


def test_the_overview_says_what_is_left_for_a_wrong_class():
    """The least and the largest share of the mass accuracy of three methods."""
    methods = ("LRP (CLEVR-XAI)", "Excitation Backprop", "Guided Backprop")
    shares = [
        round(float(row["share_percent"]))
        for row in rows("baseline_shares.csv", baseline="wrong class")
        if row["method"] in methods and row["column"].startswith("mass")
    ]
    assert len(shares) == 6
    assert (
        "For a wrong class LRP (CLEVR-XAI), Excitation Backprop and Guided Backprop keep "
        f"{min(shares)} to {max(shares)} % of their mass accuracy" in RESULTS
    )


@pytest.mark.parametrize("network", NETWORKS)
def test_the_overview_of_results_has_the_networks_accuracy_of_its_card(network):
    card = (ROOT / "saved_models" / "clevr_xai" / network / "MODEL_CARD.md").read_text("utf-8")
    simple, complex_ = (
        re.search(rf"^\| {kind}, official wording \| ([\d.]+) \|", card, re.MULTILINE)[1]
        for kind in ("simple", "complex")
    )
    link = RESULTS.index(f"(`saved_models/clevr_xai/{network}/MODEL_CARD.md`)")
    said = RESULTS[RESULTS.rindex("answers", 0, link) : link]
    assert re.match(rf"answers {simple} (% of simple )?and {complex_} %", said)
