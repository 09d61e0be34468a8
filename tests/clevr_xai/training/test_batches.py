"""Batches: sampled questions, augmented images, sampled pairs of cells."""

import numpy as np
import pytest

from clevr_xai.training import batches


@pytest.mark.parametrize("mirrored", [False, True])
def test_centres_and_segmentation_move_with_their_images(mirrored, monkeypatch):
    monkeypatch.setattr(batches, "SHIFT", 5)
    images = np.zeros((20, 32, 32, 3), np.uint8)
    images[:, 10, 20] = 255
    segmentation = images[..., 0] // 255
    moved, moved_segmentation, centres = batches.move(
        images, segmentation, np.tile(np.float32([20, 10]), (20, 1, 1)), np.random.default_rng(0), np.full(20, mirrored)
    )
    seen = set()
    for image, (column, row) in zip(moved, centres[:, 0], strict=True):
        assert image[int(row), int(column)].tolist() == [255] * 3
        assert image.sum() == 3 * 255
        seen.add((column, row))
    np.testing.assert_array_equal(moved_segmentation, moved[..., 0] // 255)
    assert len(seen) > 10
    assert (images[:, 10, 20] == 255).all()


def test_borders_are_repeated():
    images = np.full((1, 8, 8, 3), 7, np.uint8)
    moved, _, _ = batches.move(images, images[..., 0], np.zeros((1, 1, 2)), np.random.default_rng(0), np.zeros(1, bool))
    assert (moved == 7).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda data, rng: batches.reading_batch(data, rng, 5),
        lambda data, rng: batches.seeing_batch(data, rng, 3),
        lambda data, rng: batches.answering_batch(data, rng, 3, 4, 128),
    ],
)
def test_a_batch_follows_from_its_seed(coded_data, make):
    first, again, other = (make(coded_data, np.random.default_rng(seed)) for seed in ((0, 1), (0, 1), (0, 2)))
    for one, same, another in zip(first, again, other, strict=True):
        assert all(np.array_equal(value, same[name]) for name, value in one.items())
        assert not all(np.array_equal(value, another[name]) for name, value in one.items())


def test_a_reading_batch_has_questions_with_their_programs(training_data):
    inputs, wanted = batches.reading_batch(training_data, np.random.default_rng(0), 200)
    assert inputs["question"].shape[1] % 8 == 0
    assert wanted["program"].shape == (200, 24)
    known = {tuple(words): program for words, program in zip(training_data.tokens, training_data.programs, strict=True)}
    exchanged = 0
    for words, program in zip(inputs["question"], wanted["program"], strict=True):
        words = np.resize(np.append(words, np.zeros(99, np.int32)), training_data.tokens.shape[1])
        if tuple(words) not in known:
            words, program, exchanged = batches.MIRRORED_TOKENS[words], batches.MIRRORED_NODES[program], exchanged + 1
        np.testing.assert_array_equal(known[tuple(words)], program)
    assert exchanged > 3


def test_questions_are_about_their_image_and_mirrored_with_it(coded_data, monkeypatch):
    inputs, wanted = batches.answering_batch(coded_data, np.random.default_rng(0), 8, 6, 128)
    numbers = inputs["code"][..., 0]
    rows = np.abs(numbers).astype(int) - 1
    np.testing.assert_array_equal(wanted["answer"], coded_data.answers[rows])
    assert (np.sign(numbers) == np.sign(numbers[:, :1])).all()
    assert len(np.unique(np.sign(numbers))) == 2
    images = coded_data.image_of[rows]
    assert (images == images[:, :1]).all()
    assert all(len(set(line)) == 6 for line in rows)  # none twice
    for name in ("MIRRORED", "SHIFT"):
        monkeypatch.setattr(batches, name, 0)
    jittered, _ = batches.answering_batch(coded_data, np.random.default_rng(0), 8, 6, 128)
    original = coded_data.images[coded_data.image_of[jittered["code"][:, 0, 0].astype(int) - 1]]
    altered = (jittered["image"] != original).mean(axis=(1, 2, 3))
    assert altered.min() == 0 and altered.max() > 0.5  # some are unchanged


def test_members_are_those_of_the_sets_and_rows_their_pairs(coded_data, monkeypatch):
    monkeypatch.setattr(batches, "SHIFT", 0)
    inputs, wanted = batches.answering_batch(coded_data, np.random.default_rng(0), 4, 5, 128)
    rows = np.abs(inputs["code"][..., 0]).astype(int) - 1
    known = ~np.isnan(coded_data.centres[coded_data.image_of[rows[:, 0]], :, 0])
    sets = coded_data.sets[rows].astype(int)
    members = wanted["members"]
    np.testing.assert_array_equal(members >= 0, known[:, None, :, None] & (sets >= 0)[:, :, None])
    bits = ((members == 1) << np.arange(10)[:, None]).sum(axis=2)
    np.testing.assert_array_equal(bits, np.maximum(sets, 0))
    for image in range(4):
        assert not inputs["rows"][image, ~known[image]].any()
        cells = np.flatnonzero(wanted["cells"][image, :, 4] == batches.CENTRE)
        for pairs in inputs["rows"][image, known[image]]:
            first, second = inputs["pairs"][image, pairs > 0].T
            assert len(set(first)) == 1 and first[0] in cells
            assert sorted(second) == cells.tolist()


def test_mirroring_is_an_involution():
    for table in (batches.MIRRORED_TOKENS, batches.MIRRORED_NODES):
        np.testing.assert_array_equal(table[table], np.arange(len(table)))
        assert (table != np.arange(len(table))).sum() == 2


def images(number=400):
    """Half gray 100, half gray 140: mean 120, all channels alike."""
    values = np.full((number, 8, 8, 3), 100, np.uint8)
    values[:, :, 4:] = 140
    return values


@pytest.fixture
def jittered(monkeypatch):
    """Return a maker of jittered images, with some of the changes left out."""

    def make(given, without):
        for name in without:
            monkeypatch.setattr(batches, name, 1.0 if name == "GAIN" else 0.0)
        before = given.copy()
        made = batches.jitter_colors(given, np.random.default_rng(0))
        assert made.dtype == np.uint8 and (given == before).all()
        return made.astype(float)

    return make


def test_exposure_contrast_and_colour_stay_in_their_ranges(jittered):
    altered = jittered(images(), ("FADED", "NOISE"))
    green = altered[..., 1].mean(axis=(1, 2)) / 120
    assert 1 / batches.GAIN - 0.02 <= green.min() < 0.7 and 1.5 < green.max() <= batches.GAIN + 0.02
    contrast = (altered[:, :, 4:, 1].mean(axis=(1, 2)) - altered[:, :, :4, 1].mean(axis=(1, 2))) / (40 * green)
    assert 1 - batches.CONTRAST - 0.04 <= contrast.min() < 0.8 and 1.2 < contrast.max() <= 1 + batches.CONTRAST + 0.04
    warmth = altered[..., 0].mean(axis=(1, 2)) / altered[..., 2].mean(axis=(1, 2))
    assert warmth.min() < 0.85 and warmth.max() > 1.18


def test_some_images_are_faded_and_half_of_those_towards_black(jittered):
    altered = jittered(images(4000), ("GAIN", "NOISE", "CONTRAST", "TEMPERATURE"))
    difference = altered[:, 0, 4, 0] - altered[:, 0, 0, 0]
    faded = difference < 39
    assert abs(faded.mean() - batches.FADED) < 0.03
    share = 1 - difference[faded] / 40
    level = (altered[faded, 0, 0, 0] - (1 - share) * 100) / np.maximum(share, 0.2)
    dark = level[share > 0.5] < 3
    assert 0.4 < dark.mean() < 0.6
    even = difference == 0
    assert abs(even[faded].mean() - batches.EVEN) < 0.06
    assert abs((altered[even] == 0).all(axis=(1, 2, 3)).mean() - batches.BLACK) < 0.1


def test_noise_is_within_its_range(jittered):
    altered = jittered(np.full((300, 16, 16, 3), 128, np.uint8), ("FADED", "CONTRAST", "GAIN", "TEMPERATURE"))
    deviations = altered.std(axis=(1, 2, 3))
    assert deviations.max() < batches.NOISE * 1.15 and abs(deviations.mean() - batches.NOISE / 2) < 0.3


def cells(rows, total=9):
    found = np.zeros((len(rows), total), bool)
    for row, chosen in enumerate(rows):
        found[row, list(chosen)] = True
    return found


def sample(number, seed=0, centres=((0, 4), (2,)), shown=((0, 1, 4, 5), (2,))):
    return batches.sample_pairs(cells(centres), cells(shown), number, np.random.default_rng(seed))


def matrix(pairs, weights, total=9):
    summed = np.zeros((total, total))
    np.add.at(summed, tuple(pairs.T), weights)
    return summed


@pytest.mark.parametrize("number", [8, 12, 30, 40])
def test_each_pair_is_drawn_at_most_once_those_of_centres_always_and_weights_add_up(number):
    for seed in range(20):
        pairs, weights = sample(number, seed)
        np.testing.assert_allclose(weights.sum(axis=1), 81, rtol=1e-6)
        for row, centres in enumerate(((0, 4), (2,))):
            assert len(set(map(tuple, pairs[row]))) == number
            assert (matrix(pairs[row], weights[row])[np.ix_(centres, centres)] == 1).all()


def test_sums_are_right_in_expectation():
    """The mean over draws of each pair's weight is 1, within five standard errors of it."""
    samples = np.array([matrix(pairs[0], weights[0]) for pairs, weights in (sample(16, seed) for seed in range(3000))])
    error = samples.std(axis=0) / np.sqrt(len(samples))
    assert (np.abs(samples.mean(axis=0) - 1) <= 5 * error + 1e-6).all()
    assert error.max() > 0


def test_as_many_as_there_are_means_all_once():
    pairs, weights = sample(81)
    for row in range(2):
        np.testing.assert_array_equal(matrix(pairs[row], weights[row]), 1)


def test_a_picture_full_of_objects_and_an_empty_one():
    everything = range(9)
    pairs, weights = sample(20, centres=((3,), ()), shown=(everything, ()))
    np.testing.assert_allclose(weights.sum(axis=1), 81, rtol=1e-6)
    assert matrix(pairs[0], weights[0])[3, 3] == 1
    assert len(set(weights[1])) == 1  # one stratum, one weight


def test_pairs_of_what_is_shown_are_drawn_more_often():
    pairs, weights = sample(30)
    shown = cells(((0, 1, 4, 5),))[0]
    both = shown[pairs[0]].all(axis=1)
    assert weights[0][both].max() < weights[0][~both].min()


def test_too_few_pairs_are_refused():
    with pytest.raises(ValueError, match="6 pairs are too few for images with 4 pairs of centres"):
        sample(6)
