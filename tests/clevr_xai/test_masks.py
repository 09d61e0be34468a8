"""Ground truths by the golden cases of the specification, and pixels by an oracle of their own."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clevr_xai import masks
from clevr_xai.generation import scenes


def node(kind, output, *inputs):
    return {"type": kind, "inputs": list(inputs), "value_inputs": [], "_output": output}


def query(ground_truth, program, **options):
    return set(masks.ground_truth_objects(program, ground_truth, 3, **options))


SIMPLE = [node("scene", [0, 1, 2]), node("filter_color", [1], 0), node("unique", 1, 1), node("query_shape", "cube", 2)]


@pytest.mark.parametrize("ground_truth", ["single_object", "unique", "union", "unique_firstnonempty"])
def test_the_object_of_a_simple_question(ground_truth):
    assert query(ground_truth, SIMPLE) == {1}
    assert query("all_objects", SIMPLE) == {0, 1, 2}


def test_an_empty_branch_is_followed_through_nodes_of_one_input_alone():
    program = [
        node("scene", [0, 1, 2]),
        node("filter_size", [0], 0),
        *(node("filter_color", [], 1) for _ in range(2)),
        node("intersect", [], 2, 3),
        node("filter_size", [1, 2], 0),
        node("filter_color", [], 5),
        node("union", [], 4, 6),
    ]
    assert query("unique_firstnonempty", program) == {1, 2}


def comparison(first, second):
    return [
        node("scene", [0, 1, 2]),
        node("filter_color", first, 0),
        node("count", len(first), 1),
        node("scene", [0, 1, 2]),
        node("filter_size", second, 3),
        node("filter_color", [], 4),
        node("count", 0, 5),
        node("greater_than", len(first) > 0, 2, 6),
    ]


def test_the_release_does_not_branch_at_comparisons():
    assert query("unique_firstnonempty", comparison([0], [1, 2])) == {1, 2}
    assert query("unique_firstnonempty", comparison([0], [])) == {0}
    assert query("unique_firstnonempty", comparison([], [])) == set()
    assert query("union", comparison([0], [1, 2])) == {0, 1, 2}
    assert query("unique", comparison([0], [1, 2])) == set()


@pytest.mark.parametrize("kind", ["union", "intersect"])
def test_an_empty_union_is_taken_apart(kind):
    program = [
        node("scene", [0, 1, 2]),
        node("filter_color", [0], 0),
        node("filter_size", [], 1),
        node("scene", [0, 1, 2]),
        node("filter_color", [1, 2], 3),
        node("filter_size", [], 4),
        node(kind, [], 2, 5),
        node("count", 0, 6),
    ]
    assert query("unique_firstnonempty", program) == {0, 1, 2}


def test_a_chain_back_passes_unique_nodes():
    """Empty relations on both sides of an intersection lead back to what they start from."""
    program = [
        node("scene", [0, 1, 2]),
        node("filter_color", [0], 0),
        node("unique", 0, 1),
        node("relate", [], 2),
        node("scene", [0, 1, 2]),
        node("filter_color", [2], 4),
        node("unique", 2, 5),
        node("relate", [], 6),
        node("intersect", [], 3, 7),
        node("count", 0, 8),
    ]
    assert query("unique_firstnonempty", program) == {0, 2}


def touched(size_from, size_to):
    """Which input pixels each output pixel weighs: closer to its centre than the widened filter's radius."""
    scale = size_from / size_to
    radius = max(scale, 1.0)
    centres = (np.arange(size_to) + 0.5) * scale
    return np.abs(np.arange(size_from) + 0.5 - centres[:, None]) < radius


@pytest.mark.parametrize(("height", "width"), [(320, 480), (128, 192), (128, 128), (64, 100)])
def test_resizing_keeps_every_pixel_the_mask_touches(height, width):
    rng = np.random.default_rng(height)
    for share in (0.001, 0.02, 0.5):
        mask = rng.random((height, width)) < share
        oracle = touched(height, 128).astype(int) @ mask @ touched(width, 128).T.astype(int) > 0
        np.testing.assert_array_equal(masks.resize(mask), oracle)


def test_centres_are_the_means_of_visible_pixels_at_another_size():
    indices = np.full((4, 8), -1)
    indices[:2, 2:5] = 1  # their middle is at 1 of 4 rows and at 3.5 of 8 columns
    found = masks.visible_centres(indices, 3, 16)
    assert found[1].tolist() == [6.5, 3.5] and np.isnan(found[[0, 2]]).all()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_mask_of_several_objects_is_the_union_of_theirs(seed):
    rng = np.random.default_rng(seed)
    indices = np.full((320, 480), -1)
    for index in range(4):
        y, x = rng.integers(0, 300), rng.integers(0, 460)
        indices[y : y + rng.integers(1, 60), x : x + rng.integers(1, 60)] = index
    each = masks.object_masks(indices, 4)
    np.testing.assert_array_equal(masks.resize(np.isin(indices, [0, 2, 3])), each[[0, 2, 3]].any(axis=0))


def test_colours_are_read_back_from_a_mask_image():
    rng = np.random.default_rng(0)
    indices = rng.integers(-1, 10, (40, 60))
    palette = np.array([*scenes.MASK_COLORS, masks.BACKGROUND], np.uint8)
    colors = [[masks.linear(component) for component in color] for color in scenes.MASK_COLORS]
    np.testing.assert_array_equal(masks.object_indices(palette[indices], colors), indices)


def test_colours_of_the_release_are_linear_and_rounded():
    """The release stores random linear colours; its images hold them as 8-bit sRGB."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        colors = rng.random((10, 3))
        srgb = np.where(colors <= 0.0031308, colors * 12.92, 1.055 * colors ** (1 / 2.4) - 0.055)
        palette = np.array([*np.round(srgb * 255), masks.BACKGROUND], np.uint8)
        indices = rng.permutation(np.arange(110) % 11).reshape(10, 11) - 1
        np.testing.assert_array_equal(masks.object_indices(palette[indices], colors.tolist()), indices)


def test_colours_that_cannot_be_told_apart_are_refused():
    image = np.zeros((2, 2, 3), np.uint8)
    image[0] = (250, 0, 0)
    image[1] = (245, 0, 0)
    with pytest.raises(ValueError, match="2 colours for 1"):
        masks.object_indices(image, [[1.0, 0.0, 0.0]])
