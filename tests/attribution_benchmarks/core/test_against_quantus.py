"""Agreement with Quantus 0.6 where it computes what its sources say, and where it does not, what it does instead.

Quantus is not in the test extra: it wants the OpenCV that opens windows in place of the one without; .ci/run has it.
"""

import numpy as np
import pytest
from scipy.integrate import trapezoid

from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.metrics import faithfulness, regions
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY, select_metrics

quantus = pytest.importorskip("quantus")
metrics = quantus.metrics
GENERATOR = np.random.default_rng(11)
SIDE = 8
MAPS = GENERATOR.random((6, SIDE, SIDE))
MASKS = GENERATOR.random((6, SIDE, SIDE)) < 0.3
WEIGHTS = GENERATOR.normal(size=SIDE * SIDE)


def channels_first(maps):
    return maps.reshape(len(maps), 1, SIDE, SIDE)


def linear(pictures):
    score = 1 / (1 + np.exp(-np.reshape(pictures, (len(pictures), -1)) @ WEIGHTS / 4))
    return np.stack([score, 1 - score], axis=1)


class Network:
    """What Quantus asks of a model."""

    def shape_input(self, inputs, *_, **__):
        return inputs

    def predict(self, inputs, **_):
        return linear(inputs)


def quantus_score(metric, maps=MAPS, masks=MASKS):
    return metric.evaluate_batch(a_batch=channels_first(maps), s_batch=channels_first(masks))


def ours_of(name, maps=MAPS, masks=MASKS):
    """Return our metric of maps without a network."""
    batch = Batch(np.zeros((*maps.shape, 1)), range(len(maps)), np.zeros(len(maps), int), masks={"object": masks})
    (metric,) = select_metrics([name], {}).values()
    return metric.measure.compute(maps, batch, None)[:, 0]


def test_the_area_under_the_roc_curve_is_the_same():
    theirs = quantus_score(metrics.localisation.AUC(disable_warnings=True))
    np.testing.assert_allclose(ours_of("roc_auc"), theirs, rtol=1e-12)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [("roc_auc", "quantus:AUC"), ("top_k_intersection", f"quantus:TopKIntersection?k={SIDE**2 // 20}")],
)
@pytest.mark.parametrize("signs", ["mixed", "one"])
def test_signed_values_are_ranked_by_magnitude_here_and_as_they_are_in_quantus(ours, theirs, signs):
    maps = np.random.default_rng(12).normal(size=MAPS.shape)
    maps = np.abs(maps) if signs == "one" else maps
    by_magnitude = f"{theirs}{'&' if '?' in theirs else '?'}abs=True"
    np.testing.assert_allclose(ours_of(by_magnitude, maps), ours_of(ours, maps), atol=1e-6)
    assert np.allclose(ours_of(theirs, maps), ours_of(ours, maps), atol=1e-6) == (signs == "one")
    assert theirs.removeprefix("quantus:").partition("?")[0] in METRIC_REGISTRY[ours].source


def test_the_pointing_game_is_the_same_without_tolerance_and_ties():
    theirs = quantus_score(metrics.localisation.PointingGame(disable_warnings=True))
    np.testing.assert_array_equal(ours_of("pointing_game@0"), theirs)


def normalised(maps):
    """Return maps as Quantus scores them by default: divided by their largest magnitude."""
    return maps / np.abs(maps).max(axis=(1, 2), keepdims=True)


def test_complexity_is_the_same_but_for_quantus_s_small_constants():
    signed = GENERATOR.normal(size=MAPS.shape) * (GENERATOR.random(MAPS.shape) < 0.7)
    maps = np.abs(normalised(signed))

    def ours(name):
        return ours_of(name, signed)

    def theirs(name):
        return getattr(quantus, name)(disable_warnings=True).evaluate_batch(
            x_batch=None, a_batch=channels_first(maps.copy())
        )

    added = SIDE**2 * 1e-7 / maps.sum(axis=(1, 2))  # to the sum of each map
    np.testing.assert_allclose(theirs("Sparseness") * (1 + added), ours("sparseness"), rtol=1e-12)
    np.testing.assert_allclose(theirs("Complexity"), ours("complexity"), atol=SIDE**2 * 1e-12)
    np.testing.assert_array_equal(theirs("EffectiveComplexity"), ours("effective_complexity"))
    assert (ours("effective_complexity") < SIDE**2).all()


def test_top_k_intersection_is_the_same_without_ties():
    theirs = quantus_score(metrics.localisation.TopKIntersection(k=round(SIDE**2 / 20), disable_warnings=True))
    np.testing.assert_allclose(ours_of("top_k_intersection"), theirs, rtol=1e-12)


def test_attribution_localisation_is_the_same_but_for_quantus_s_small_constant():
    theirs = metrics.localisation.AttributionLocalisation(disable_warnings=True).evaluate_batch(
        x_batch=channels_first(MAPS), a_batch=channels_first(MAPS), s_batch=channels_first(MASKS)
    )
    total = MAPS.sum(axis=(1, 2))
    np.testing.assert_allclose(ours_of("attribution_localisation"), theirs * (1 + 1e-9 / total), rtol=1e-12)


def test_focus_of_mosaics_is_the_same_with_the_quadrants_of_the_class_as_mask():
    signed, quadrants = GENERATOR.normal(size=MAPS.shape), np.array([[1, 0, 0, 1], [0, 1, 1, 0]] * 3)
    mask = np.kron(quadrants.reshape(6, 2, 2), np.ones((4, 4))).astype(bool)
    theirs = metrics.localisation.Focus(disable_warnings=True).evaluate_batch(
        a_batch=channels_first(signed), c_batch=quadrants
    )
    np.testing.assert_allclose(ours_of("focus", signed, mask), theirs, rtol=1e-9)
    negative = ours_of("focus", -np.abs(signed), mask)
    np.testing.assert_array_equal(negative, 0.5)  # Quantus gives 0: a map that says "nowhere" counts as "everywhere"


def test_of_several_highest_positions_quantus_counts_the_luckiest():
    """A map of one value hits for certain there; here it hits as often as a position drawn from it."""
    flat = np.ones_like(MAPS)
    assert quantus_score(metrics.localisation.PointingGame(disable_warnings=True), flat).all()
    np.testing.assert_allclose(ours_of("pointing_game@0", flat), MASKS.mean(axis=(1, 2)))


def test_pixel_flipping_is_deletion_without_the_whole_picture_and_in_steps_instead_of_shares():
    """Its curve begins after the first step, and its area grows with the number of steps."""
    pictures = GENERATOR.random((6, SIDE, SIDE, 1))
    flipping = metrics.faithfulness.PixelFlipping(
        features_in_step=8, perturb_baseline=0.0, disable_warnings=True, return_auc_per_sample=False
    )
    targets = np.zeros(6, np.int64)
    theirs = np.array(flipping.evaluate_batch(Network(), np.moveaxis(pictures, -1, 1), targets, channels_first(MAPS)))
    shares = tuple(step / 8 for step in range(1, 9))
    batch = Batch(pictures, [str(row) for row in range(6)], targets)
    ours = faithfulness.curve(MAPS, batch, linear, black, shares)
    np.testing.assert_allclose(ours[:, 1:], theirs, rtol=1e-9)
    np.testing.assert_allclose(ours[:, 0], linear(pictures)[:, 0], rtol=1e-9)
    area = 7 * (theirs[:, 1:] + theirs[:, :-1]).mean(axis=1) / 2
    flipping.return_auc_per_sample = True
    if hasattr(np, "trapz"):  # NumPy 2.4 has no trapz, which Quantus 0.6 asks for
        found = flipping.evaluate_batch(Network(), np.moveaxis(pictures, -1, 1), targets, channels_first(MAPS))
        np.testing.assert_allclose(found, area, rtol=1e-9)
    else:
        with pytest.raises(AttributeError, match="trapz"):
            flipping.evaluate_batch(Network(), np.moveaxis(pictures, -1, 1), targets, channels_first(MAPS))


def test_black_is_an_input_s_own_least_value_in_quantus():
    from quantus.helpers.utils import get_baseline_dict

    pictures = GENERATOR.random((2, 1, 3, 3)) + 1
    found = get_baseline_dict(pictures, batched=True, return_shape=(2, 1))["black"]
    np.testing.assert_array_equal(found, pictures.reshape(2, -1).min(axis=1))
    assert (found > 1).all()


def black(pictures, gone, keys):
    return np.where(gone[..., np.newaxis], 0.0, pictures)


def test_sensitivity_n_of_quantus_draws_no_sets_but_removes_in_the_map_s_own_order():
    """The paper draws random sets of one size; Quantus correlates over inputs the sums that deletion leaves behind."""
    pictures = GENERATOR.random((6, SIDE, SIDE, 1))
    theirs = metrics.faithfulness.SensitivityN(
        features_in_step=8, n_max_percentage=1.0, perturb_baseline=0.0, disable_warnings=True
    )
    found = theirs.evaluate_batch(Network(), np.moveaxis(pictures, -1, 1), np.zeros(6, np.int64), channels_first(MAPS))
    order = np.argsort(-MAPS.reshape(6, -1), axis=1)
    sums = np.take_along_axis(MAPS.reshape(6, -1), order, axis=1).reshape(6, 8, 8).sum(axis=2)
    np.testing.assert_allclose(found[0]["att_sums"], sums, rtol=1e-9)
    assert (np.diff(found[0]["att_sums"], axis=1) < 0).all()  # no two sets of an input are alike in what they hold


def of_mean_one_half(*shape):
    """Pictures whose mean colour is one half, which Quantus can be given as baseline."""
    pictures = GENERATOR.random((6, *shape, 1))
    return pictures - pictures.mean(axis=(1, 2, 3), keepdims=True) + 0.5


def ours_and_theirs(name, theirs, pictures, maps, network, **parameters):
    """Return our metric, and Quantus's with one half in place of removed positions, of the first class."""
    batch, targets = Batch(pictures, [str(row) for row in range(6)], np.zeros(6, np.int64)), np.zeros(6, np.int64)
    metric = getattr(quantus, theirs)(perturb_baseline=0.5, disable_warnings=True, **parameters)
    metric.nr_channels = 1
    interface = Network()
    interface.predict = lambda inputs, **_: network(inputs)
    found = metric.evaluate_batch(interface, np.moveaxis(pictures, -1, 1), targets, maps[:, np.newaxis].copy())
    return METRIC_REGISTRY[name].measure.compute(maps, batch, network)[:, 0], np.array(found)


def weighted(weights):
    """Return a network of probabilities on pictures of some positions."""

    def scores(pictures):
        first = 1 / (1 + np.exp(-np.reshape(pictures, (len(pictures), -1)) @ weights))
        return np.stack([first, 1 - first], axis=1)

    return scores


def test_faithfulness_correlation_is_the_same_on_the_same_subsets(monkeypatch):
    batch = Batch(np.zeros((6, SIDE, SIDE, 1)), [str(row) for row in range(6)])
    sets = faithfulness.random_sets(batch, "faithfulness_correlation", SIDE**2, [13] * 100)
    replayed = iter([np.flatnonzero(one) for number in range(100) for one in sets[:, number]])
    monkeypatch.setattr(np.random, "choice", lambda *_, **__: next(replayed))
    ours, theirs = ours_and_theirs(
        "faithfulness_correlation", "FaithfulnessCorrelation", of_mean_one_half(SIDE, SIDE),
        GENERATOR.normal(size=MAPS.shape), weighted(WEIGHTS), subset_size=13, nr_runs=100,
    )  # fmt: skip
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_faithfulness_estimate_is_the_same_in_parts_of_as_many_positions():
    ours, theirs = ours_and_theirs(
        "faithfulness_estimate", "FaithfulnessEstimate", of_mean_one_half(4, 5), GENERATOR.normal(size=(6, 4, 5)),
        weighted(WEIGHTS[:20]), features_in_step=1,
    )  # fmt: skip
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_monotonicity_of_quantus_inserts_nothing_and_is_true_of_every_map():
    maps = GENERATOR.normal(size=(6, 4, 5))
    ours, theirs = ours_and_theirs(
        "monotonicity", "Monotonicity", of_mean_one_half(4, 5), maps, weighted(WEIGHTS[:20]), features_in_step=1
    )
    assert theirs.all() and (ours < 1).all()


def test_selectivity_is_the_same_curve():
    ours, theirs = ours_and_theirs(
        "selectivity", "Selectivity", pictures := of_mean_one_half(16, 16), GENERATOR.normal(size=(6, 16, 16)),
        network := weighted(GENERATOR.normal(size=256) / 4), patch_size=2,
    )  # fmt: skip
    curves = np.concatenate([network(pictures)[:, :1], theirs], axis=1)
    np.testing.assert_allclose(ours, (curves[:, 1:] + curves[:, :-1]).mean(axis=1) / 2, rtol=1e-9)


def test_irof_of_quantus_is_not_divided_by_the_number_of_segments_and_begins_after_the_first(monkeypatch):
    """An input of fewer segments than another of its batch also loses half the last point: its curve is padded by 0."""
    pictures, network = of_mean_one_half(16, 16), weighted(GENERATOR.normal(size=256) / 4)
    labels = np.stack([GENERATOR.permutation(np.arange(256) % (10 + row)).reshape(16, 16) for row in range(6)])
    monkeypatch.setattr(regions, "superpixels", lambda images: labels + 1)
    replayed, after_one = iter(labels), []
    monkeypatch.setattr("quantus.helpers.utils.get_superpixel_segments", lambda **_: next(replayed))
    monkeypatch.setattr(np, "trapz", trapezoid, raising=False)  # Quantus 0.6 needs it, NumPy 2.4 has it no more
    maps = GENERATOR.normal(size=(6, 16, 16))
    ours, theirs = ours_and_theirs("irof", "IROF", pictures, maps, network)
    for row, picture in enumerate(pictures):
        segments = [maps[row][labels[row] == one].mean() for one in range(labels[row].max() + 1)]
        without = np.where(labels[row][..., np.newaxis] == np.argmax(segments), 0.5, picture)
        after_one.append(network(without[np.newaxis])[0, 0] / network(picture[np.newaxis])[0, 0])
    count = np.arange(10, 16)
    last = network(np.full_like(pictures, 0.5))[:, 0] / network(pictures)[:, 0]
    padded = np.where(count < 15, last / 2, 0)
    np.testing.assert_allclose(theirs, count * ours + (1 + np.array(after_one)) / 2 - padded, rtol=1e-9)


def test_nonsensitivity_of_quantus_counts_the_same_positions():
    unused = GENERATOR.random(SIDE**2) < 0.3
    maps = np.abs(normalised(GENERATOR.normal(size=MAPS.shape) * (GENERATOR.random(MAPS.shape) < 0.6)))
    ours, theirs = ours_and_theirs(
        "nonsensitivity",
        "NonSensitivity",
        of_mean_one_half(SIDE, SIDE),
        maps,
        weighted(np.where(unused, 0, WEIGHTS) / 8),
    )
    np.testing.assert_array_equal(theirs, np.rint(ours * SIDE**2))
    assert 0 < ours.min() and ours.max() < 1


def test_completeness_of_quantus_is_equality_to_the_last_bit():
    """On whole numbers, which have no rounding; a relative error of 1e-9 is as incomplete as one of 1."""
    pictures = GENERATOR.integers(9, size=(6, 4, 4, 1)).astype(float)
    batch = Batch(pictures, [str(row) for row in range(6)], np.zeros(6, np.int64))
    network = Network()
    network.predict = lambda inputs, **_: np.reshape(inputs, (len(inputs), -1)).sum(axis=1, keepdims=True)
    metric = quantus.Completeness(perturb_baseline=0.0, disable_warnings=True)
    for factor, gap in ((1, 0), (1 + 1e-9, 5e-10), (3, 0.5)):
        maps = factor * pictures[..., 0]
        ours = METRIC_REGISTRY["completeness"].measure.compute(maps, batch, network.predict)[:, 0]
        np.testing.assert_allclose(ours, gap, rtol=1e-6)
        theirs = metric.evaluate_batch(network, np.moveaxis(pictures, -1, 1), batch.targets, maps[:, np.newaxis])
        assert np.array_equal(theirs, ours == 0)


def test_completeness_of_quantus_is_false_of_complete_maps_by_default():
    pictures = np.random.default_rng(12).integers(1, 9, size=(6, 4, 4, 1)).astype(float)
    batch = Batch(pictures, [str(row) for row in range(6)], np.zeros(6, np.int64))

    def scores(inputs):
        return np.reshape(inputs, (len(inputs), -1)).sum(axis=1, keepdims=True)

    def share(name):
        (metric,) = select_metrics([name], {}).values()
        return metric.measure.compute(pictures[..., 0], batch, scores)[:, 0].mean()

    assert share("completeness") == 0
    for parameters in ("", "?normalise=False", "?perturb_baseline=0.0"):
        assert share(f"quantus:Completeness{parameters}") == 0
    assert share("quantus:Completeness?normalise=False&perturb_baseline=0.0") == 1


@pytest.mark.parametrize(
    ("name", "is_normalised"),
    [("MaxSensitivity", True), ("MaxSensitivity", False), ("AvgSensitivity", True), ("LocalLipschitzEstimate", True)],
)
def test_sensitivity_is_the_same_on_maps_normalised_by_their_second_moments(name, is_normalised):
    """On the same noisy pictures. By default Quantus does not normalise sensitivity, and its ratio has no bound."""
    from quantus.functions.normalise_func import normalise_by_average_second_moment_estimate
    from quantus.functions.similarity_func import distance_euclidean

    pictures, noisy = GENERATOR.random((6, SIDE, SIDE, 1)), []

    def explained(inputs):
        """Maps that are 1e-9 as large on the clean pictures, as gradients of a saturated probability are."""
        size = 1e-9 if np.array_equal(inputs, pictures) else 1
        return size * np.sin(9 * inputs[..., 0]) * WEIGHTS.reshape(SIDE, SIDE)

    def again(batch, model=None):
        noisy.append(batch.pictures)
        return explained(batch.pictures)

    batch = Batch(pictures, [str(row) for row in range(6)], np.zeros(6, np.int64))
    called = {"MaxSensitivity": "max_sensitivity", "AvgSensitivity": "avg_sensitivity"}.get(name, "local_lipschitz")
    ours = METRIC_REGISTRY[called].measure.function(explained(pictures), batch, again)
    replayed = iter(noisy)
    distances = {"norm_numerator": distance_euclidean, "norm_denominator": distance_euclidean}
    theirs = getattr(quantus, name)(
        **(distances if name == "LocalLipschitzEstimate" else {}),
        nr_samples=len(noisy),
        perturb_func=lambda arr, indices, **_: next(replayed).reshape(arr.shape),
        normalise=is_normalised,
        normalise_func=normalise_by_average_second_moment_estimate,
        normalise_func_kwargs={"normalise_axes": (1, 2, 3)},
        disable_warnings=True,
    )
    theirs.explain_func_kwargs = {}
    theirs.explain_func = lambda model, inputs, targets: channels_first(explained(np.moveaxis(inputs, 1, -1)))
    clean = channels_first(explained(pictures))
    found = theirs.evaluate_batch(
        Network(),
        np.moveaxis(pictures, -1, 1),
        np.zeros(6, np.int64),
        theirs.normalise_func(clean.copy()) if is_normalised else clean,
    )
    if is_normalised:
        norm = (
            SIDE if name == "LocalLipschitzEstimate" else 1
        )  # of their maps; the inputs below the line have their own
        np.testing.assert_allclose(norm * ours, found, rtol=1e-9)
    else:
        assert (found > 1e8).all() and (ours <= 2).all()
