"""The benchmark: metrics in closed form, and each method's known failure where it should be."""

import json

import numpy as np
import pytest

from attribution import cli
from attribution_benchmarks.cli.benchmark_command import Command
from attribution_benchmarks.core import registry
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.evaluation import load, prepare
from attribution_benchmarks.core.store import ScoreStore
from attribution_benchmarks.exact import definition, metrics, xai_tris, xai_units
from attribution_benchmarks.exact.definition import FEATURES, NAMES


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Return the scores of four inputs of each problem, (method, metric) -> row."""
    return found("exact", tmp_path_factory.mktemp("exact"), f"--num_imgs={4 * len(NAMES)}", "--random_networks=1")


def found(benchmark, folder, *arguments):
    command = Command(registry.benchmark_named(benchmark), benchmark)
    flags = ["score", f"--output={folder / 'scores.json'}", *arguments]
    assert cli.execute(command.main, command.flags, "", flags) == 0
    rows = json.loads((folder / "scores.json").read_text())["rows"]
    return {(row["method"], row["metric"]): row for row in rows}


def test_metrics_by_hand():
    truth, zero = np.array([[2.0, -1.0, 0.0, 0.0]]), np.zeros((1, 4))
    assert metrics.distance(3 * truth, truth) == pytest.approx(0, abs=1e-7)
    assert metrics.distance(-truth, truth) == metrics.distance(zero, truth) == 1
    assert metrics.distance(np.array([[2.0, 0, 0, 0]]), truth) == pytest.approx(1 / np.sqrt(5))
    assert np.isnan(metrics.distance(truth, zero))
    assert metrics.spearman(truth, truth) == pytest.approx(1)
    assert metrics.spearman(-truth, truth) == pytest.approx(-1)
    assert metrics.spearman(np.ones((1, 4)), truth) == 0
    batch = Batch(zero, ["a"], truth={"shapley": truth, "suppressors": np.array([[False, True, False, False]])})
    *_, sign_errors = (metric.measure.function for metric in metrics.OVERALL)
    assert sign_errors(np.array([[5.0, 5.0, 5.0, 5.0]]), batch, None) == 0.5
    assert sign_errors(zero, batch, None) == 1 and sign_errors(truth, batch, None) == 0
    share = metrics.SUPPRESSOR_SHARE.measure.function
    assert share(truth, batch, None) == pytest.approx(1 / 3)
    assert np.isnan(share(truth, Batch(zero, ["a"], truth={"suppressors": zero.astype(bool)}), None))


def test_rounding_orders_no_feature_and_gives_none_a_sign():
    generator = np.random.default_rng(0)
    maps, truth = generator.integers(-3, 4, (2, 500, 12)).astype(float)  # many are equal or 0
    for change in (1e-7, 1e-8):
        noisy = [each + change * generator.normal(size=each.shape) for each in (maps, truth)]
        for metric in metrics.OVERALL[1:]:
            expected, found = (
                metric.measure.function(given, Batch(given, range(500), truth={"shapley": exact}), None)
                for given, exact in ((maps, truth), noisy)
            )
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12, err_msg=metric.name)


@pytest.mark.parametrize("benchmark", [definition.BENCHMARK, xai_units.BENCHMARK, xai_tris.BENCHMARK])
def test_no_output_is_said_to_be_a_right_class(benchmark):
    run = prepare(benchmark, ["gradient"], benchmark.settings(num_imgs=9), store=ScoreStore(None))
    assert load(run).data.targets is not None and not load(run).facts()


def test_inputs_of_a_problem_are_the_same_however_many_are_drawn():
    few, more = definition.examples(9, 0), definition.examples(27, 0)
    places = {name: row for row, name in enumerate(more.names)}
    np.testing.assert_array_equal(few.inputs, more.inputs[[places[name] for name in few.names]])
    assert len(few.names) == len(NAMES) and few.inputs.shape == (len(NAMES), FEATURES)
    assert not np.array_equal(few.inputs, definition.examples(9, 1).inputs)


def test_who_claims_contributions_is_right_on_a_weighted_sum(rows):
    for method in ("gradient_x_input", "integrated_gradients", "deeplift", "lrp_epsilon", "expected_gradients"):
        assert rows[method, "linear"]["value"] < 1e-3, method


def test_the_gradient_sees_nothing_where_the_answer_is_saturated_or_a_step_was_taken(rows):
    assert rows["gradient", "saturation"]["value"] == 1
    assert rows["gradient", "discontinuity"]["value"] > 0.9
    for method in ("integrated_gradients", "deeplift"):
        assert rows[method, "saturation"]["value"] < 0.2


def test_who_lets_only_positive_signals_back_misses_what_cancels(rows):
    for method in ("deconvnet", "lrp_alpha1beta0"):
        assert rows[method, "cancellation"]["value"] > 0.5, method
    for method in ("integrated_gradients", "deeplift", "lrp_epsilon"):
        assert rows[method, "cancellation"]["value"] < 1e-3, method


def test_faithful_methods_mark_suppressors(rows):
    """Who is right about the network is on suppressors with half of the map: the two questions exclude each other."""
    assert rows["deeplift", "suppressor"]["value"] < 1e-3
    assert rows["deeplift", "suppressor_share"]["value"] > 0.3


def test_on_a_network_of_random_weights_every_method_is_far_from_the_truth(rows):
    own = {row["of"]: row["value"] for row in rows.values() if row["metric"] == "distance" and "of" in row}
    assert (
        set(own) == set(definition.METHODS)
        and min(own.values()) > 0.8 > rows["integrated_gradients", "distance"]["value"] + 0.5
    )


def test_controls_are_far_from_the_truth_and_the_best_methods_are_not(rows):
    for metric, better in (("distance", -1), ("rank_correlation", 1), ("sign_errors", -1)):
        for control in ("random", "uniform"):
            assert better * rows["deeplift", metric]["value"] > better * rows[control, metric]["value"]


def scored(benchmark, tmp_path, *arguments):
    rows = found(benchmark, tmp_path, "--random_networks=0", *arguments)
    return {place: row["value"] for place, row in rows.items()}


def test_units_of_behavior_show_known_failures(tmp_path):
    found = scored("xai_units", tmp_path, "--num_imgs=70")
    for problem in (problem.name for problem in xai_units.PROBLEMS):
        assert found["uniform", problem] > 0.5, problem
    assert found["gradient", "shattered_gradients"] > 0.3 > 0.1 > found["integrated_gradients", "shattered_gradients"]
    for method in ("gradient_x_input", "integrated_gradients", "deeplift", "lrp_epsilon"):
        assert found[method, "irrelevant_features"] < 1e-3, method
    assert found["lrp_alpha1beta0", "gated_cancellation"] > 0.3
    assert found["gradient_x_input", "redundancy"] > 0.1 and found["gradient_x_input", "absence"] > 0.1


def test_xai_tris_knows_the_truth_and_the_mask_is_another(tmp_path):
    found = scored("xai_tris", tmp_path, f"--num_imgs={10 * len(xai_tris.NAMES)}", "--methods=gradient,deeplift")
    for metric, best in (("distance", 0), ("rank_correlation", 1), ("sign_errors", 0)):
        assert found["exact_values", metric] == pytest.approx(best, abs=1e-7)
    assert found["ground_truth", "mask_precision"] == 1 and found["uniform", "mask_precision"] < 0.15
    assert found["exact_values", "mask_precision"] < 0.9 and found["ground_truth", "distance"] > 0.6
    assert found["deeplift", "distance"] < 0.4 < 0.7 < found["gradient", "distance"]


def test_mask_precision_counts_ties_by_their_expectation():
    mask = np.array([[[True, True], [False, False]]])
    batch = Batch(np.zeros((1, 2, 2, 1)), ["a"], masks={"mask": mask})
    (metric,) = (metric for metric in xai_tris.BENCHMARK.metrics if metric.name == "mask_precision")
    for values, expected in (([[1, 1], [1, 1]], 0.5), ([[2, 1], [1, 1]], 0.5 + 0.5 / 3), ([[-2, 1], [0, 0]], 1)):
        assert metric.measure.function(np.array([values], float), batch, None) == pytest.approx(expected)
