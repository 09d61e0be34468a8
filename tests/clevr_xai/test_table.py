"""Rows, intervals, subsets and tables, from numbers made up."""

import dataclasses

import numpy as np
import pytest

from attribution.errors import BadInput
from attribution_benchmarks.core.batch import MapSource
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.stats import correlation, statistics
from clevr_xai import _commentary, methods, table
from clevr_xai.answering import Measured
from clevr_xai.metrics import METRICS, POOLINGS, subset_members

N = 12
LABELS = (
    *(MapSource(name) for name in methods.TITLES),
    MapSource("gradient", "wrong_class"),
    MapSource("grad_cam", "wrong_class"),
    MapSource(control="uniform"),
    MapSource(control="edge_detector"),
)
MASS, SQUARED = list(METRICS).index("mass"), list(POOLINGS).index("l2-norm,sq")
PLACE = (0, MASS, SQUARED)
OTHER_PATHS = ("integrated_gradients_gray", "integrated_gradients_median")
PAPER = {name: table.poster_figure(name, "mass", "simple", "single_object", "all").mean for name in methods.TITLES}


def made_up(**changes):
    """Return numbers of twelve questions on four images; the eleven methods lie where the poster has them."""
    generator = np.random.default_rng(0)
    scores = {}
    for label in LABELS:
        level = 0.3 if label.control else PAPER[label.method]
        scores[label] = np.clip(level + 0.1 * generator.normal(size=(N, 2, len(METRICS), len(POOLINGS))), 0, 1)
    scores[MapSource("grad_cam", "wrong_class")][:3] = np.nan
    right = np.array([True] * 10 + [False] * 2)
    for one in scores.values():
        one[~right] = np.nan
    fields = {
        "kind": "simple",
        "ground_truths": ("single_object", "all_objects"),
        "rows": np.arange(N),
        "indices": np.arange(100, 100 + N),
        "images": [f"{number // 3}.png" for number in range(N)],
        "right": right,
        "confidence": np.linspace(0.99998, 1, N),
        "pixels": {"single_object": np.array([0, *range(500, 500 + 100 * (N - 1), 100)]), "all_objects": np.full(N, 5)},
        "fingerprint": "f",
        "sources": LABELS,
        "scores": scores.__getitem__,
    }
    return Measured(**{**fields, **changes})


@pytest.fixture(scope="module")
def measured():
    return made_up()


@pytest.fixture(scope="module")
def rows(measured):
    return table.long_rows(measured, ["single_object"], ["mass", "rank"])


def find(rows, **where):
    return [row for row in rows if all(row.get(key) == value for key, value in where.items())]


def test_who_belongs_to_which_subset(measured):
    everyone = subset_members(measured, "all", "single_object", 0.99999, 1000)
    assert everyone.tolist() == [False] + [True] * 9 + [False] * 2
    confident = subset_members(measured, "confident", "single_object", 0.99999, 1000)
    assert (confident == everyone & (measured.confidence > 0.99999)).all() and 0 < confident.sum() < 9
    at = subset_members(measured, "confident", "single_object", measured.confidence[3], 1000)
    assert np.flatnonzero(at).tolist() == [4, 5, 6, 7, 8, 9]  # a softmax of the bound is not above it
    large = subset_members(measured, "large_mask", "single_object", 0.99999, 1000)
    assert np.flatnonzero(large).tolist() == [7, 8, 9]  # 1,000 pixels are not more than 1,000
    assert subset_members(made_up(confidence=None), "confident", "single_object", 0.9, 1000) is None


def test_a_row_for_every_method_metric_pooling_and_subset(measured, rows):
    assert len(rows) == len(LABELS) * 2 * 10 * 3
    keys = [(r["method"], r["metric"], r["pooling"], r["subset"]) for r in rows]
    assert len(set(keys)) == len(rows)
    (row,) = find(rows, method="gradient", metric="mass", pooling="l2-norm,sq", subset="all")
    values = measured.scores(MapSource("gradient"))[1:10, 0, MASS, SQUARED]
    assert (row["n"], row["undefined"], row["answered_wrongly"], row["without_mask"]) == (9, 0, 2, 1)
    assert row["value"] == row["mean"] == values.mean() and row["std"] == values.std()
    assert (row["median"], row["min"], row["max"]) == (np.median(values), values.min(), values.max())
    assert (row["p20"], row["p80"]) == tuple(np.percentile(values, [20, 80]))
    assert (row["paper"], row["paper_std"], row["paper_median"]) == (0.49, 0.35, 0.49)
    (row,) = find(rows, method="grad_cam/wrong_class", metric="mass", pooling="l2-norm,sq", subset="all")
    assert (row["n"], row["undefined"], row["zero_maps"], row["kind"]) == (9, 0, 2, "control")
    assert (row["of"], row["control"], row["paper"]) == ("grad_cam", "wrong_class", None)


def test_the_interval_draws_images(measured, rows):
    values = measured.scores(MapSource("gradient"))[:, 0, MASS, SQUARED]
    expected = statistics.mean_interval(values[1:10], clusters=list("aabbbcccd"))
    (row,) = find(rows, method="gradient", metric="mass", pooling="l2-norm,sq", subset="all")
    np.testing.assert_allclose([row["low"], row["high"]], [expected.low, expected.high], rtol=1e-12)


def test_the_posters_figures_stand_where_they_belong_and_nowhere_else(measured, rows):
    for subset, column in (
        ("all", (0.85, 0.17, 0.91)),
        ("confident", (0.9, 0.09, 0.93)),
        ("large_mask", (0.91, 0.09, 0.94)),
    ):
        (row,) = find(rows, method="lrp_clevr_xai", metric="mass", pooling="l2-norm,sq", subset=subset)
        assert (row["paper"], row["paper_std"], row["paper_median"]) == column
    assert {(r["metric"], r["pooling"], r["kind"]) for r in rows if r["paper"] is not None} == {
        ("mass", "l2-norm,sq", "method")
    }
    other_bounds = table.long_rows(measured, ["single_object"], ["mass"], confidence=0.9, pixels=500)
    assert {r["subset"] for r in other_bounds if r["paper"] is not None} == {"all"}
    other_truth = table.long_rows(measured, ["all_objects"], ["mass"])
    assert not [r for r in other_truth if r["paper"] is not None]
    unknown = table.long_rows(made_up(kind="complex"), ["single_object"], ["mass"])
    assert not [r for r in unknown if r["paper"] is not None]


def test_a_subset_without_questions_says_so():
    found = table.long_rows(made_up(), ["single_object"], ["mass"], ["large_mask"], pixels=9999)
    assert {(r["n"], r["undefined"], r["reason"]) for r in found} == {(0, 0, "no question belongs to the subset")}
    scores = {label: np.full((N, 2, 2, 10), np.nan) for label in LABELS}
    nothing = made_up(scores=scores.__getitem__, degenerate_maps="drop")
    found = table.long_rows(nothing, ["single_object"], ["mass"], ["all"])
    assert {(r["n"], r["undefined"], r["reason"]) for r in found} == {(0, 9, "all 9 maps are zero everywhere")}
    assert "–" in table.text(found) and "Gradient" in table.text(found)


def test_a_table_of_no_question_is_its_title():
    found = table.long_rows(made_up(), ["single_object"], ["mass", "rank"], ["large_mask"], pixels=9999)
    assert table.text(found, bounds=(0.9, 9999)) == (
        "Skipped, because no question belongs to them: mask > 9,999 px (ground truth Single Object).\n"
    )


def test_scores_of_questions_pair_the_methods(measured):
    mass, rank = table.input_scores(measured, ["single_object"], ["mass", "rank"])
    assert mass.where == {"metric": "mass", "questions": "simple", "ground_truth": "single_object",
                          "pooling": "l2-norm,sq", "subset": "all"}  # fmt: skip
    assert rank.where["pooling"] == "max-norm" and mass.inputs == [str(100 + n) for n in range(1, 10)]
    assert mass.clusters == [f"{n // 3}.png" for n in range(1, 10)]
    np.testing.assert_array_equal(
        mass.values["gradient"], measured.scores(MapSource("gradient"))[1:10, 0, MASS, SQUARED]
    )


def test_the_tables_show_figures_controls_and_the_poster(rows):
    text = table.text(rows, ["l1-norm", "max-norm"])
    titles = [line for line in text.splitlines() if line.startswith("Relevance")]
    assert len(titles) == 2 * (3 + 1)
    assert titles[0].endswith("ground truth Single Object, pooling l2-norm,sq, all questions: 9 questions")
    assert "softmax > 0.99999: " in titles[1] and titles[2].endswith("mask > 1,000 px: 3 questions")
    (line,) = [line for line in text.split("Relevance")[1].splitlines() if line.startswith("Vanilla Gradient  ")]
    (as_asked,) = find(rows, method="gradient", metric="mass", pooling="l2-norm,sq", subset="all")
    (wrong,) = find(rows, method="gradient/wrong_class", metric="mass", pooling="l2-norm,sq", subset="all")
    shown = [f"{as_asked['mean']:.2f} ({as_asked['std']:.2f}) {as_asked['median']:.2f}", f"{wrong['mean']:.2f}"]
    assert all(figure in line for figure in (*shown, "0.49 (0.35) 0.49"))
    assert "counted as the uniform map: Grad-CAM (wrong class) 2." in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 120
    markdown = table.text(rows, markdown=True)
    assert "| Vanilla Gradient | " in markdown and "---" in markdown


def test_a_map_of_zeros_counts_as_the_uniform_map_or_is_left_out(measured):
    label = MapSource("grad_cam", "wrong_class")
    counted = measured.counted(label)[(slice(None), *PLACE)]
    sizes = measured.pixels["single_object"] / 128**2
    assert np.isnan(counted[0]) and np.isnan(counted[10:]).all()  # no mask; wrong answers
    np.testing.assert_array_equal(counted[1:3], sizes[1:3])
    np.testing.assert_array_equal(counted[3:10], measured.scores(label)[(slice(3, 10), *PLACE)])
    np.testing.assert_array_equal(
        measured.counted(MapSource("gradient"))[1:10], measured.scores(MapSource("gradient"))[1:10]
    )
    left_out = made_up(degenerate_maps="drop")
    np.testing.assert_array_equal(left_out.counted(label), left_out.scores(label))
    rows = table.long_rows(left_out, ["single_object"], ["mass"])
    (row,) = find(rows, method=label.name, pooling="l2-norm,sq", subset="all")
    assert (row["n"], row["undefined"], row["zero_maps"]) == (7, 2, 2)
    text = " ".join(table.text(rows).split())
    assert "left out: Grad-CAM (wrong class) 2." in text and "uniform map:" not in text


def test_orders_are_over_the_questions_that_all_methods_have():
    """A method that is right where it points and points nowhere else would win by leaving out what it cannot do."""
    scores = {label: np.full((N, 2, 2, 10), 0.5) for label in LABELS}
    for number, name in enumerate(PAPER):
        scores[MapSource(name)] = np.full((N, 2, 2, 10), 0.9 - 0.05 * number)
        scores[MapSource(name)][:3] -= 0.3 + 0.01 * number
    scores[MapSource("deconvnet")][:3] = np.nan
    notes = {}
    for choice in ("drop", "uniform"):
        measured = made_up(scores=scores.__getitem__, degenerate_maps=choice)
        notes[choice] = " ".join(_commentary.findings(measured, table.long_rows(measured, ["single_object"], ["mass"])))
    assert "below are over the 7 of 9 questions for which every method has a value" in notes["drop"]
    assert "questions for which every method" not in notes["uniform"]
    order = [0.9 - 0.05 * number for number, name in enumerate(PAPER) if name not in OTHER_PATHS]
    tau = correlation.kendall_tau(order, [figure for name, figure in PAPER.items() if name not in OTHER_PATHS])
    assert f"with IG from black: Kendall's tau {tau:.2f}" in notes["drop"]


def test_a_metric_of_all_benchmarks_has_rows_and_a_table_of_its_own():
    values = np.arange(N) / 1000
    values[3] = np.nan
    columns = {
        MapSource("gradient"): values,
        MapSource("gradient", "wrong_class"): 2 * values,
        MapSource(control="uniform"): None,
    }
    measured = made_up(sources=tuple(columns), shared={"own_metric": columns.__getitem__})
    metrics = {"own_metric": (metric := Metric("own_metric", "Own metric"))}
    rows = table.shared_rows(measured, "single_object", metrics)
    assert [row["method"] for row in rows] == ["gradient", "gradient/wrong_class"]  # the metric is not of controls
    expected = np.array([1, 2, *range(4, 10)]) / 1000  # without the question that has no mask, and wrong answers
    interval = statistics.mean_interval(expected, clusters=list("aabbcccd"))
    row = rows[0]
    assert (row["n"], row["undefined"], row["without_mask"], row["answered_wrongly"]) == (8, 1, 1, 2)
    assert row["value"] == row["mean"] == expected.mean() and row["std"] == expected.std()
    np.testing.assert_allclose([row["low"], row["high"]], [interval.low, interval.high], rtol=1e-12)
    assert (row["ground_truth"], row["pooling"], row["subset"]) == ("single_object", "", "all")
    text = table.text(rows, shared=metrics)
    assert text.startswith("Own metric, ground truth Single Object: 9 questions\n") and " 0.005 (0.003) " in text
    assert "Undefined and left out: Vanilla Gradient 1, Vanilla Gradient (wrong class) 1." in text
    (group,) = table.input_scores(measured, ["single_object"], [])
    assert group.where["metric"] == "own_metric" and list(group.values) == ["gradient", "gradient/wrong_class"]
    np.testing.assert_array_equal(group.values["gradient"], values[1:10])
    # Of any range, where an accuracy's interval ends at 0 and 1.
    far = made_up(sources=tuple(columns), shared={"own_metric": lambda label: 100 * values - 7})
    (row, *_) = table.shared_rows(far, "single_object", metrics)
    np.testing.assert_allclose([row["low"], row["high"]], [100 * interval.low - 7, 100 * interval.high - 7], rtol=1e-9)
    nothing = made_up(sources=(MapSource("gradient"),), shared={"own_metric": lambda label: np.full(N, np.nan)})
    (row,) = table.shared_rows(nothing, "single_object", metrics)
    assert (row["n"], row["undefined"], row["reason"]) == (0, 9, "undefined for every question")
    assert "left out: Vanilla Gradient 9." in table.text([row], shared=metrics)
    rate = dataclasses.replace(metric, rate=True)
    hits = made_up(sources=tuple(columns), shared={"own_metric": lambda label: np.ones(N)})
    (row, *_) = table.shared_rows(hits, "single_object", {"own_metric": rate})
    assert 0 < row["low"] < row["value"] == row["high"] == 1


def test_what_the_numbers_say(measured, rows):
    notes = " ".join(_commentary.findings(measured, rows))
    assert "Order of the 11 methods" in notes
    assert all(f"with {methods.title(name)}: Kendall's tau " in notes for name in methods.BASELINES)
    assert "misses" not in notes  # no completeness error was measured
    assert "No better than an edge detector, which uses no network, in mass accuracy: Deconvnet, Grad-CAM." in notes
    assert "under the control 'wrong class': Grad-CAM." in notes
    scores = {label: 1 - measured.scores(label) for label in LABELS}
    turned = made_up(gaps={"integrated_gradients_gray": np.full(N, 0.02)}, scores=scores.__getitem__)
    found = table.long_rows(turned, ["single_object"], ["mass"])
    assert {row["method"]: row["gap"] for row in found if "gap" in row} == {"integrated_gradients_gray": 0.02}
    assert " 2.0 " in next(line for line in table.text(found).splitlines() if line.startswith("IG from gray"))
    notes = " ".join(_commentary.findings(turned, found))
    assert "misses f(image) - f(baseline) by this share of it: IG from gray 2 % (median" in notes
    assert "the poster's one row is compared with each of ours" in notes
    assert "correlation -0.9" in notes or "correlation -1.0" in notes
    assert _commentary.findings(measured, table.long_rows(measured, ["all_objects"], ["rank"])) == []


def test_settings_of_the_methods():
    chosen = methods.settings(list(methods.TITLES), steps=7, samples=9, noise=0.1, batch_norm="fold", layer="conv3")
    parameters = {name: method.parameters(overrides) for name, (method, overrides) in chosen.items()}
    assert list(chosen) == list(methods.TITLES) and set(PAPER) == set(chosen)
    assert {name: parameters[name]["baseline"] for name in methods.BASELINES} == methods.BASELINES
    assert {parameters[name]["points"] for name in methods.BASELINES} == {8}
    assert parameters["smoothgrad"]["samples"] == parameters["vargrad"]["samples"] == 9
    assert parameters["vargrad"]["noise"] == 0.1 and parameters["grad_cam"]["layer"] == "conv3"
    assert parameters["lrp_clevr_xai"]["batch_norm"] == parameters["excitation_backprop"]["batch_norm"] == "fold"
    defaults = methods.settings(["vargrad", "integrated_gradients", "grad_cam"])
    assert defaults["vargrad"][1] == {"samples": 300, "noise": 0.05}
    assert defaults["integrated_gradients"][1] == {"points": 301, "baseline": 0.0} and defaults["grad_cam"][1] == {}
    (refined,) = methods.settings(["integrated_gradients_gray"], tolerance=0.02).values()
    assert refined[0].name == "integrated_gradients"
    assert refined[1] == {"points": 301, "baseline": 0.5, "tolerance": 0.02}
    with pytest.raises(BadInput, match="needs a live Keras network of one input"):
        methods.settings(["tf_keras_vis.gradient"])
    with pytest.raises(BadInput, match="no method 'lrp'; did you mean"):
        methods.settings(["lrp"])
    with pytest.raises(BadInput, match="no batch_norm 'drop'; choose one of 'pass', 'fold'"):
        methods.settings([], batch_norm="drop")
    with pytest.raises(BadInput, match="no method 'integrated_gradients_white'"):
        methods.settings(["integrated_gradients_white"])
