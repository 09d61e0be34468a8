"""Faithfulness: closed forms of linear networks, exact numbers of passes, and imputation against its equations."""

import numpy as np
import pytest
import scipy.ndimage
import scipy.sparse
import scipy.sparse.linalg
import scipy.special

import attribution
from attribution.errors import BadInput
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.controls import RANDOM
from attribution_benchmarks.metrics import faithfulness, imputation, regions
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY

POINTS = 20
WEIGHTS = np.random.default_rng(7).normal(size=POINTS)


def signals(count=6, seed=0):
    """Signals whose mean is zero, so that removing a point takes away just its part of a linear score."""
    inputs = np.random.default_rng(seed).normal(size=(count, POINTS, 1))
    return inputs - inputs.mean(axis=1, keepdims=True)


class Linear:
    """Two classes, the score of the first a weighted sum; counts what it is asked."""

    def __init__(self, as_probabilities=False):
        self.as_probabilities, self.rows, self.requests = as_probabilities, 0, 0

    def __call__(self, inputs):
        self.rows, self.requests = self.rows + len(inputs), self.requests + 1
        score = inputs[..., 0] @ WEIGHTS
        if self.as_probabilities:
            first = 1 / (1 + np.exp(-score))
            return np.stack([first, 1 - first], axis=1)
        return np.stack([score, np.zeros(len(inputs))], axis=1)

    def probabilities_of(self, scores):
        return scores if self.as_probabilities else scipy.special.softmax(scores, axis=-1)


def block_of(inputs, targets=0):
    return Batch(inputs, [f"input {row}" for row in range(len(inputs))], np.full(len(inputs), targets))


def contributions(inputs):
    return inputs[..., 0] * WEIGHTS


def value(name, maps, batch, scores):
    found = METRIC_REGISTRY[name].measure.function(maps, batch, scores)
    return found[:, 0] if found.ndim == 2 else found


def test_curves_of_a_linear_network_by_hand():
    """Removing the largest contributions first leaves the sum of the smallest."""
    batch = block_of(signals())
    parts = np.sort(contributions(batch.pictures), axis=1)[:, ::-1]
    left = np.concatenate(
        [parts.sum(axis=1, keepdims=True), parts.sum(axis=1, keepdims=True) - parts.cumsum(axis=1)], 1
    )
    deletion = 1 / (1 + np.exp(-left))
    kept = np.concatenate([np.zeros((6, 1)), parts.cumsum(axis=1)], axis=1)
    insertion = 1 / (1 + np.exp(-kept))
    for name, curve in (("deletion", deletion), ("insertion", insertion[:, ::-1])):
        numbers = METRIC_REGISTRY[name].measure.function(contributions(batch.pictures), batch, Linear())
        np.testing.assert_allclose(numbers[:, 1:], curve, rtol=1e-9)
        np.testing.assert_allclose(numbers[:, 0], (curve[:, 1:] + curve[:, :-1]).mean(axis=1) / 2, rtol=1e-9)
    found = value("insertion_deletion", contributions(batch.pictures), batch, Linear())
    areas = [value(name, contributions(batch.pictures), batch, Linear()) for name in ("insertion", "deletion")]
    np.testing.assert_allclose(found, areas[0] - areas[1], rtol=1e-9)


def test_probabilities_and_logits_give_the_same_curves():
    batch, maps = block_of(signals()), contributions(signals())
    np.testing.assert_allclose(
        value("deletion", maps, batch, Linear()),
        value("deletion", maps, batch, Linear(as_probabilities=True)),
        rtol=1e-9,
    )


CORRELATIONS = ("sensitivity_n", "faithfulness_correlation", "faithfulness_estimate", "mu_fidelity")
CURVES = ("insertion", "deletion", "insertion_deletion", "selectivity", "irof", "sufficiency")


@pytest.mark.parametrize("name", [*CURVES, *CORRELATIONS, "infidelity"])
def test_exact_contributions_are_best_and_their_opposite_worst(name):
    batch, network = block_of(signals(40)), Linear()
    exact, random = contributions(batch.pictures), RANDOM.maps(batch, 0)
    sign = 1 if METRIC_REGISTRY[name].better == "more" else -1
    best, middle, worst = (sign * value(name, maps, batch, network) for maps in (exact, random, -exact))
    assert (best >= middle).all() and (middle >= worst - 1e-12).all()
    assert best.mean() > middle.mean() > worst.mean()


def test_sensitivity_n_and_infidelity_of_exact_contributions():
    batch = block_of(signals())
    exact = contributions(batch.pictures)
    for name in CORRELATIONS:
        np.testing.assert_allclose(value(name, 3 * exact, batch, Linear()), 1, rtol=1e-9)
        np.testing.assert_allclose(value(name, -exact, batch, Linear()), -1, rtol=1e-9)
    np.testing.assert_allclose(value("infidelity", 3 * exact, batch, Linear()), 0, atol=1e-9)
    np.testing.assert_allclose(value("infidelity", -exact, batch, Linear()), 1, rtol=1e-9)


SEE_A_CONSTANT = ("completeness", "infidelity")


@pytest.mark.parametrize("constant", [5.0, -0.3, 1e-2])
@pytest.mark.parametrize(
    "name",
    [
        "sensitivity_n", "faithfulness_correlation", "mu_fidelity", "insertion", "deletion", "insertion_deletion",
        "selectivity", *SEE_A_CONSTANT,
    ],
)  # fmt: skip
def test_a_constant_added_to_a_map_is_seen_by_sums_over_sets_of_different_sizes_alone(name, constant):
    """The truth plus a constant has the truth's score by all other metrics."""
    inputs = signals(3)
    batch, truth = block_of(inputs), contributions(inputs)
    right, moved = (value(name, maps, batch, Linear()) for maps in (truth, truth + constant))
    assert np.allclose(right, moved, atol=1e-9) == (name not in SEE_A_CONSTANT)
    if name in SEE_A_CONSTANT:
        assert (moved > right).all()  # less is better


def test_a_random_map_gets_nothing_from_sensitivity_n_and_the_difference():
    batch, network = block_of(signals(400)), Linear()
    for name in (*CORRELATIONS, "insertion_deletion"):
        found = value(name, RANDOM.maps(batch, 0), batch, network)
        assert abs(found.mean()) < 4 * found.std() / np.sqrt(len(batch)), name


def test_a_network_that_never_changes_leaves_them_undefined():
    batch, maps = block_of(signals()), contributions(signals())
    for name in (*CORRELATIONS, "infidelity"):
        assert np.isnan(value(name, maps, batch, lambda inputs: np.ones((len(inputs), 2)))).all()


def test_no_row_is_asked_twice_and_none_for_nothing(monkeypatch):
    """Curves cost their steps for each map and one row for each input; what knows no map is asked once a batch."""
    batch, network = block_of(signals()), Linear()
    for maps in (contributions(batch.pictures), RANDOM.maps(batch, 0)):
        for name in ("insertion", "deletion", "insertion_deletion", "monotonicity", "sufficiency"):
            value(name, maps, batch, network)
    assert (network.rows, network.requests) == (6 * (1 + 2 * 2 * 20), 1 + 2 * 2)
    for maps in (contributions(batch.pictures), RANDOM.maps(batch, 0)):
        value("sensitivity_n", maps, batch, network)
        value("infidelity", maps, batch, network)
    rows = 6 * (1 + 2 * 2 * 20 + 192 + 128)
    assert network.rows == rows
    for maps in (contributions(batch.pictures), RANDOM.maps(batch, 0)):
        for name in ("faithfulness_correlation", "mu_fidelity", "nonsensitivity", "completeness"):
            value(name, maps, batch, network)
    assert network.rows == rows + 6 * (100 + 100 + POINTS + 1)
    for name in ("faithfulness_estimate", "selectivity", "irof"):
        value(name, maps, batch, network)
    assert network.rows == rows + 6 * (221 + 3 * 20)


def test_monotonicity_and_sufficiency_by_hand():
    """Inserting positive contributions raises the score at each step; what is left is the sum of the largest."""
    batch = block_of(signals())
    parts = contributions(batch.pictures)
    order = np.sort(np.abs(parts), axis=1)

    def positive(inputs):
        """A network whose exact contributions are the sizes of the linear one's."""
        score = np.abs(inputs[..., 0] * WEIGHTS).sum(axis=1)
        return np.stack([score, np.zeros(len(inputs))], axis=1)

    means = np.zeros_like(batch.pictures)  # removed positions are worth nothing
    assert np.abs(batch.pictures.mean(axis=1)).max() < 1e-12 and positive(means).max() == 0
    np.testing.assert_array_equal(value("monotonicity", np.abs(parts), batch, positive), 1)
    np.testing.assert_array_equal(value("monotonicity", -parts, batch, Linear()) > 0.2, True)
    top = [order[:, -count:].sum(axis=1) for count in (1, 2, 4, 10, 20)]
    *left, whole = 1 / (1 + np.exp(-np.array(top)))
    np.testing.assert_allclose(
        value("sufficiency", np.abs(parts), batch, positive), whole - np.mean(left, 0), rtol=1e-6
    )


def test_completeness_and_nonsensitivity_by_hand():
    batch, exact = block_of(signals()), contributions(signals())
    for maps, gap in ((exact, 0), (2 * exact, 1 / 3), (0 * exact, 1), (-exact, 1)):
        np.testing.assert_allclose(value("completeness", maps, batch, Linear()), gap, atol=1e-9)
    half = np.where(np.arange(POINTS) < 5, 0, exact)
    np.testing.assert_array_equal(value("nonsensitivity", exact, batch, Linear()), 0)
    np.testing.assert_array_equal(value("nonsensitivity", half, batch, Linear()), 5 / POINTS)
    np.testing.assert_array_equal(value("nonsensitivity", 0 * exact, batch, Linear()), 1)


def test_cells_of_a_grid():
    cells = regions.grid((16, 12))
    assert np.bincount(cells).tolist() == [2 * size for _ in range(8) for size in (2, 1, 2, 1, 2, 1, 2, 1)]
    np.testing.assert_array_equal(regions.grid((40,)), np.arange(40))
    assert regions.grid((640,)).max() == 63 and regions.grid((5, 5, 5)).max() == 63


def test_steps_fill_passes_across_inputs(toy):
    """Twelve inputs by twenty steps in batches of 16 are 15 full passes, and one for the inputs themselves."""
    model = attribution.load_model(toy.parent / "network")
    batch = Batch(np.random.default_rng(0).random((12, 4, 4, 1), np.float32), list(range(12)))
    before = model.counts.copy()
    value("deletion", RANDOM.maps(batch, 0), batch, lambda inputs: model.scores(inputs, 16))
    assert model.counts - before == {"forward": 12 + 240, "forward_passes": 1 + 15}


def test_large_requests_are_cut(monkeypatch):
    whole = value("deletion", contributions(signals()), block_of(signals()), Linear())
    monkeypatch.setattr(imputation, "BYTES", 7 * POINTS * 8)  # seven signals
    network = Linear()
    np.testing.assert_allclose(
        value("deletion", contributions(signals()), block_of(signals()), network), whole, rtol=1e-9
    )
    assert network.requests == 1 + -(-6 * 20 // 7)


def test_equal_values_come_in_the_same_random_order_for_every_map():
    batch = block_of(signals())
    first, second = (faithfulness.orders(maps, batch) for maps in (np.zeros((6, POINTS)), np.ones((6, POINTS))))
    np.testing.assert_array_equal(first, second)
    assert not (first == np.arange(POINTS)).all(axis=1).any()


def test_missing_pixels_are_the_weighted_means_of_their_neighbours():
    """Against the factored equations; the error is below the noise that is added, but for a large block."""
    rows, columns = np.mgrid[:48, :40]
    picture = np.stack([np.sin(rows / 7) + columns / 20, np.cos(columns / 5)], axis=2).astype(np.float32)
    generator = np.random.default_rng(0)
    for gone in (generator.random((48, 40)) < 0.6, (rows - 20) ** 2 + (columns - 15) ** 2 < 100):
        found, exact = imputation.linear(picture, gone), solved(picture, gone)
        np.testing.assert_array_equal(found[~gone], picture[~gone])
        assert np.sqrt(np.square(found - exact)[gone].mean()) < imputation.NOISE * np.ptp(picture)
    corner = (rows < 30) & (columns < 25)
    error = (imputation.linear(picture, corner) - solved(picture, corner))[corner]
    assert np.sqrt(np.square(error).mean()) < 4 * imputation.NOISE * np.ptp(picture)


def solved(picture, gone):
    """Return the solution of ROAD's equations by a sparse factorisation."""
    height, width = gone.shape
    places = np.arange(gone.size).reshape(gone.shape)
    graph = scipy.sparse.lil_matrix((gone.size, gone.size))
    for row in range(height):
        for column in range(width):
            for y in range(max(row - 1, 0), min(row + 2, height)):
                for x in range(max(column - 1, 0), min(column + 2, width)):
                    if (y, x) != (row, column):
                        graph[places[row, column], places[y, x]] = 2 if y == row or x == column else 1
    equations = (scipy.sparse.diags(np.asarray(graph.sum(axis=1)).ravel()) - graph).tocsc()
    missing = gone.ravel()
    found = picture.reshape(gone.size, -1).astype(np.float64)
    known = -equations[missing][:, ~missing] @ found[~missing]
    found[missing] = scipy.sparse.linalg.spsolve(equations[missing][:, missing], known)
    return found.reshape(picture.shape)


def test_missing_points_of_a_signal_lie_on_lines():
    signal = np.arange(10.0)[:, np.newaxis] * [1, -2]
    gone = np.isin(np.arange(10), [2, 3, 4, 7])
    np.testing.assert_allclose(imputation.interpolate_signal(np.where(gone[:, None], 99, signal), gone), signal)


def test_imputed_noise_is_of_the_input_alone_and_what_is_left_stays():
    pictures = np.random.default_rng(0).random((2, 8, 8, 3)).astype(np.float32)
    gone = np.zeros((2, 8, 8), bool)
    gone[:, 2:5, 3:6] = True
    both = imputation.noisy_linear(pictures, gone, ["a", "b"])
    np.testing.assert_array_equal(both[1:], imputation.noisy_linear(pictures[1:], gone[1:], ["b"]))
    np.testing.assert_array_equal(both[~gone], pictures[~gone])
    with pytest.raises(BadInput, match="signals or images"):
        imputation.noisy_linear(np.zeros((1, 5)), np.zeros((1, 5), bool), ["a"])


@pytest.mark.parametrize("fill", [imputation.mean_colour, imputation.blurred])
def test_baselines_replace_what_is_gone_alone(fill):
    pictures = np.random.default_rng(0).random((2, 8, 24, 3))
    gone = np.zeros((2, 8, 24), bool)
    gone[0, :4] = True
    found = fill(pictures, gone, ["a", "b"])
    np.testing.assert_array_equal(found[~gone], pictures[~gone])
    assert (found[gone] != pictures[gone]).all()
    if fill is imputation.blurred:  # by a twentieth of each side
        soft = scipy.ndimage.gaussian_filter(pictures, (0, 0.4, 1.2, 0), mode="nearest")
        np.testing.assert_allclose(found[gone], soft[gone], atol=1e-12)
    np.testing.assert_allclose(
        imputation.mean_colour(pictures, np.ones_like(gone), "ab").std(axis=(1, 2)), 0, atol=1e-12
    )


@pytest.mark.parametrize("count", [7, 10, 20, 30])
def test_curves_are_over_the_shares_that_were_removed(count):
    """The network is certain until one position is removed, the ``place``-th: the area is that of a step."""
    inputs = np.zeros((1, count), np.float32)
    inputs[0, 0], inputs[0, 1] = 1, -1

    def scores(changed):
        logits = np.where(np.asarray(changed)[:, :1] > 0.5, 20.0, -20.0)
        return np.concatenate([logits, -logits], axis=1)

    steps = np.concatenate([[0], faithfulness.removed(faithfulness._STEPS, count)])
    for place in range(count - 1):
        order = [*range(1, place + 1), 0, *range(place + 1, count)]
        values = np.zeros((1, count))
        values[0, order] = np.arange(count, 0, -1)
        found = METRIC_REGISTRY["deletion"].measure.function(values, Batch(inputs, ["0"], np.zeros(1, int)), scores)
        before = steps[steps <= place].max()  # the last step with the position, and the first without it
        after = steps[steps > place].min()
        assert found[0, 0] == pytest.approx((before + after) / 2 / count, abs=1e-6)


@pytest.mark.parametrize(
    ("suffix", "fill", "shares"),
    [
        ("", imputation.mean_colour, faithfulness._STEPS),
        ("_blur", imputation.blurred, faithfulness._STEPS),
        ("_road", imputation.noisy_linear, faithfulness._ROAD_STEPS),
    ],
)
def test_curves_differ_by_what_replaces_positions_and_in_which_order(suffix, fill, shares):
    batch = block_of(signals())
    found = {name: METRIC_REGISTRY[name + suffix].measure.function(contributions(batch.pictures), batch, Linear())
             for name in ("insertion", "deletion", "insertion_deletion")}  # fmt: skip
    for name, least_first in (("insertion", True), ("deletion", False)):
        expected = faithfulness.curve(contributions(batch.pictures), batch, Linear(), fill, shares, least_first)
        np.testing.assert_allclose(found[name][:, 1:], expected)
    np.testing.assert_allclose(found["insertion_deletion"], found["insertion"] - found["deletion"], atol=1e-12)


def test_halves_of_positions_go_up():
    np.testing.assert_array_equal(faithfulness.removed((0.1, 0.5, 0.69), 5), [1, 3, 3])


def test_a_constant_network_is_monotone_and_has_its_probability_under_every_curve():
    batch, maps = block_of(signals()), contributions(signals())
    for name, expected in (("monotonicity", 1), ("insertion", 0.5), ("deletion_road", 0.5), ("selectivity", 0.5)):
        np.testing.assert_allclose(value(name, maps, batch, lambda changed: np.zeros((len(changed), 2))), expected)


def test_irof_ranks_segments_by_their_mean_and_selectivity_by_their_sum():
    """96 positions are 64 cells of one or two. The network is certain until the third is removed, alone in its cell."""
    inputs, maps = np.zeros((1, 96, 1)), np.full((1, 96), 0.6)
    inputs[0, 2], maps[0, 2] = 1, 1

    def scores(changed):
        return np.where(changed[:, 2] > 0.5, 20.0, -20.0) * [1, -1]

    assert value("irof", maps, block_of(inputs), scores) == pytest.approx(1 - 0.5 / 64)
    assert value("selectivity", maps, block_of(inputs), scores) == pytest.approx(32.5 / 64)  # 32 pairs have 1.2
