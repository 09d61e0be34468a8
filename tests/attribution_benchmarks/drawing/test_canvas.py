"""Curves and clipping of the canvas."""

import numpy as np

from attribution_benchmarks.drawing import canvas


def test_a_spline_passes_through_its_points():
    points = np.random.default_rng(0).random((6, 2))
    np.testing.assert_allclose(canvas.spline(points, closed=True, steps=5)[::5], points, atol=1e-12)
    open_curve = canvas.spline(points, steps=4)
    np.testing.assert_allclose(open_curve[::4], points, atol=1e-12)
    line = np.linspace([0.0, 1.0], [3.0, 7.0], 4)
    np.testing.assert_allclose(np.diff(canvas.spline(line, steps=4), n=2, axis=0), 0, atol=1e-12)


def test_what_is_drawn_inside_stays_inside():
    board = canvas.Canvas(40)
    board.rectangle(0.2, 0.2, 0.6, 0.6, (200, 0, 0))
    before = board.silhouette()
    with board.inside():
        board.rectangle(0.0, 0.4, 1.0, 1.0, (0, 200, 0))
    np.testing.assert_array_equal(board.silhouette(), before)
    picture = board.picture()
    assert (picture[~before] == 0).all() and (picture[before][:, 1] == 200).any()
