"""Laws of sampled networks: their exact maps by other means, and the errors of corrupted ones."""

import itertools
import math

import numpy as np
import pytest

from attribution_benchmarks.exact import metrics, sampled_networks
from attribution_benchmarks.exact.known_networks import GRADES, KINDS, corrupted
from attribution_benchmarks.exact.sampled_networks import GENERATORS, TRUTHS
from attribution_benchmarks.exact.xai_tris import HiddenUnits

IN_CLOSED_FORM = ("closed_forms", "units_on_images")


@pytest.fixture(scope="module")
def networks():
    """Return two networks of each generator, with two inputs; training is cut short."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampled_networks, "_EXAMPLES", 700)
        patch.setattr(sampled_networks, "_EPOCHS", 1)
        return list(sampled_networks.sampled_networks(2, 2))


def rows_of(network, truth):
    return np.flatnonzero(network.batch.truth["truth"] == truth)


def test_every_generator_has_networks_with_each_truth_that_it_has(networks):
    for network in networks:
        generator, seed, number = network.name.split("/")
        truths = list(TRUTHS) if generator in IN_CLOSED_FORM else ["zero", "mean"]
        assert seed == "0" and number in "01"
        assert list(network.batch.truth["truth"]) == [truth for truth in truths for _ in range(2)]
        assert network.batch.masks["evidence"].any() and np.ptp(network.scores(network.batch.pictures)[:, 1]) > 0
    assert [network.name.split("/")[0] for network in networks] == [name for name in GENERATORS for _ in range(2)]


def test_exact_maps_add_up_to_the_score_less_that_of_the_absent_input(networks):
    for network, truth in itertools.product(networks, ("zero", "mean")):
        batch, rows = network.batch, rows_of(network, truth)
        absent = batch.truth["absent"][rows]
        if truth == "mean":
            axes = tuple(range(1, absent.ndim))
            np.testing.assert_allclose(
                absent, np.broadcast_to(batch.pictures[rows].mean(axes, keepdims=True), absent.shape)
            )
        ends = network.scores(batch.pictures[rows]) - network.scores(absent.astype(np.float32))
        sums = batch.truth["shapley"][rows].reshape(len(rows), -1).sum(axis=1)
        np.testing.assert_allclose(sums, ends[:, 1], atol=1e-6, rtol=1e-6)


def by_subsets(row, absent, feature, worth):
    """Return a Shapley value by its definition, as a sum over subsets of the other features."""
    others, total = [other for other in range(len(row)) if other != feature], 0.0
    for size in range(len(row)):
        weight = math.factorial(size) * math.factorial(len(row) - size - 1) / math.factorial(len(row))
        chosen = np.array(list(itertools.combinations(others, size)), int).reshape(math.comb(len(others), size), size)
        without = np.tile(absent, (len(chosen), 1))
        np.put_along_axis(without, chosen, row[chosen], axis=1)
        with_it = without.copy()
        with_it[:, feature] = row[feature]
        total += weight * (worth(with_it) - worth(without)).sum()
    return total


@pytest.mark.parametrize("place", [0, 3, 6])
def test_exact_maps_are_sums_over_subsets(networks, place):
    network, spatial = networks[place], networks[place].batch.pictures.shape[1:]
    target = int(network.batch.targets[0])

    def worth(inputs):
        return np.asarray(network.model.scores(inputs.reshape(-1, *spatial).astype(np.float32), 4096), float)[:, target]

    for truth in ("zero", "mean"):
        at = rows_of(network, truth)[0]
        row, absent = (np.ravel(each[at]) for each in (network.batch.pictures, network.batch.truth["absent"]))
        expected = [by_subsets(row, absent, feature, worth) for feature in (0, 5)]
        np.testing.assert_allclose(np.ravel(network.batch.truth["shapley"][at])[[0, 5]], expected, atol=1e-5)


def test_the_closed_form_is_the_average_over_absent_inputs():
    generator = np.random.default_rng(0)
    units = HiddenUnits(
        generator.normal(size=(3, 4)), generator.normal(size=4), generator.normal(size=(4, 1)), np.zeros(1)
    )
    row, means = generator.normal(size=(1, 3)), generator.normal(size=3)
    drawn = means + generator.normal(size=(200_000, 3))
    worth = [units.scores(np.where(one, row, drawn)).mean() for one in metrics.coalitions(3)]
    found = units.shapley_values(row, np.zeros(1, int), means, 1.0)
    np.testing.assert_allclose(found, metrics.shapley_values(np.array([worth])), atol=0.02)
    without_spread = units.shapley_values(row, np.zeros(1, int), means, 0.0)
    worth = [units.scores(np.where(one, row, means[np.newaxis]))[0, 0] for one in metrics.coalitions(3)]
    np.testing.assert_allclose(without_spread, metrics.shapley_values(np.array([worth])), atol=1e-12)


def test_other_seeds_are_other_networks_and_the_same_seed_is_the_same(networks):
    names = ("random_relu",)
    again, other = (next(sampled_networks.sampled_networks(2, 2, seed, names)) for seed in (0, 1))
    first = next(network for network in networks if network.name == again.name)
    np.testing.assert_array_equal(again.batch.truth["shapley"], first.batch.truth["shapley"])
    assert not np.allclose(other.batch.truth["shapley"], first.batch.truth["shapley"])
    assert set(other.batch.truth["key"]).isdisjoint(first.batch.truth["key"])


@pytest.mark.parametrize("kind", KINDS)
def test_grade_0_is_the_exact_map_and_errors_grow_with_the_grade(kind, networks):
    seen = []
    for network in networks:
        truth, other = network.exact(network.batch)
        flat = truth.reshape(len(truth), -1)
        maps = [corrupted(truth, other, network.batch, kind, grade).reshape(flat.shape) for grade in (0, *GRADES)]
        np.testing.assert_array_equal(maps[0], flat)
        errors = np.array([metrics.distance(each, flat) for each in maps])
        assert (np.diff(errors, axis=0) >= -1e-7).all(), network.name
        seen.append(errors[-1].max())
    assert max(seen) > 0.05


def test_all_corruptions_are_there():
    assert len(KINDS) >= 14 and len(GRADES) == 4
    wanted = {"offset", "permuted", "sign_flips", "sharpened", "flattened", "positive_part", "input", "top_removed"}
    assert wanted | {
        "blocks",
        "noise",
        "edges",
        "shifted",
        "other_class",
        "smoothed",
        "sign_lost",
        "partly_zero",
    } == set(KINDS)
