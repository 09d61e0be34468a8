"""Pictures in a grid: each at its place, masks' edges where they are, nothing beyond the figure's edges."""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from attribution_benchmarks.core.figures import PictureGrid

LINES, COLUMNS = 3, 4


@pytest.fixture
def grid():
    grid = PictureGrid(LINES, COLUMNS, side=1.0, gap=0.1, above=0.4, left=0.3, right=0.8)
    mask = np.zeros((16, 16), bool)
    mask[4:8, 6:12] = True
    for line in range(LINES):
        grid.name(line, "a line")
        for column in range(COLUMNS):
            drawn = grid.draw(line, column, np.full((16, 16), 0.1 * (line + column)), "two\nlines")
            grid.outline(line, column, mask, "white")
    grid.scale(drawn, "of the map's own end")
    return grid


def test_pictures_stand_side_by_side_and_their_titles_above_them(grid):
    axis = grid.figure.axes[0]
    extents = np.array([image.get_extent() for image in axis.images]).reshape(LINES, COLUMNS, 4)
    assert (extents[:, 1:, 0] - extents[:, :-1, 1] == pytest.approx(0.1)) and np.allclose(np.ptp(extents[..., :2]), 4.3)
    assert np.allclose(extents[1:, :, 3] - extents[:-1, :, 2], 0.4)  # left, right, bottom, top
    assert all(image.get_array().max() == pytest.approx(0.1 * (n // 4 + n % 4)) for n, image in enumerate(axis.images))


def test_the_edge_of_a_mask_is_half_way_between_its_pixels_and_others(grid):
    axis = grid.figure.axes[0]
    for image, collection in zip(axis.images, axis.collections, strict=True):
        left, _, _, top = image.get_extent()
        (edge,) = (path.vertices for path in collection.get_paths())
        np.testing.assert_allclose(edge.min(axis=0), (left + 6 / 16, top + 4 / 16))
        np.testing.assert_allclose(edge.max(axis=0), (left + 12 / 16, top + 8 / 16))


def test_nothing_is_clipped(grid):
    canvas = FigureCanvasAgg(grid.figure)
    canvas.draw()
    inside, (width, height) = grid.figure.get_tightbbox(canvas.get_renderer()), grid.figure.get_size_inches()
    assert inside.x0 >= 0 and inside.y0 >= 0 and inside.x1 <= width and inside.y1 <= height
