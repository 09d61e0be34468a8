"""Batches: sampled questions, augmented images, pairs of cells; auxiliary targets as in programs and scenes."""

import numpy as np
import pytest

from clevr_xai.training import batches
from clevr_xai.training.training_set import MAX_NODES, NODES, cell_of
from clevr_xai.vocabulary import ANSWERS, ATTRIBUTES


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


def test_compared_objects_are_those_whose_attributes_agree_or_not(training_data):
    objects = batches.compared_objects(training_data.programs, training_data.sets)
    named = np.array([NODES[node] for node in training_data.programs[:, 0]])
    compares = np.char.startswith(named, "equal_") & (named != "equal_integer")
    assert ((objects >= 0).all(axis=1) == compares).all() and compares.sum() > 10
    for row in np.flatnonzero(compares):
        position = list(ATTRIBUTES).index(named[row].removeprefix("equal_"))
        first, second = training_data.attributes[training_data.image_of[row], objects[row], position]
        assert (first == second) == (ANSWERS[training_data.answers[row]] == "yes")


def test_only_the_two_pairs_of_the_compared_objects_carry_the_answer():
    objects = np.array([[[0, 2], [-1, -1], [1, 3]]])
    answers = np.array([[ANSWERS.index("yes"), ANSWERS.index("red"), ANSWERS.index("no")]])
    cells = np.array([[5, 6, 9, 6, -1]])  # objects 1 and 3 share a cell: what it shows cannot be told
    pairs = np.array([[[5, 9], [9, 5], [5, 5], [5, 6], [1, 2]]])
    counted = np.array([[True, True, True, True, False]])
    found = batches.comparison_targets(objects, answers, cells, pairs, counted)[0]
    assert found[0].tolist() == [batches.EQUAL, batches.EQUAL, batches.OTHER, batches.OTHER, -1]
    assert (found[1:] == -1).all()
    unlike = batches.comparison_targets(objects[:, :1], answers[:, 2:], cells, pairs, counted)[0, 0]
    assert unlike.tolist() == [batches.DIFFERENT, batches.DIFFERENT, batches.OTHER, batches.OTHER, -1]


def test_batches_have_operands_and_the_pairs_of_their_comparisons(training_data, coded_data, monkeypatch):
    monkeypatch.setattr(batches, "SHIFT", 0)
    number = 0
    for seed in range(6):
        inputs, wanted = batches.answering_batch(coded_data, np.random.default_rng(seed), 4, 12, 128)
        rows = np.abs(inputs["code"][..., 0]).astype(int) - 1
        asked = training_data.programs[rows], training_data.sets[rows]
        operands = batches.operand_targets(*asked, training_data.attributes[training_data.image_of[rows]])
        assert (wanted["operands"] == operands).all() and (operands >= 0).any()
        for image, question in np.argwhere((wanted["compared"] > 0).any(axis=2)):
            row = rows[image, question]
            objects = batches.compared_objects(training_data.programs[row], training_data.sets[row])
            cells = cell_of(training_data.centres[training_data.image_of[row], objects])
            these = inputs["pairs"][image][wanted["compared"][image, question] > 0]
            mirrored = cells // 7 * 7 + 6 - cells % 7
            assert sorted(map(tuple, these)) in [sorted([tuple(each), tuple(each[::-1])]) for each in (cells, mirrored)]
            number += 1
    assert number > 5


def test_operands_give_the_answers(training_data):
    """The program computes its first argument first: it stands last here."""
    attributes = training_data.attributes[training_data.image_of]
    found = batches.operand_targets(training_data.programs, training_data.sets, attributes)
    named = np.array([NODES[node] for node in training_data.programs[:, 0]])
    compares = np.isin(named, [name for name in NODES if name.startswith("equal_") or name.endswith("_than")])
    assert ((found >= 0).all(axis=1) == compares).all() and (found[~compares] == -1).all()
    assert len(set(named[compares])) >= 6
    for row in np.flatnonzero(compares):
        second, first = found[row]
        kind = named[row].partition("_")[0]
        answer = {"equal": first == second, "less": first < second, "greater": first > second}[kind]
        assert answer == (ANSWERS[training_data.answers[row]] == "yes")


def placed(*names):
    nodes = [NODES.index(name) for name in names]
    (found,) = batches.phrase_targets(np.array([nodes + [0] * (MAX_NODES - len(nodes))]))
    return {place: tuple(map(int, found[place])) for place in range(batches.SLOTS) if found[place].any()}


def value(name, word):
    return ATTRIBUTES[name].index(word) + 1


RED_CUBE = ("filter_shape cube", "filter_color red")
RED_CUBE_ENTRIES = (0, value("color", "red"), 0, value("shape", "cube"), 0)
SMALL = ("filter_size small",)
SMALL_ENTRIES = (value("size", "small"), 0, 0, 0, 0)


def test_a_chain_goes_from_the_described_objects_to_those_that_describe_them():
    found = placed("query_size", "unique", *RED_CUBE, "relate left", "unique", *SMALL, "same_color", "unique", "scene")
    assert found == {1: (*RED_CUBE_ENTRIES[:4], 1), 2: (*SMALL_ENTRIES[:4], 6)}


@pytest.mark.parametrize("later", [SMALL, (*SMALL, "filter_color red"), (*SMALL, "relate front", "unique", *RED_CUBE)])
def test_a_phrase_has_its_slot_whatever_follows(later):
    found = placed("equal_size", "query_size", "unique", *later, "scene", "query_size", "unique", *RED_CUBE, "scene")
    assert found[1 + batches.CHAIN] == RED_CUBE_ENTRIES


def test_phrases_before_a_join_are_the_trunk():
    found = placed("count", *SMALL, "union", *RED_CUBE, "scene", "relate right", "unique", *RED_CUBE, "scene")
    assert found == {0: SMALL_ENTRIES, 1: RED_CUBE_ENTRIES, 5: (0, 0, 0, 0, 2), 6: RED_CUBE_ENTRIES}


def test_every_filter_and_relation_of_real_programs_has_a_slot(training_data):
    named = np.array(NODES)[training_data.programs]
    words = np.any([np.char.startswith(named, word) for word in ("filter", "relate", "same")], axis=0)
    found = batches.phrase_targets(training_data.programs)
    assert ((found > 0).sum(axis=(1, 2)) == words.sum(axis=1)).all()
    assert (found.max(axis=(0, 1)) < batches.SLOT_SIZES).all()


def square(row, column, side, item=1):
    """(1, 128, 128), one object's pixels."""
    segmentation = np.zeros((1, 128, 128), np.uint8)
    segmentation[0, row : row + side, column : column + side] = item
    return segmentation


def test_a_cell_shows_the_object_with_most_of_its_pixels():
    segmentation = square(7, 7, 16)  # all of the first cell's square
    segmentation[0, 7:23, 23:33] = 2
    segmentation[0, 7:23, 33:39] = 3  # less of the second cell's than object 2
    segmentation[0, 39:44, 7:12] = 4  # 25 pixels are too few
    segmentation[0, 71:76, 7:12] = 5
    segmentation[0, 76, 7] = 5
    segmentation[0, 120:127, 121:128] = 6  # at the border: of the cell next to it
    found = batches.dominant_objects(segmentation)[0].reshape(7, 7)
    assert found[0, :3].tolist() == [0, 1, -1]
    assert found[2, 0] == -1 and found[4, 0] == 4 and found[6, 6] == 5
    assert (found >= 0).sum() == 4


def test_a_centre_counts_more_than_pixels():
    segmentation = square(7, 7, 32)
    centres = np.full((1, 3, 2), np.nan)
    centres[0, 0] = 22.9, 22.9  # the first object's, in cell 0
    centres[0, 1] = 32, 15  # the second's, in cell 1, of which it has no pixel left
    centres[0, 2] = 31, 16  # comes later in the list
    attributes = np.arange(12).reshape(1, 3, 4)
    found = batches.cell_targets(centres, segmentation, attributes)[0]
    assert found[0].tolist() == [0, 1, 2, 3, batches.CENTRE]
    assert found[1].tolist() == [4, 5, 6, 7, batches.CENTRE]
    assert found[7].tolist() == found[8].tolist() == [0, 1, 2, 3, batches.PART]
    assert (found[[2, 9, 14, 48]] == -1).all()
