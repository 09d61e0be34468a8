"""Agreement with Quantus 0.6 where it computes what its sources say, and where it does not, what it does instead.

Quantus is not in the test extra: it wants the OpenCV that opens windows in place of the one without; .ci/run has it.
"""

import numpy as np
import pytest

from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.metrics import complexity, faithfulness, imputation, localisation, sanity
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY

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


def test_the_area_under_the_roc_curve_is_the_same():
    theirs = quantus_score(metrics.localisation.AUC(disable_warnings=True))
    np.testing.assert_allclose(localisation.roc_auc(MAPS, MASKS), theirs, rtol=1e-12)


def test_the_pointing_game_is_the_same_without_tolerance_and_ties():
    theirs = quantus_score(metrics.localisation.PointingGame(disable_warnings=True))
    np.testing.assert_array_equal(localisation.pointing_game(MAPS, MASKS, tolerance=0), theirs)


def normalised(maps):
    """Return maps as Quantus scores them by default: divided by their largest magnitude."""
    return maps / np.abs(maps).max(axis=(1, 2), keepdims=True)


def test_complexity_is_the_same_but_for_quantus_s_small_constants():
    signed = GENERATOR.normal(size=MAPS.shape) * (GENERATOR.random(MAPS.shape) < 0.7)
    batch, maps = Batch(signed[..., np.newaxis], range(6), np.zeros(6, int)), np.abs(normalised(signed))

    def ours(name):
        return METRIC_REGISTRY[name].measure.compute(signed, batch, None)[:, 0]

    def theirs(name):
        return getattr(quantus, name)(disable_warnings=True).evaluate_batch(
            x_batch=None, a_batch=channels_first(maps.copy())
        )

    added = SIDE**2 * 1e-7 / maps.sum(axis=(1, 2))  # to the sum of each map
    np.testing.assert_allclose(theirs("Sparseness") * (1 + added), ours("sparseness"), rtol=1e-12)
    np.testing.assert_allclose(theirs("Complexity"), ours("complexity"), atol=SIDE**2 * 1e-12)
    np.testing.assert_array_equal(theirs("EffectiveComplexity"), ours("effective_complexity"))
    assert (ours("effective_complexity") < SIDE**2).all()
    one, level = np.eye(16).reshape(16, 4, 4), np.ones((1, 4, 4))
    for function, least, most in (
        (complexity.sparseness, 0, 15 / 16),
        (complexity.complexity, np.log(16), 0),
        (complexity.effective_complexity, 16, 1),
    ):
        np.testing.assert_allclose(function(level), least, atol=1e-12)
        np.testing.assert_allclose(function(one), most, atol=1e-12)


@pytest.mark.parametrize("k", [1, 5, 40])
def test_top_k_intersection_is_the_same_without_ties(k):
    theirs = quantus_score(metrics.localisation.TopKIntersection(k=k, disable_warnings=True))
    np.testing.assert_allclose(localisation.top_k_intersection(MAPS, MASKS, k), theirs, rtol=1e-12)


def test_attribution_localisation_is_the_same_but_for_quantus_s_small_constant():
    theirs = metrics.localisation.AttributionLocalisation(disable_warnings=True).evaluate_batch(
        x_batch=channels_first(MAPS), a_batch=channels_first(MAPS), s_batch=channels_first(MASKS)
    )
    total = MAPS.sum(axis=(1, 2))
    np.testing.assert_allclose(
        localisation.attribution_localisation(MAPS, MASKS), theirs * (1 + 1e-9 / total), rtol=1e-12
    )


def test_focus_of_mosaics_is_the_same_with_the_quadrants_of_the_class_as_mask():
    signed, quadrants = GENERATOR.normal(size=MAPS.shape), np.array([[1, 0, 0, 1], [0, 1, 1, 0]] * 3)
    mask = np.kron(quadrants.reshape(6, 2, 2), np.ones((4, 4))).astype(bool)
    batch = Batch(signed[..., np.newaxis], range(6), np.zeros(6, int), masks={"class": mask})
    theirs = metrics.localisation.Focus(disable_warnings=True).evaluate_batch(
        a_batch=channels_first(signed), c_batch=quadrants
    )
    ours = METRIC_REGISTRY["focus"].measure.compute(signed, batch, None)[:, 0]
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    negative = METRIC_REGISTRY["focus"].measure.compute(-np.abs(signed), batch, None)[:, 0]
    np.testing.assert_array_equal(negative, 0.5)  # Quantus gives 0: a map that says "nowhere" counts as "everywhere"


def test_of_several_highest_positions_quantus_counts_the_luckiest():
    """A map of one value hits for certain there; here it hits as often as a position drawn from it."""
    flat = np.ones_like(MAPS)
    assert quantus_score(metrics.localisation.PointingGame(disable_warnings=True), flat).all()
    np.testing.assert_allclose(localisation.pointing_game(flat, MASKS, 0), MASKS.mean(axis=(1, 2)))


def test_a_picture_that_is_all_mask_is_a_hit_in_quantus_and_undefined_here():
    full = np.ones_like(MASKS)
    assert quantus_score(metrics.localisation.PointingGame(disable_warnings=True), masks=full).all()
    assert np.isnan(localisation.pointing_game(MAPS, full)).all()


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


@pytest.mark.parametrize("is_normalised", [True, False])
def test_max_sensitivity_is_the_same_on_maps_normalised_by_their_second_moments(is_normalised):
    """On the same noisy pictures. By default Quantus does not normalise, and its ratio has no bound."""
    from quantus.functions.normalise_func import normalise_by_average_second_moment_estimate

    pictures, noisy = GENERATOR.random((6, SIDE, SIDE, 1)), []

    def explained(inputs):
        """Maps that are 1e-9 as large on the clean pictures, as gradients of a saturated probability are."""
        size = 1e-9 if np.array_equal(inputs, pictures) else 1
        return size * np.sin(9 * inputs[..., 0]) * WEIGHTS.reshape(SIDE, SIDE)

    def again(batch, model=None):
        noisy.append(batch.pictures)
        return explained(batch.pictures)

    batch = Batch(pictures, [str(row) for row in range(6)], np.zeros(6, np.int64))
    ours = sanity.max_sensitivity(explained(pictures), batch, again)
    replayed = iter(noisy)
    theirs = metrics.robustness.MaxSensitivity(
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
        np.testing.assert_allclose(ours, found, rtol=1e-9)
    else:
        assert (found > 1e8).all() and (ours <= 2).all()


def test_noisy_linear_imputation_solves_the_same_equations():
    """Quantus solves one channel by a sparse factorisation; ours is iterated, and differs by less than the noise."""
    from quantus.functions.perturb_func import noisy_linear_imputation

    rows, columns = np.mgrid[:16, :16]
    picture = np.sin(rows / 4) + columns / 10
    gone = (rows - 8) ** 2 + (columns - 6) ** 2 < 12
    theirs = noisy_linear_imputation(arr=picture[None], indices=np.flatnonzero(gone), noise=0.0).reshape(16, 16)
    ours = imputation.linear(picture[..., None].astype(np.float32), gone)[..., 0]
    assert np.sqrt(np.square(ours - theirs)[gone].mean()) < imputation.NOISE * np.ptp(picture)
