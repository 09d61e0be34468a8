"""Exact Shapley values of the committed networks: closed forms, and those of all coalitions."""

import itertools
import math

import numpy as np
import pytest

import attribution
from attribution.errors import BadInput
from attribution_benchmarks.core.bundled_models import default_model
from attribution_benchmarks.exact import metrics, xai_tris, xai_units
from attribution_benchmarks.exact.definition import FEATURES, HAND_SET
from attribution_benchmarks.exact.known_networks import known_networks
from tools import make_exact_networks

SETS = {"problems": HAND_SET, "units": xai_units.PROBLEMS}
HAND_SET_PROBLEMS = [(folder, place) for folder, problems in SETS.items() for place in range(len(problems))]


@pytest.fixture(scope="module")
def networks():
    return {name: attribution.load_model(default_model(f"exact/{name}")) for name in (*SETS, "tetrominoes")}


@pytest.fixture(scope="module")
def network(networks):
    return networks["problems"]


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


def test_too_many_features_raise():
    with pytest.raises(ValueError, match="13 features have too many coalitions"):
        metrics.coalitions(13)


def relu(values):
    return np.maximum(values, 0)


CLOSED_FORMS = {
    "linear": lambda x: [x[:, 0], -2 * x[:, 1], 0.5 * x[:, 2], 1.5 * x[:, 3], -x[:, 4]],
    "interaction": lambda x: [(relu(x[:, i] - 1) + relu(x[:, 0] + x[:, 1] - 1) - relu(x[:, 1 - i] - 1)) / 2
                              for i in (0, 1)],
    "cancellation": lambda x: [2 * x[:, 0], -2 * x[:, 1], x[:, 2]],
    "conjunction": lambda x: [*[x[:, :3].prod(axis=1) / 3] * 3, 0.5 * x[:, 3]],
    "redundancy": lambda x: [*[(x[:, i] + x[:, :2].max(axis=1) - x[:, 1 - i]) / 2 for i in (0, 1)], 0.5 * x[:, 2]],
}  # fmt: skip


@pytest.mark.parametrize("folder,place", HAND_SET_PROBLEMS, ids=lambda value: str(value))
def test_values_of_the_function_are_those_of_the_network_and_of_closed_forms(folder, place, networks):
    problem, network = SETS[folder][place], networks[folder]
    inputs = problem.draw(np.random.default_rng(1), 6)
    values = problem.attributions(inputs)
    found = metrics.shapley_values_of_network(inputs, np.full(6, place), lambda parts: network.scores(parts, 4096))
    np.testing.assert_allclose(found, values, atol=2e-5)  # steps of 50 times single precision
    if problem.name in CLOSED_FORMS:
        expected = np.stack(CLOSED_FORMS[problem.name](inputs.astype(float)), axis=1)
        np.testing.assert_allclose(values[:, : expected.shape[1]], expected, atol=1e-12)
        assert not values[:, expected.shape[1] :].any()


@pytest.mark.parametrize("folder", SETS)
def test_the_committed_network_has_the_hand_set_weights(folder, networks):
    """The function of weights in this file's network, without TensorFlow, gives its scores."""
    first, biases, last, linear, bias = make_exact_networks.hand_set_weights(SETS[folder])
    inputs = np.random.default_rng(2).normal(size=(50, FEATURES)).astype(np.float32)
    expected = np.maximum(inputs @ first + biases, 0) @ last + inputs @ linear + bias
    np.testing.assert_allclose(networks[folder].scores(inputs, 50)[:, : len(SETS[folder])], expected, atol=1e-4)


def test_values_of_sparse_hidden_units_are_those_of_all_coalitions_of_the_inputs():
    generator = np.random.default_rng(0)
    weights = generator.normal(size=(10, 6)) * (generator.random((10, 6)) < 0.4)
    units = xai_tris.HiddenUnits(weights, *(generator.normal(size=size) for size in (6, (6, 2), 2)))
    inputs, targets = generator.normal(size=(3, 10)), np.array([0, 1, 1])
    expected = metrics.shapley_values_of_network(inputs, targets, units.scores)
    np.testing.assert_allclose(units.shapley_values(inputs, targets), expected, atol=1e-12)


def test_tetromino_networks_are_their_hidden_units_and_see_the_classes(networks):
    path = default_model("exact/tetrominoes")
    units = xai_tris.read_hidden_units(path)
    for place, name in enumerate(xai_tris.NAMES):
        images, labels, masks = xai_tris.draw(name, 100, np.random.default_rng([7, place]))
        scores = networks["tetrominoes"].scores(images, 100)
        np.testing.assert_allclose(scores, units.scores(images), atol=2e-5)
        targets = 2 * place + labels
        values = units.shapley_values(images[:4], targets[:4])
        ends = units.scores(np.concatenate([images[:4], np.zeros_like(images[:4])]))
        difference = ends[:4] - ends[4:]
        np.testing.assert_allclose(values.sum(axis=(1, 2, 3)), difference[np.arange(4), targets[:4]], atol=1e-10)
        assert (scores[np.arange(100), targets] > 0).mean() > 0.8
        assert set(masks.sum(axis=(1, 2))) == {8 if name.startswith("xor") else 4}
    further = [xai_tris.read_hidden_units(path) for path in xai_tris.BENCHMARK.further_networks]
    assert len({one.weights.tobytes() for one in (units, *further)}) == xai_tris.NETWORKS
    for place, name in enumerate(xai_tris.NAMES):
        images, labels, _ = xai_tris.draw(name, 100, np.random.default_rng([8, place]))
        assert min((one.scores(images)[np.arange(100), 2 * place + labels] > 0).mean() for one in further) > 0.8, name
    with pytest.raises(BadInput, match=r"not a network of tetrominoes; tools/make_tetromino_networks\.py"):
        xai_tris.read_hidden_units(default_model("exact/units"))


def test_kernel_shap_with_every_coalition_is_the_enumerated_truth():
    known = [each for each in known_networks(2) if each.group == "vectors"]
    assert len(known) == 16
    for each in known:
        maps = attribution.explain("kernel_shap", each.model, each.batch.inputs, each.batch.targets, samples=4096)
        truth = each.batch.truth["shapley"]
        np.testing.assert_allclose(maps, truth, atol=1e-6 * np.abs(truth).max(), err_msg=each.name)
