"""The matrix shows what the documents say, ranks it, and says why a place is blank."""

import copy
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from attribution_benchmarks.core import registry
from attribution_benchmarks.core.controls import Control
from attribution_benchmarks.core.definition import ORACLE, TRIVIAL_MAX, Benchmark, Column
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.report import matrix, publish, significance
from attribution_benchmarks.report.formatting import Names

KEYS = ["svea roe_test", "svea drop", "bim mcs", "clevr_xai mass simple"]


def test_every_value_is_that_of_its_document(built, documents):
    assert [column.key for column in built.columns] == KEYS
    by_benchmark = {document["benchmark"]: document["rows"] for document in documents}
    for column in built.columns:
        for row in filter(column.takes, by_benchmark[column.benchmark]):
            assert built.cells[row["method"], column.key] == row
    assert len(built.cells) == sum(map(len, by_benchmark.values()))


def test_ranks_follow_the_metrics_direction_and_leave_controls_out(built):
    for column in built.columns:
        order = sorted((built.ranks[place], place[0]) for place in built.ranks if place[1] == column.key)
        assert order[0][1] == "best" and order[-1][1] == "bad"
        scores = [built.cells[name, column.key]["value"] for _, name in order]
        assert scores == sorted(scores, reverse=column.higher_is_better)
    assert {name for name, _ in built.ranks} == {"best", "good", "twin", "bad"}
    assert set(built.controls) == {"random", "template_position"}


def test_equal_scores_share_their_rank(documents, columns):
    tied = copy.deepcopy(documents[:1])
    for row in tied[0]["rows"]:
        if row["method"] in ("good", "twin"):
            row["value"] = 0.7
    found = matrix.build(tied, columns)
    assert found.ranks["good", KEYS[0]] == found.ranks["twin", KEYS[0]] == 2.5


def test_methods_of_all_columns_come_first_from_best_to_worst(built):
    assert built.common == ("best", "good", "bad")
    assert built.methods == ("best", "good", "bad", "twin")


def test_blanks_have_their_reason(built, documents, columns):
    assert built.blanks == {("twin", "bim mcs"): "too slow"}
    assert matrix.build(documents, columns).blanks == {("twin", "bim mcs"): matrix.NOT_SCORED}
    undefined = copy.deepcopy(documents)
    undefined[1]["rows"][0].update(value=None, reason="no image counts")
    found = matrix.build(undefined, columns)
    assert found.blanks["best", "bim mcs"] == "no image counts"
    assert "best" not in found.common and ("best", "bim mcs") not in found.ranks


def test_what_has_fewer_inputs_than_the_others_is_not_ranked_among_them(documents, columns):
    fewer = copy.deepcopy(documents[:1])
    row = next(row for row in fewer[0]["rows"] if row["method"] == "good" and row["metric"] == "roe_test")
    most = row["n"]
    row["n"] -= 1
    found = matrix.build(fewer, columns)
    assert found.blanks == {("good", KEYS[0]): f"has a value for {most - 1:,} of {most:,} inputs alone"}
    ranked = {name: rank for (name, key), rank in found.ranks.items() if key == KEYS[0]}
    assert sorted(ranked.values()) == [1, 2, 3] and "good" not in ranked and "good" not in found.common


def test_two_rows_of_one_place_are_refused(documents, columns):
    with pytest.raises(ValueError, match="two rows of 'best' belong"):
        matrix.build([*documents, documents[0]], columns)


def test_nothing_scored_is_an_empty_matrix(columns):
    empty = matrix.build([], columns)
    assert (empty.columns, empty.methods, empty.common) == ((), (), ())
    assert np.isnan(matrix.agreement(empty).overall.w)


def test_agreement_is_over_common_methods_and_turns_the_lower_is_better_columns(built):
    found = matrix.agreement(built)
    assert (found.overall.w, found.overall.judges, found.overall.methods) == (pytest.approx(1.0), 4, 3)
    assert (found.between.w, found.between.judges) == (pytest.approx(1.0), 3)
    assert found.within["SVEA"].w == pytest.approx(1.0)
    assert np.isnan(found.within["BIM"].w)  # one column agrees with nobody


def test_between_benchmarks_each_counts_once(documents, columns):
    """Two columns of one benchmark that say the same do not outvote another benchmark."""
    turned = copy.deepcopy([documents[0], documents[1]])
    for row in turned[1]["rows"]:
        row["value"] = -row["value"]
    found = matrix.agreement(matrix.build(turned, columns))
    assert found.between.w == pytest.approx(0.0)
    assert found.overall.w > 0.1


def test_correlations_are_scipys_over_shared_methods(built):
    found = matrix.agreement(built)
    scores = built.goodness(built.methods)
    assert found.counts[0, 2] == 3 and found.counts[0, 1] == 4
    assert found.correlations[0, 1] == pytest.approx(stats.spearmanr(scores[:, 0], scores[:, 1]).statistic)


def test_the_verdicts_know_better_level_and_not_above(built, judged):
    verdict = judged["svea roe_test"]
    assert verdict.tied_with_best() == ["best"]
    assert set(verdict.beaten_by("best")) == {"good", "twin", "bad"}
    assert set(verdict.beaten_by("good")) == {"bad"}  # its twin has the same shift
    assert verdict.fails_controls("good") == []  # the template's position is a bound, no control to beat
    assert verdict.fails_controls("bad") == ["random"]


def test_a_control_set_aside_is_shown_and_tested_by_nobody(documents, groups, columns):
    aside = [replace(column, excluded={"random": TRIVIAL_MAX}) for column in columns]
    found = matrix.build(documents, aside)
    assert ("random", "bim mcs") in found.cells
    by_key = significance.compare_columns(found, groups)
    assert by_key["bim mcs"].controls == [] and by_key["bim mcs"].fails_controls("bad") == []
    assert by_key["bim mcs"].marks("bad") == ""
    rows = [row for row in publish.long_rows(found) if row["method"] == "random"]
    assert {row["aside"] for row in rows} == {"ceiling"}


def test_bounds_and_ceilings_come_from_the_controls_of_a_definition():
    controls = (
        Control("truth", "Truth", oracle=True),
        Control("still", "Still", trivial_max_of=("change",)),
        Control("noise", "Noise"),
    )
    toy = Benchmark("toy", "Toy", metrics=(Metric("change", "Change"), Metric("place", "Place")), controls=controls)
    change, place = toy.matrix_columns()
    assert change.excluded == {"truth": ORACLE, "still": TRIVIAL_MAX} and place.excluded == {"truth": ORACLE}
    chosen = replace(toy, columns=(Column("toy", "change", "Change", "Toy", excluded={"noise": TRIVIAL_MAX}),))
    assert chosen.matrix_columns()[0].excluded == {**change.excluded, "noise": TRIVIAL_MAX}
    aside = {"random": TRIVIAL_MAX, "centre_prior": TRIVIAL_MAX, "ground_truth": ORACLE}
    assert registry.benchmark_named("bim").excluded("iir") == aside


def test_agreement_counts_the_methods_of_one_family_once(built):
    assert matrix.agreement(built).overall.families == len(built.common) == 3
    assert matrix.agreement(built, families={"best": "cam", "good": "cam"}).overall.families == 2


def test_the_verdicts_follow_the_metrics_direction(judged):
    assert list(judged) == KEYS
    for verdict in judged.values():
        assert verdict.fails_controls("bad") == ["random"] and verdict.fails_controls("best") == []
        assert "bad" in verdict.beaten_by("best")


def test_clusters_make_the_tests_of_questions_more_careful(built, groups):
    alone = {"clevr_xai": [replace(group, clusters=None) for group in groups["clevr_xai"]]}
    naive = significance.compare_columns(built, alone)[KEYS[3]]
    honest = significance.compare_columns(built, {"clevr_xai": groups["clevr_xai"]})[KEYS[3]]
    assert [test.difference for test in naive.methods] == pytest.approx([test.difference for test in honest.methods])
    assert [test.low for test in naive.methods] != [test.low for test in honest.methods]


def test_without_scores_of_inputs_there_are_no_verdicts(built):
    assert publish.long_rows(built)[0].keys() & {"better_than", "not_above"} == set()
    assert significance.compare_columns(built, {}) == {}


def test_long_rows_hold_every_place_once(built, judged):
    rows = publish.long_rows(built, judged)
    assert len({(row["method"], row["column"]) for row in rows}) == len(rows) == len(built.cells) + len(built.blanks)
    blank = next(row for row in rows if (row["method"], row["column"]) == ("twin", "bim mcs"))
    assert blank["value"] is None and blank["reason"] == "too slow"


def test_the_wide_table_marks_the_best_and_those_that_beat_no_control(built, judged):
    lines = publish.wide_table(built, judged, Names({"best": "The best"})).splitlines()
    best, bad = (next(line for line in lines if line.startswith(name)) for name in ("The best", "bad"))
    assert best.count("(1)*") == 4 and "†" not in best
    assert bad.count("†") == 4
    truth = next(line for line in lines if line.startswith("template_position"))
    assert truth.count("‡") == 2 and not any("‡" in line for line in lines if not line.startswith("template"))
    assert publish.wide_table(built, judged, Names({}), markdown=True).startswith("| method | SVEA ROE test % |")


def test_tables_of_agreement_show_numbers_and_dashes(built):
    found = matrix.agreement(built)
    text = publish.agreement_table(found)
    assert "between benchmarks" in text and "1.00" in text and "–" in text
    assert "1.00 (4)" in publish.correlation_table(built, found)
    document = publish.agreement_document(built, found)
    assert document["common_methods"] == ["best", "good", "bad"]
    assert document["columns"][3]["questions"] == "simple"
