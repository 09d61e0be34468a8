"""Exact Shapley values against permutations, their axioms, and the closed forms of the committed network."""

import itertools
import math

import numpy as np
import pytest

import attribution
from attribution_benchmarks.cli.bundled_models import default_model
from attribution_benchmarks.exact import metrics
from attribution_benchmarks.exact.problems import FEATURES, HAND_SET, NAMES
from tools import make_exact_networks


@pytest.fixture(scope="module")
def network():
    return attribution.load_model(default_model("exact/problems"))


def by_permutations(worth, features):
    """Return Shapley values as the mean gain over all orders in which features come in; worth maps bits to numbers."""
    found = np.zeros(features)
    for order in itertools.permutations(range(features)):
        inside = 0
        for feature in order:
            found[feature] += worth[inside | 1 << feature] - worth[inside]
            inside |= 1 << feature
    return found / math.factorial(features)


@pytest.mark.parametrize("features", [1, 2, 5])
def test_counting_coalitions_is_the_mean_over_all_orders(features):
    worth = np.random.default_rng(features).normal(size=(3, 2**features))
    expected = [by_permutations(one, features) for one in worth]
    np.testing.assert_allclose(metrics.shapley_values(worth), expected, atol=1e-12)


def test_efficiency_symmetry_dummy_and_linearity():
    members = metrics.coalitions(FEATURES)
    generator = np.random.default_rng(0)
    worth = generator.normal(size=(2, len(members)))
    values = metrics.shapley_values(worth)
    np.testing.assert_allclose(values.sum(axis=1), worth[:, -1] - worth[:, 0], atol=1e-10)
    np.testing.assert_allclose(
        metrics.shapley_values(worth[:1] + 2 * worth[1:])[0], values[0] + 2 * values[1], atol=1e-10
    )
    both = metrics.shapley_values((members[:, 3] & members[:, 7]).astype(float)[None])[0]
    np.testing.assert_allclose(both, np.isin(np.arange(FEATURES), (3, 7)) / 2, atol=1e-12)


def test_too_many_features_raise():
    with pytest.raises(ValueError, match="13 features have too many coalitions"):
        metrics.coalitions(13)


@pytest.mark.parametrize("problem", HAND_SET, ids=lambda problem: problem.name)
def test_closed_forms_are_what_counting_finds_in_the_network(problem, network):
    inputs = problem.draw(np.random.default_rng(1), 3)
    target = NAMES.index(problem.name)
    found = metrics.shapley_values_of_network(inputs, np.full(3, target), lambda parts: network.scores(parts, 4096))
    np.testing.assert_allclose(found, problem.attributions(inputs), atol=2e-5)  # steps of 50 times single precision
    ends = network.scores(np.concatenate([inputs, np.zeros_like(inputs)]), 64)[:, target].astype(np.float64)
    np.testing.assert_allclose(found.sum(axis=1), ends[:3] - ends[3:], atol=2e-5)


def test_the_committed_network_has_the_hand_set_weights(network):
    """The function of weights in this file's network, without TensorFlow, gives its scores."""
    first, biases, last, linear, bias = make_exact_networks.hand_set_weights()
    inputs = np.random.default_rng(2).normal(size=(50, FEATURES)).astype(np.float32)
    expected = np.maximum(inputs @ first + biases, 0) @ last + inputs @ linear + bias
    np.testing.assert_allclose(network.scores(inputs, 50)[:, : len(HAND_SET)], expected, atol=1e-4)


def test_the_trained_parts_have_learnt_what_they_were_taught(network):
    inputs = np.random.default_rng(3).normal(size=(2000, FEATURES)).astype(np.float32)
    wanted = make_exact_networks.taught(inputs)
    for column in network.scores(inputs, 2000)[:, len(HAND_SET) :].T:
        assert np.square(column - wanted).mean() < 0.1 * wanted.var()
