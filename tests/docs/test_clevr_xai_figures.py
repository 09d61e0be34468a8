"""CLEVR-XAI's figures in docs/results.md are those of its table, and these of the committed networks."""

import json
import pathlib
import re

import pytest

from attribution import model_paths

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = " ".join((ROOT / "docs" / "results.md").read_text("utf-8").split())
PAGE = (ROOT / "docs" / "clevr_xai_table.md").read_text("utf-8")
SECTIONS = dict(zip(re.findall(r"^## (.+)$", PAGE, re.MULTILINE), re.split(r"^## .+$", PAGE, flags=re.MULTILINE)[1:],
                    strict=True))  # fmt: skip
SIMPLE, FEW_SIMPLE, FEW_COMPLEX = SECTIONS


def rows(text, heading):
    """Return name -> cells of the first table after a heading."""
    lines = text[text.index(heading) :].splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("|"))
    table = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip("|").split("|")])
    return {tuple(line[:2]) if heading.startswith("Kendall") else line[0]: line[1:] for line in table[2:]}


def taus(text):
    """Return Kendall's tau with its interval by the orders compared, for mass accuracy."""
    return {orders: cells[-1] for (metric, orders), cells in rows(text, "Kendall's tau").items() if "mass" in metric}


def mean(cell):
    return cell.split()[0]


def test_the_tables_are_of_the_committed_networks():
    (manifest,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    for one in json.loads(manifest)["networks"]:
        ((name, fingerprint),) = one["models"].items()
        assert model_paths.fingerprint(ROOT / name) == fingerprint


def test_the_overview_has_the_figures_of_simple_questions():
    table = rows(SECTIONS[SIMPLE], "### Ground truth Single Object")
    answered, asked = re.search(r"relation_network`, (\d+) of (\d+) questions", SECTIONS[SIMPLE]).groups()
    start = RESULTS.index(f"{answered} correct answers to {asked} simple questions")
    told = RESULTS[start : RESULTS.index("Kendall's tau", start)]
    names = {
        "the gradient": "Vanilla Gradient",
        **{name: name for name in ("Guided Backprop", "Guided Grad-CAM", "SmoothGrad", "VarGrad", "Gradient x Input")},
        **{name: name for name in ("Grad-CAM", "Deconvnet")},
    }
    for said, name in names.items():
        assert f"{said} {mean(table[name][0])} ({table[name][-1]})" in told, name
    lrp, excitation = table["LRP (CLEVR-XAI)"], table["Excitation Backprop"]
    assert f"{mean(lrp[0])} and {mean(excitation[0])} ({lrp[-1]} and {excitation[-1]})" in told
    assert f"from gray puts {mean(table['IG from gray'][0])} of its mass" in told
    assert f"from black {mean(table['IG from black'][0])}" in told
    assert f"an edge detector {mean(table['Edge detector'][0])}" in told
    smooth, var = (sum(float(mean(cell)) for cell in table[name][:3]) / 3 for name in ("SmoothGrad", "VarGrad"))
    assert f"with the paper's 300, their mass on the simple questions is {smooth:.2f} and {var:.2f}" in RESULTS
    assert f"with the paper's 300 its mass is {smooth:.2f}" in " ".join((ROOT / "README.md").read_text("utf-8").split())


def test_the_overview_has_the_agreement_of_networks_and_poster():
    simple = taus(SECTIONS[SIMPLE])
    for network, name in ((1, "default"), (2, "second"), (3, "third")):
        gray, black = (simple[f"network {network} and poster, IG from {path}"] for path in ("gray", "black"))
        assert f"{gray} with Integrated Gradients from gray and {black} from black for the {name} network" in RESULTS
    union = SECTIONS[FEW_COMPLEX][SECTIONS[FEW_COMPLEX].index("### Ground truth Union") :]
    for agreement in (simple["networks 1 and 2"], taus(union)["networks 1 and 2"]):
        assert f"Kendall's tau {agreement}" in RESULTS


def test_the_overview_says_what_is_left_for_a_wrong_class():
    """The least and the largest share of the mass accuracy in its own table."""
    heading = "<details><summary>Its own map for a wrong class"
    table = rows((ROOT / "docs" / "results.md").read_text("utf-8"), heading)
    head = RESULTS[RESULTS.index("| method |", RESULTS.index(heading)) :].split("|")[2:]
    shares = [
        int(table[name][column].split()[0])
        for name in ("LRP (CLEVR-XAI)", "Excitation Backprop", "Guided Backprop")
        for column in (head.index(" mass, s. "), head.index(" mass, c. "))
    ]
    assert (
        "For a wrong class LRP (CLEVR-XAI), Excitation Backprop and Guided Backprop keep "
        f"{min(shares)} to {max(shares)} % of their mass accuracy" in RESULTS
    )


@pytest.mark.parametrize("network", ["relation_network", "relation_network_seed1", "relation_network_seed2"])
def test_the_overview_of_results_has_the_networks_accuracy_of_its_card(network):
    card = (ROOT / "saved_models" / "clevr_xai" / network / "MODEL_CARD.md").read_text("utf-8")
    simple, complex_ = (
        re.search(rf"^\| {kind}, official wording \| ([\d.]+) \|", card, re.MULTILINE)[1]
        for kind in ("simple", "complex")
    )
    link = RESULTS.index(f"(`saved_models/clevr_xai/{network}/MODEL_CARD.md`)")
    said = RESULTS[RESULTS.rindex("answers", 0, link) : link]
    assert re.match(rf"answers {simple} (% of simple )?and {complex_} %", said)
