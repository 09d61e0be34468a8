"""Localisation: closed forms, scikit-learn's figures, what theory gives a random map, and the truth as the best map."""

import numpy as np
import pytest
from scipy.stats import hypergeom
from sklearn.metrics import average_precision_score, roc_auc_score

from attribution.errors import BadInput
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.controls import GROUND_TRUTH, RANDOM, UNIFORM
from attribution_benchmarks.metrics import localisation
from attribution_benchmarks.metrics.registry import select_metrics

SIDE = 12
NAMES = [metric.name for metric in localisation.METRICS]


def block_of(masks, channels=3):
    masks = np.asarray(masks, bool)
    pictures = np.zeros((*masks.shape, channels), np.float32)
    return Batch(pictures, [str(row) for row in range(len(masks))], masks={"object": masks})


def square(count, side=4, size=SIDE):
    masks = np.zeros((count, size, size), bool)
    masks[:, 2 : 2 + side, 3 : 3 + side] = True
    return masks


def values(name, maps, batch):
    (metric,) = select_metrics([name], {}).values()
    return metric.measure.function(maps, batch, None)


def of_masks(name, maps, masks):
    """Return the values of maps, (N, positions...), with their masks."""
    return values(name, maps, block_of(masks, 1))


def test_four_positions_by_hand():
    """Values 4 3 2 1, the truth at the second and the last: two of four pairs are right."""
    maps, mask = np.array([[4.0, 3.0, 2.0, 1.0]]), np.array([[False, True, False, True]])
    assert of_masks("pointing_game", maps, mask) == 0
    assert of_masks("roc_auc", maps, mask) == 1 / 4  # the second is above the third, and that is all
    assert of_masks("average_precision", maps, mask) == (1 / 2 + 2 / 4) / 2
    assert of_masks("iou_at_area", maps, mask) == 1 / 3


def test_equal_values_count_as_their_mean_over_all_orders():
    maps, mask = np.array([[2.0, 1.0, 1.0, 0.0]]), np.array([[False, True, False, True]])
    assert of_masks("roc_auc", maps, mask) == (0.5 + 0) / 4
    assert of_masks("iou_at_area", maps, mask) == 0.5 / 3.5
    flat = np.ones((1, 4))
    assert of_masks("pointing_game", flat, mask) == of_masks("roc_auc", flat, mask) == 0.5


@pytest.mark.parametrize("levels", [3, 1000])
def test_curves_are_scikit_learns_with_and_without_ties(levels):
    generator = np.random.default_rng(0)
    maps = generator.integers(levels, size=(20, SIDE, SIDE)).astype(float)
    masks = generator.random((20, SIDE, SIDE)) < generator.random((20, 1, 1)) * 0.8 + 0.1
    pairs = [(mask.ravel(), one.ravel()) for mask, one in zip(masks, maps, strict=True)]
    expected = [roc_auc_score(*pair) for pair in pairs], [average_precision_score(*pair) for pair in pairs]
    np.testing.assert_allclose(of_masks("roc_auc", maps, masks), expected[0], rtol=1e-12)
    np.testing.assert_allclose(of_masks("average_precision", maps, masks), expected[1], rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_the_truth_as_map_is_best_and_its_opposite_worst(name):
    batch = block_of(square(3))
    truth = GROUND_TRUTH.maps(batch, 0)
    np.testing.assert_array_equal(values(name, truth, batch), 1.0)
    opposite = 2 - 2 * truth + RANDOM.maps(batch, 0)
    assert (values(name, opposite, batch) < values(name, UNIFORM.maps(batch, 0), batch)).all()


def test_a_random_map_gets_what_theory_says():
    count, inside, total = 4000, 16, SIDE * SIDE
    batch = block_of(square(count))
    maps = RANDOM.maps(batch, 0)
    harmonic = (1 / np.arange(1, total + 1)).sum()
    common = np.arange(inside + 1)
    theory = {
        "pointing_game": inside / total,  # a side of 12 has no tolerance: 0.36 positions
        "roc_auc": 0.5,
        "top_k_intersection": inside / total,
        "attribution_localisation": inside / total,
        "average_precision": (harmonic + (inside - 1) / (total - 1) * (total - harmonic)) / total,
        "iou_at_area": (hypergeom(total, inside, inside).pmf(common) * common / (2 * inside - common)).sum(),
    }
    for name, expected in theory.items():
        found = values(name, maps, batch)
        # Four standard errors: one of some 16,000 such tests would fail by chance, and the seed is fixed.
        assert abs(found.mean() - expected) < 4 * found.std() / np.sqrt(count), name


@pytest.mark.parametrize(("distance", "hit"), [(3, 1), (4, 0)])
def test_three_percent_of_the_longest_side_are_tolerated(distance, hit):
    mask, maps = np.zeros((1, 60, 100), bool), np.zeros((1, 60, 100))
    mask[0, 50, 50], maps[0, 50, 50 + distance] = True, 1
    assert of_masks("pointing_game", maps, mask) == hit


@pytest.mark.parametrize("name", NAMES)
def test_channels_count_by_their_size_and_nothing_depends_on_scale(name):
    batch = block_of(square(5))
    maps = np.random.default_rng(1).normal(size=(5, SIDE, SIDE, 3))
    sizes = np.maximum(maps, 0) if name == "focus" else np.abs(maps)
    expected = values(name, sizes.sum(axis=-1), batch)
    np.testing.assert_array_equal(values(name, maps, batch), expected)
    np.testing.assert_array_equal(values(name, 8 * maps, batch), expected)


@pytest.mark.parametrize("name", NAMES)
def test_masks_that_tell_nothing_and_maps_that_are_none_are_undefined(name):
    masks = square(4)
    masks[0], masks[1] = False, True
    maps = np.random.default_rng(2).random((4, SIDE, SIDE))
    maps[2, 0, 0] = np.nan
    found = values(name, maps, block_of(masks))
    assert np.isnan(found[:3]).all() and np.isfinite(found[3])


def test_a_map_of_other_positions_is_refused():
    with pytest.raises(BadInput, match=r"maps of shape \(6, 6\); the inputs have the positions \(12, 12\)"):
        values("roc_auc", np.zeros((1, 6, 6)), block_of(square(1)))


def test_signals_too():
    mask = np.zeros((1, 40), bool)
    mask[0, 10:22] = True
    batch = Batch(np.zeros((1, 40, 1)), ["0"], masks={"template": mask})
    for name in NAMES:
        assert values(name, mask[..., None].astype(float), batch) == 1.0
