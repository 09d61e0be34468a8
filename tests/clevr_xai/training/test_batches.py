import dataclasses

import numpy as np
import pytest

from clevr_xai.training import batches


def square(row, column, side, item=1):
    """(1, 128, 128), one object's pixels."""
    owners = np.zeros((1, 128, 128), np.uint8)
    owners[0, row : row + side, column : column + side] = item
    return owners


def test_a_cell_shows_the_object_with_most_of_its_pixels():
    owners = square(7, 7, 16)  # all of the first cell's square
    owners[0, 7:23, 23:33] = 2
    owners[0, 7:23, 33:39] = 3  # less of the second cell's than object 2
    owners[0, 39:44, 7:12] = 4  # 25 pixels are too few
    owners[0, 71:76, 7:12] = 5
    owners[0, 76, 7] = 5
    shown = batches.shown_objects(owners)[0].reshape(7, 7)
    assert shown[0, :3].tolist() == [0, 1, -1]
    assert shown[2, 0] == -1 and shown[4, 0] == 4
    assert (shown >= 0).sum() == 3


def test_pixels_at_the_border_belong_to_the_cell_next_to_them():
    shown = batches.shown_objects(square(120, 121, 7, item=10))[0]
    assert shown[48] == 9
    assert (shown[:48] == -1).all()


def test_a_centre_counts_more_than_pixels():
    owners = square(7, 7, 32)
    centres = np.full((1, 3, 2), np.nan)
    centres[0, 0] = 22.9, 22.9  # the first object's, in cell 0
    centres[0, 1] = 32, 15  # the second's, in cell 1, of which it has no pixel left
    centres[0, 2] = 31, 16  # comes later in the list
    attributes = np.arange(12).reshape(1, 3, 4)
    targets = batches.cell_targets(centres, owners, attributes)[0]
    assert targets[0].tolist() == [0, 1, 2, 3, batches.CENTRE]
    assert targets[1].tolist() == [4, 5, 6, 7, batches.CENTRE]
    assert targets[7].tolist() == targets[8].tolist() == [0, 1, 2, 3, batches.PART]
    assert (targets[[2, 9, 14, 48]] == -1).all()


@pytest.mark.parametrize("mirrored", [False, True])
def test_centres_and_owners_move_with_their_images(mirrored):
    images = np.zeros((20, 32, 32, 3), np.uint8)
    images[:, 10, 20] = 255
    owners = images[..., 0] // 255
    moved, moved_owners, centres = batches.augmented(
        images, owners, np.tile(np.float32([20, 10]), (20, 1, 1)), np.random.default_rng(0), np.full(20, mirrored), 5
    )
    seen = set()
    for image, (column, row) in zip(moved, centres[:, 0], strict=True):
        assert image[int(row), int(column)].tolist() == [255] * 3
        assert image.sum() == 3 * 255
        seen.add((column, row))
    np.testing.assert_array_equal(moved_owners, moved[..., 0] // 255)
    assert len(seen) > 10
    assert (images[:, 10, 20] == 255).all()


def test_borders_are_repeated():
    images = np.full((1, 8, 8, 3), 7, np.uint8)
    moved, _, _ = batches.augmented(
        images, images[..., 0], np.zeros((1, 1, 2)), np.random.default_rng(0), np.zeros(1, bool), 3
    )
    assert (moved == 7).all()


@pytest.fixture(scope="module")
def coded_data(training_data):
    """With its rows' numbers for codes, mirrored ones negative."""
    numbers = np.tile(np.arange(len(training_data.tokens), dtype=np.float32)[:, None] + 1, (1, 128))
    return dataclasses.replace(training_data, codes=np.stack([numbers, -numbers]))


@pytest.mark.parametrize(
    "draw",
    [
        lambda data, rng: batches.reading_batch(data, rng, 5),
        lambda data, rng: batches.seeing_batch(data, rng, 3),
        lambda data, rng: batches.answering_batch(data, rng, 3, 4, 128),
    ],
)
def test_a_batch_follows_from_its_seed(coded_data, draw):
    (inputs, targets), (again, same), (other, _) = (
        draw(coded_data, np.random.default_rng(seed)) for seed in ((0, 1), (0, 1), (0, 2))
    )
    for name, value in inputs.items():
        np.testing.assert_array_equal(value, again[name])
    for name, value in targets.items():
        np.testing.assert_array_equal(value, same[name])
    assert any((value.shape != other[name].shape) or (value != other[name]).any() for name, value in inputs.items())


def test_a_reading_batch_has_questions_with_their_programs(training_data):
    inputs, targets = batches.reading_batch(training_data, np.random.default_rng(0), 200)
    assert inputs["question"].shape[1] % 8 == 0
    assert targets["program"].shape == (200, 24)
    known = {tuple(words): program for words, program in zip(training_data.tokens, training_data.programs, strict=True)}
    exchanged = 0
    for words, program in zip(inputs["question"], targets["program"], strict=True):
        words = np.resize(np.append(words, np.zeros(99, np.int32)), training_data.tokens.shape[1])
        if tuple(words) not in known:
            words, program, exchanged = batches.MIRRORED_TOKENS[words], batches.MIRRORED_NODES[program], exchanged + 1
        np.testing.assert_array_equal(known[tuple(words)], program)
    assert exchanged > 3


def test_questions_are_about_their_image_and_mirrored_with_it(coded_data):
    inputs, targets = batches.answering_batch(coded_data, np.random.default_rng(0), 8, 6, 128)
    numbers = inputs["code"][..., 0]
    rows = np.abs(numbers).astype(int) - 1
    np.testing.assert_array_equal(targets["answer"], coded_data.answers[rows])
    assert (np.sign(numbers) == np.sign(numbers[:, :1])).all()
    assert len(np.unique(np.sign(numbers))) == 2
    images = coded_data.image_of[rows]
    assert (images == images[:, :1]).all()
    assert all(len(set(line)) == 6 for line in rows)  # none twice
    unchanged = {"mirror": 0.0, "shift": 0, "relit": False}
    straight, _ = batches.answering_batch(coded_data, np.random.default_rng(0), 8, 6, 128, **unchanged)
    whole = coded_data.images[coded_data.image_of[straight["code"][:, 0, 0].astype(int) - 1]]
    np.testing.assert_array_equal(straight["image"], whole)
    relit, _ = batches.answering_batch(coded_data, np.random.default_rng(0), 8, 6, 128, **unchanged | {"relit": True})
    altered = (relit["image"] != whole).mean(axis=(1, 2, 3))
    assert altered.min() == 0 and altered.max() > 0.5  # some as they were


def test_members_are_those_of_the_sets_and_rows_their_pairs(coded_data):
    inputs, targets = batches.answering_batch(coded_data, np.random.default_rng(0), 4, 5, 128, shift=0)
    rows = np.abs(inputs["code"][..., 0]).astype(int) - 1
    for image in range(4):
        centres = coded_data.centres[coded_data.image_of[rows[image, 0]]]
        number = (~np.isnan(centres[:, 0])).sum()
        for question in range(5):
            for node, found in enumerate(coded_data.sets[rows[image, question]]):
                members = targets["members"][image, question, :, node]
                assert (members[number:] == -1).all()
                if found < 0:
                    assert (members == -1).all()
                else:
                    assert sum(2**k for k in range(number) if members[k] == 1) == found
        assert not inputs["rows"][image, number:].any()
        cells = np.flatnonzero(targets["cells"][image, :, 4] == batches.CENTRE)
        for pairs in inputs["rows"][image, :number]:
            first, second = inputs["pairs"][image, pairs > 0].T
            assert len(set(first)) == 1 and first[0] in cells
            assert sorted(second) == cells.tolist()


def test_all_pairs_of_centres_are_among_those_drawn(coded_data):
    inputs, targets = batches.answering_batch(coded_data, np.random.default_rng(0), 4, 1, 128)
    for image in range(4):
        centres = np.flatnonzero(targets["cells"][image, :, 4] == batches.CENTRE)
        drawn = {tuple(pair) for pair in inputs["pairs"][image]}
        assert {(one, other) for one in centres for other in centres} <= drawn
        assert len(centres) > 1


def test_mirroring_is_an_involution():
    for table in (batches.MIRRORED_TOKENS, batches.MIRRORED_NODES):
        np.testing.assert_array_equal(table[table], np.arange(len(table)))
        assert (table != np.arange(len(table))).sum() == 2
