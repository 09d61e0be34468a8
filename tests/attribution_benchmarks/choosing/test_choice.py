"""Advice from known truth, and checks of planted agreements."""

import importlib.util
import pathlib

import numpy as np
import pytest

from attribution_benchmarks.choosing import known
from attribution_benchmarks.choosing.choice import Choice, agreement
from attribution_benchmarks.choosing.scoring import own_under_controls
from attribution_benchmarks.core.batch import MapSource


def drawn(mean, seed, count=40, spread=0.05):
    return np.random.default_rng(seed).normal(mean, spread, count)


def choice(values, own=None, baselines=None, clusters=None, missed=""):
    baselines = baselines or {"uniform": drawn(0.1, 99, len(values))}
    return Choice("other", "method", {"method": values}, own or {}, baselines, clusters, missed, {"method": 1}, [])


def test_agreement_of_the_exact_map_is_one_and_of_one_that_says_nothing_zero():
    np.testing.assert_allclose(agreement([1, 0, -1, 0.5], [0, 1, 1, 0.75]), [1, 0, -0.5, 0.5])
    assert np.isnan(agreement([np.nan, 0.2], [0.1, np.nan])).all()


@pytest.mark.parametrize("condition", ["random_weights", "wrong_class"])
def test_a_method_whose_maps_do_not_depend_on_the_network_or_the_class_is_spoken_against(condition):
    values = drawn(0.8, 1)
    (said,) = choice(values, {condition: values}).against()
    assert "no better than its own maps" in said and "(0.8" in said
    sound = choice(values, {condition: drawn(0.2, 6)})
    assert sound.against() == [] and max(sound.p_values().values()) < 0.05
    assert choice(values, missed="method misses its sum").against() == ["method misses its sum"]
    (said,) = choice(drawn(0.5, 1), baselines={"edge_detector": drawn(0.6, 3)}).against()
    assert "edge detector (0.6" in said


def test_inputs_of_a_group_and_those_whose_score_never_changes_count_less():
    values = drawn(0.9, 1, count=12)
    assert choice(values).inputs == 12 and choice(values).p_values()["uniform"] < 0.05
    values[:3] = np.nan
    assert choice(values).inputs == 9 and choice(values).p_values() == {}
    assert choice(drawn(0.9, 1), clusters=["a"] * 31 + list("bcdefghij")).inputs == 10
    assert choice(drawn(0.9, 1), clusters=["a"] * 32 + list("bcdefghi")).p_values() == {}


def test_a_method_that_is_as_good_as_a_reference_is_seldom_shown_to_be_better():
    wrong = 0
    for seed in range(200):
        values = np.random.default_rng(seed).normal(0.5, 0.1, (2, 30))
        wrong += choice(values[0], baselines={"x": values[1]}).p_values()["x"] < 0.05
    assert wrong <= 10


def test_agreement_under_random_weights_is_the_mean_of_the_networks():
    values = {MapSource("method", f"random_weights#{n}"): np.array([n, 1.0]) for n in (1, 2)}
    found = own_under_controls("method", {**values, MapSource("other", "random_weights#1"): np.zeros(2)})
    np.testing.assert_array_equal(found["random_weights"], [1.5, 1])


def test_a_share_is_one_of_the_best_and_zero_on_average():
    assert len(known.tasks()) >= 20
    for task in known.tasks():
        assert max(task.shares.values()) == pytest.approx(1) and np.mean([*task.shares.values()]) == pytest.approx(0)


def test_advice_leaves_the_benchmark_out_that_it_is_measured_on():
    for task in known.tasks():
        first = known.ranked(task.kind, task.benchmark)[0]
        others = [one for one in known.tasks() if one.benchmark != task.benchmark and one.kind == task.kind]
        means = {name: np.mean([one.shares[name] for one in others]) for name in known.ranked()} if others else {}
        assert not means or means[first] == max(means.values())


def test_the_table_of_the_advice_is_that_of_the_study():
    """It is no worse than any constant answer."""
    path = pathlib.Path(__file__).resolve().parents[3] / "docs"
    spec = importlib.util.spec_from_file_location("advice", path / "studies" / "advice.py")
    advice = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(advice)
    assert advice.table().strip() in (path / "own_models.md").read_text("utf-8")
    means = [np.mean([task.shares[rule(task)] for task in known.tasks()]) for rule in [*advice.RULES.values()][:4]]
    assert means[0] == max(means)
