"""A custom method minus its relatives: signs, intervals, verdicts, and who they are."""

import numpy as np
import pytest

from attribution_benchmarks.report import page, significance
from attribution_benchmarks.report.formatting import Names
from attribution_benchmarks.stats.statistics import compare

FAMILIES = {"good": "shared", "twin": "shared"}


def lines(found):
    return {(panel["title"], line["title"]): line for panel in found["panels"] for line in panel["lines"]}


def test_relatives_are_the_parents_the_family_and_the_strongest_baseline(built, judged):
    found = page.forest("twin", built, judged, Names({}, ["twin"], FAMILIES), ["best"])
    assert found["related"]
    shown = [[line["title"] for line in panel["lines"]] for panel in found["panels"]]
    assert shown == [["best", "good", "random"]] * 3  # of BIM it has no score
    verdicts = {key: line["verdict"] for key, line in lines(found).items()}
    assert verdicts["SVEA ROE test %", "best"] == verdicts["SVEA Drop %", "best"] == "worse"
    assert verdicts["SVEA ROE test %", "random"] == verdicts["SVEA Drop %", "random"] == "better"
    assert found["sentences"][0] == "Against best: worse on 3 metrics."
    assert found["sentences"][-1] == "Against the strongest baseline: better on 3 metrics."


def test_differences_are_those_of_a_paired_test_and_positive_where_the_method_is_better(built, judged, groups):
    found = lines(page.forest("twin", built, judged, Names({}, ["twin"], FAMILIES)))
    for title, group, sign in (("SVEA ROE test %", groups["svea"][0], 1), ("SVEA Drop %", groups["svea"][1], -1)):
        for other in ("good", "random"):
            test = compare(np.asarray(group.values["twin"]), np.asarray(group.values[other]))
            ends = sorted((sign * test.low, sign * test.high))
            line = found[title, other]
            shown = [float(text.replace("−", "-")) for text in (line["text"], *line["interval"].split(" to "))]
            assert shown == pytest.approx([sign * test.difference, *ends], abs=0.051)


def test_without_relatives_it_is_compared_with_the_best_method(built, judged):
    found = page.forest("bad", built, judged, Names({}, ["bad"]))
    assert not found["related"]
    assert {line["title"] for line in lines(found).values()} == {"best", "random"}
    assert found["sentences"][0].startswith("Against the best other method: worse on ")


def test_too_few_inputs_give_no_plot(built, groups):
    few = {
        name: [significance.InputScores(one.where, one.inputs[:6], {m: v[:6] for m, v in one.values.items()})
               for one in members]
        for name, members in groups.items()
    }  # fmt: skip
    assert page.forest("twin", built, significance.compare_columns(built, few), Names({}, ["twin"])) is None
