"""Methods on groups of positions, against enumeration, closed forms and other libraries."""

import itertools
import math

import numpy as np
import pytest
import saliency.core
import tensorflow as tf
from skimage import segmentation
from sklearn.linear_model import Ridge

import attribution
from attribution import batching
from attribution.errors import BadInput
from attribution.methods import gradients, perturbation

X = np.random.default_rng(0).normal(size=(3, 6)).astype(np.float32)
WEIGHTS = np.random.default_rng(1).normal(size=(6, 8)).astype(np.float32)
LABELS = np.array([4, 4, 9, 9, 9, 7])  # three groups of two, three and one features


@pytest.fixture(scope="module")
def network(from_function):
    """A network of six features, two scores and interactions."""
    rest = np.random.default_rng(2).normal(size=(8, 2)).astype(np.float32)
    return from_function(lambda x: tf.tanh(x @ WEIGHTS) @ rest + x[:, :2] * x[:, 2:4], 6)


@pytest.fixture(scope="module")
def linear(from_function):
    return from_function(lambda x: tf.matmul(x, WEIGHTS) + 3.0, 6)


@pytest.fixture(scope="module")
def pictures(from_function):
    """A network of pictures of 48 x 40 pixels, and two pictures of a bright rectangle."""
    kernel = np.random.default_rng(3).normal(size=(3, 3, 3, 4)).astype(np.float32)

    def scores(x):
        hidden = tf.nn.relu(tf.nn.conv2d(x, kernel, 2, "SAME"))
        return tf.reduce_mean(hidden, axis=(1, 2)) + 0.1 * tf.reduce_max(hidden, axis=(1, 2))

    images = np.random.default_rng(4).random((2, 48, 40, 3)) * 0.1
    images[0, 5:30, 6:20] += 0.8
    images[1, 20:45, 15:38] += [0.1, 0.5, 0.9]
    return from_function(scores, 48, 40, 3), images.astype(np.float32)


def shapley_values(model, x, target, labels, baseline=0.0):
    """Shapley values of groups by their definition, ``(groups,)``, groups in the order of their numbers."""
    names = np.unique(labels)
    players = range(len(names))
    sets = [members for size in range(len(names) + 1) for members in itertools.combinations(players, size)]
    kept = np.stack([np.isin(labels, names[list(members)]) for members in sets])
    scores = model.scores(np.where(kept, x, np.float32(baseline)))[:, target].astype(np.float64)
    score = dict(zip(sets, scores, strict=True))
    values = np.zeros(len(names))
    for members, player in itertools.product(sets, players):
        if player not in members:
            weight = 1 / (len(names) * math.comb(len(names) - 1, len(members)))
            values[player] += weight * (score[tuple(sorted((*members, player)))] - score[members])
    return values


def test_kernel_shap_of_few_groups_is_exact(network):
    maps = attribution.explain("kernel_shap", network, X, 1, baseline=0.3)
    expected = [shapley_values(network, x, 1, np.arange(6), 0.3) for x in X]
    np.testing.assert_allclose(maps, expected, atol=2e-5)


def test_a_group_shares_its_value_evenly(network):
    maps = attribution.explain("kernel_shap", network, X, 0, groups=LABELS)
    for found, x in zip(maps, X, strict=True):
        first, last, middle = shapley_values(network, x, 0, LABELS)
        expected = np.array([first / 2] * 2 + [middle / 3] * 3 + [last])
        np.testing.assert_allclose(found, expected, atol=2e-5)
        assert np.ptp(found[:2]) == np.ptp(found[2:5]) == 0


@pytest.mark.parametrize(
    ("method", "options"), [("kernel_shap", {"samples": 30}), ("shapley_sampling", {"permutations": 1})]
)
def test_a_linear_model_needs_few_samples(method, options, linear):
    maps = attribution.explain(method, linear, X, 5, baseline=0.5, **options)
    np.testing.assert_allclose(maps, (X - 0.5) * WEIGHTS[:, 5], atol=1e-5)


@pytest.mark.parametrize("method", ["kernel_shap", "shapley_sampling", "idgi"])
def test_the_sum_is_the_difference_of_scores(method, network):
    """However few the samples."""
    options = {"kernel_shap": {"samples": 15}, "shapley_sampling": {"permutations": 1}, "idgi": {"points": 3}}[method]
    _, found = attribution.explain(method, network, X, 1, baseline=0.2, return_residuals=True, **options)
    assert found.relative.max() < 1e-5


def test_more_permutations_come_nearer_to_shapley_values(network):
    expected = np.array([shapley_values(network, x, 1, np.arange(6)) for x in X])

    def error(permutations):
        return np.abs(
            attribution.explain("shapley_sampling", network, X, 1, permutations=permutations) - expected
        ).mean()

    assert error(200) < 0.3 * error(2)


def test_lime_is_the_ridge_regression_of_its_samples(network):
    samples, seed = 40, 3
    maps = attribution.explain("lime", network, X, 1, samples=samples, seed=seed)
    kept = []

    def same_samples(queries):
        kept.extend(queries.generator(row, "lime").random((samples, 6)) < 0.5 for row in range(len(queries)))
        return queries.inputs

    attribution.explain(same_samples, network, X, 1, seed=seed)
    for found, x, masks in zip(maps, X, kept, strict=True):
        masks = np.concatenate([np.ones((1, 6)), masks])
        scores = network.scores((masks * x).astype(np.float32))[:, 1]
        distances = 1 - masks.sum(axis=1) / np.sqrt(6 * np.maximum(masks.sum(axis=1), 1e-9))
        weights = np.sqrt(np.exp(-(distances**2) / 0.25**2))
        expected = Ridge(alpha=1.0).fit(masks, scores.astype(float), sample_weight=weights).coef_
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_the_cost_is_that_of_the_card(network):
    for method, options, expected in (
        ("shapley_sampling", {"permutations": 4}, 4 * 5 + 1),
        ("kernel_shap", {"samples": 30}, 30 + 1),
        ("kernel_shap", {"samples": 500}, 2**6 - 2 + 1),
        ("lime", {"samples": 30}, 30),
        ("occlusion", {"groups": LABELS}, 3),
        ("rise", {"groups": LABELS}, 2**3 - 1),  # it does not need the score of the input
        ("rise", {"groups": "features", "masks": 63}, 62),
        ("idgi", {"points": 9}, 0),
    ):
        network.counts.clear()
        attribution.explain(method, network, X, 1, batch_size=3, **options)
        assert network.counts["forward"] == 3 * (expected + 1), method  # and the input itself
    assert network.counts["backward"] == 3 * 8  # of the points of IDGI but the last


def test_superpixels_follow_the_picture(pictures):
    model, images = pictures
    maps = attribution.explain("kernel_shap", model, images, 0, groups="superpixels", samples=200)
    assert maps.shape == (2, 48, 40)
    assert (maps[0, 8:28, 3] != maps[0, 8:28, 8]).mean() > 0.8  # an edge of the rectangle lies between
    patches = attribution.explain("kernel_shap", model, images, 0, samples=200)
    assert len(np.unique(patches[0])) == 64  # 8 x 8 by default


def test_xrai_equals_the_authors_on_the_same_attribution(pictures):
    model, images = pictures
    low, high = (end(axis=(1, 2, 3), keepdims=True) for end in (images.min, images.max))
    attributions = sum(
        attribution.explain("integrated_gradients", model, images, 2, points=11, baseline=end) / 2
        for end in (low, high)
    )
    maps = attribution.explain("xrai", model, images, 2, points=11)
    for found, image, base in zip(maps, images, attributions, strict=True):
        expected = saliency.core.XRAI().GetMask(image, None, base_attribution=base)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7 * np.abs(expected).max())


def test_xrai_segments_each_picture_once_whatever_is_explained(pictures, monkeypatch):
    model, images = pictures
    counted, segment = [], segmentation.felzenszwalb
    monkeypatch.setattr(segmentation, "felzenszwalb", lambda *a, **options: counted.append(0) or segment(*a, **options))
    gradients._segments.cache_clear()
    maps, _ = (attribution.explain("xrai", model, images, target, points=3) for target in (2, 1))
    assert len(counted) == 6 * len(images)  # scales
    attribution.explain("xrai", model, images[:, ::-1], 2, points=3)
    assert len(counted) == 12 * len(images)
    gradients._segments.cache_clear()
    assert attribution.explain("xrai", model, images, 2, points=3).tobytes() == maps.tobytes()


@pytest.mark.parametrize(
    ("groups", "baseline"), [("patches", 0.4), ("windows", [0.1, 0.5, 0.9]), ("windows", "median")]
)
def test_occlusion_of_groups_equals_that_of_windows_without_overlap(groups, baseline, pictures):
    model, images = pictures
    if groups == "windows":
        groups = np.arange(48)[:, np.newaxis] // 6 * 8 + np.arange(40) // 5
    expected = attribution.explain("occlusion", model, images, 1, baseline=baseline, batch_size=5)
    maps = attribution.explain("occlusion", model, images, 1, groups=groups, baseline=baseline, batch_size=5)
    np.testing.assert_allclose(maps, expected, rtol=1e-6, atol=1e-7)


def test_occlusion_of_a_linear_model_gives_every_position_its_group_s_share(linear):
    """Also where the caller gives them: a median, an array, or a column of groups for each input."""
    start = np.linspace(-1, 1, 6, dtype=np.float32)
    labels = np.stack([LABELS, np.arange(6), np.zeros(6, int)])
    shares = (X - start) * WEIGHTS[:, 3]
    expected = [[share[label == one].sum() for one in label] for share, label in zip(shares, labels, strict=True)]
    maps = attribution.explain("occlusion", linear, X, 3, groups=labels, baseline=start)
    np.testing.assert_allclose(maps, expected, atol=1e-5)


@pytest.mark.parametrize("probability", [0.5, 0.3])
def test_rise_of_few_groups_is_the_expectation_over_all_masks(probability, network, linear):
    """Σ over all masks of their probability times f, where the position is kept, as a share of that it is."""
    maps = attribution.explain("rise", network, X, 1, groups=LABELS, probability=probability, baseline=0.2, masks=8)
    expected = np.zeros((3, 6))
    for kept in itertools.product((0.0, 1.0), repeat=3):
        mask = np.array(kept)[[0, 0, 2, 2, 2, 1]]  # in the order of the numbers 4, 7, 9
        weight = probability ** sum(kept) * (1 - probability) ** (3 - sum(kept))
        scores = network.scores((X * mask + 0.2 * (1 - mask)).astype(np.float32))[:, 1]
        expected += weight * np.outer(scores, mask) / probability
    np.testing.assert_allclose(maps, expected, atol=1e-5)
    # A linear model's is its bias and the group's share, and those of the others as often as they are kept.
    maps = attribution.explain("rise", linear, X, 4, groups="features", probability=probability)
    shares = X * WEIGHTS[:, 4]
    others = probability * (shares.sum(axis=1, keepdims=True) - shares)
    np.testing.assert_allclose(maps, 3.0 + shares + others, atol=1e-5)


def test_rise_of_many_groups_is_the_mean_of_its_masks(network):
    maps = attribution.explain("rise", network, X, 0, groups="features", masks=60, probability=0.7, seed=3)
    masks = np.stack([batching.generator(3, number, "rise").random(6) < 0.7 for number in range(60)])
    scores = np.stack([network.scores(X * mask)[:, 0] for mask in masks])
    np.testing.assert_allclose(maps, np.einsum("mn,mf->nf", scores, masks) / (60 * 0.7), atol=1e-5)


def test_rise_covers_with_the_baseline(linear):
    """With a baseline of the input itself, no mask changes the score: the map is the score times the mean mask."""
    for start in (X, 0.0):
        maps = attribution.explain("rise", linear, X, 2, masks=400, baseline=start)
        score = linear.scores(X)[:, 2:3] * np.ones((1, 6))
        assert np.allclose(maps / score, (maps / score)[:1]) == (start is X)


@pytest.mark.parametrize("method", ["occlusion", "rise", "kernel_shap"])
def test_words_and_time_steps_are_groups(method, from_function):
    weights = np.random.default_rng(6).normal(size=(5, 4)).astype(np.float32)
    model = from_function(lambda x: tf.reduce_sum(x * weights, axis=(1, 2))[:, np.newaxis], 5, 4)
    x = np.random.default_rng(7).normal(size=(2, 5, 4)).astype(np.float32)
    tokens = (x * weights).sum(axis=-1)
    first, rest = tokens[:, :2].sum(axis=1, keepdims=True), tokens[:, 2:].sum(axis=1, keepdims=True)
    words = np.array([0, 0, 1, 1, 1])
    values = {
        "occlusion": (first, rest),
        "rise": (first + rest / 2, rest + first / 2),
        "kernel_shap": (first / 2, rest / 3),
    }[method]
    maps = attribution.explain(method, model, x, groups=words)
    np.testing.assert_allclose(maps, np.concatenate(values, axis=1)[:, words], atol=1e-5)


@pytest.mark.parametrize("method", ["kernel_shap", "shapley_sampling", "lime", "occlusion", "rise"])
def test_groups_may_differ_between_inputs_and_batches_do_not_matter(method, network):
    labels = np.stack([LABELS, np.arange(6), np.zeros(6, int)])
    whole = attribution.explain(method, network, X, 1, groups=labels, batch_size=3)
    single = attribution.explain(method, network, X, 1, groups=labels, batch_size=1)
    np.testing.assert_allclose(whole, single, atol=1e-5)
    assert len(np.unique(whole[2])) == 1 and len(np.unique(whole[0])) == 3


def test_lime_of_constant_groups_is_0_where_their_mean_takes_their_place(linear):
    flat = np.array([[1, 1, 2, 2, 2, 5]], np.float32)
    for x, is_zero in ((flat, True), (flat + [[0.5, -0.5, 0, 0, 0, 0]], False)):
        maps = attribution.explain("lime", linear, x, 0, groups=LABELS, baseline="group_mean", ridge=0.0)
        assert (np.abs(maps).max() < 1e-4) == is_zero
    assert np.abs(maps[:, 2:]).max() < 1e-4


def test_means_of_groups_are_those_of_each_channel(from_function):
    x = np.random.default_rng(6).normal(size=(2, 4, 2)).astype(np.float32)
    model = from_function(
        lambda x: tf.reduce_sum(x * [[[1.0, -3.0]]] * [[[1.0], [2.0], [3.0], [4.0]]], axis=(1, 2)), 4, 2
    )
    maps = attribution.explain("kernel_shap", model, x, groups=[0, 0, 1, 1], baseline="group_mean")
    halves = x.reshape(2, 2, 2, 2)
    parts = (halves - halves.mean(axis=2, keepdims=True)) * [1, -3] * np.float32([1, 2, 3, 4]).reshape(2, 2, 1)
    np.testing.assert_allclose(maps[:, ::2], parts.sum(axis=(2, 3)) / 2, atol=1e-5)


def test_lime_with_the_strongest_groups_has_those_of_the_largest_coefficients(linear):
    shares = X * WEIGHTS[:, 2]
    maps = attribution.explain("lime", linear, X, 2, groups="features", ridge=0.0, strongest=2)
    assert (np.count_nonzero(maps, axis=1) == 2).all()
    for of_row, share in zip(maps, shares, strict=True):
        assert set(np.flatnonzero(of_row)) == set(np.argsort(-np.abs(share))[:2])
    every = attribution.explain("lime", linear, X, 2, groups="features", strongest=9)
    np.testing.assert_array_equal(every, attribution.explain("lime", linear, X, 2, groups="features"))


def test_lime_of_lime_is_constant_in_each_segment_of_quick_shift(pictures):
    model, images = pictures
    segments = perturbation.labels_of(images, "quickshift")
    maps = attribution.explain("lime@lime", model, images, 1, samples=50)
    for of_image, image, labels in zip(maps, images, segments, strict=True):
        wide = perturbation.labels_of(255 * image[np.newaxis], "quickshift")
        assert 1 < len(np.unique(labels)) < len(np.unique(wide))
        assert np.ptp(of_image) > 0 and all(np.ptp(of_image[labels == one]) == 0 for one in np.unique(labels))
    with pytest.raises(BadInput, match="groups='quickshift' needs images with three channels, not 1"):
        perturbation.labels_of(images[..., :1], "quickshift")


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.zeros(5, int), "whole numbers are needed of the positions' shape"),
        (np.zeros(6), "of shape .* and type float64"),
        (np.ma.masked_equal(np.zeros(6, int), 0), "groups: a masked array"),
        ([[1], [2, 3]], "groups: a list whose parts differ in shape"),
        ("words", "groups='words'; groups are None, 'features', 'patches', 'superpixels'"),
        ("superpixels", "groups='superpixels'; groups are None, .*, 'superpixels' or 'quickshift' .of images"),
    ],
)
def test_other_groups_are_refused(groups, message, network):
    with pytest.raises(BadInput, match=message):
        attribution.explain("lime", network, X, 1, groups=groups)


@pytest.mark.parametrize(
    ("method", "options"), [("lime", {"groups": np.zeros((2, 6), int)}), ("idgi", {"baseline": np.zeros((2, 6))})]
)
def test_rows_for_some_inputs_only_are_refused(method, options, network):
    """Also where every batch has as many."""
    with pytest.raises(BadInput, match="an array of 2 rows for 4 inputs; give one for each, or one"):
        attribution.explain(method, network, np.concatenate([X, X[:1]]), 1, batch_size=2, **options)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("shapley_sampling", {"permutations": 0}),
        ("kernel_shap", {"samples": 1}),
        ("lime", {"width": 0}),
        ("idgi", {"points": 1}),
        ("blur_ig", {"steps": 0}),
        ("rise", {"masks": 0, "groups": "features"}),
    ],
)
def test_impossible_parameters_are_refused(method, options, network):
    with pytest.raises(BadInput, match=f"{method} needs"):
        attribution.explain(method, network, X, 1, **options)


def test_patches_and_groups_exclude_each_other(network):
    with pytest.raises(BadInput, match="occlusion takes groups= or patch= and stride=, not both"):
        attribution.explain("occlusion", network, X, 1, groups=LABELS, patch=2)


def test_idgi_of_a_linear_model_shares_by_squared_weights(linear):
    squares = WEIGHTS[:, 2] ** 2 / (WEIGHTS[:, 2] ** 2).sum()
    maps = attribution.explain("idgi", linear, X, 2, points=4)
    np.testing.assert_allclose(maps, (X @ WEIGHTS[:, 2:3]) * squares, atol=1e-5)


def test_blur_ig_of_a_sum_of_squares_is_half_the_difference_of_squares(from_function):
    model = from_function(lambda x: 0.5 * tf.reduce_sum(x**2, axis=(1, 2))[:, np.newaxis], 12, 2)
    x = np.random.default_rng(5).normal(size=(3, 12, 2)).astype(np.float32)
    blurred = np.zeros((3, 12, 2))
    offsets = np.arange(-12, 13)  # beyond four standard deviations, scipy's kernel ends
    for position, channel in itertools.product(range(12), range(2)):
        kernel = np.where(abs(offsets) <= 8, np.exp(-(offsets**2) / 8), 0)
        sources = [
            (position + o, w) for o, w in zip(offsets, kernel / kernel.sum(), strict=True) if 0 <= position + o < 12
        ]
        blurred[:, position, channel] = sum(w * x[:, source, channel] for source, w in sources)
    maps = attribution.explain("blur_ig", model, x, 0, steps=7, max_sigma=2.0)
    np.testing.assert_allclose(maps, (x.astype(float) ** 2 - blurred**2) / 2, atol=1e-5)
