"""Passes of equal size, generators per key, moments without samples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribution.model import batching


@given(total=st.integers(0, 400), batch_size=st.integers(1, 64), equal=st.booleans())
def test_chunks_cover_every_row_once_in_passes_of_one_size(total, batch_size, equal):
    passes = list(batching.chunks(total, batch_size, equal))
    assert [row for rows, real in passes for row in rows[:real]] == list(range(total))
    assert len(passes) == -(-total // batch_size)
    assert len({len(rows) for rows, _ in passes}) <= 1
    assert all(len(rows) <= batch_size and rows.max() < total for rows, _ in passes)
    padding = sum(len(rows) - real for rows, real in passes)
    assert padding < (max(len(passes), 1) if equal else batch_size)


@given(total=st.integers(1, 50), batch_size=st.integers(1, 20), equal=st.booleans())
def test_taken_rows_are_those_asked_for_padding_and_all(total, batch_size, equal):
    array = np.arange(total) * 10
    for rows, real in batching.chunks(total, batch_size, equal):
        taken = batching.take(array, rows)
        assert taken.tolist() == [10 * row for row in rows]
        assert np.shares_memory(taken, array) == (real == len(rows))


def test_a_generator_depends_on_seed_key_and_purpose_alone():
    draw = lambda *name: batching.generator(*name).random(4).tolist()  # noqa: E731
    assert draw(0, "a", "noise") == draw(0, "a", "noise")
    others = [draw(1, "a", "noise"), draw(0, "b", "noise"), draw(0, "a", "mask")]
    assert draw(0, "a", "noise") not in others and len({tuple(other) for other in others}) == 3


def test_moments_equal_those_of_the_kept_samples():
    samples = np.random.default_rng(0).normal(3, 1, (11, 5, 4)).astype(np.float32)
    moments = batching.Moments((5, 4), squares=True)
    for sample in samples:
        moments.add(np.array([0, 1, 2]), sample[:3])
        moments.add(np.array([3, 4]), sample[3:])
    np.testing.assert_allclose(moments.mean, samples.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(moments.mean_square, np.square(samples).mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(moments.variance, samples.astype(float).var(axis=0), rtol=1e-6)


@pytest.mark.parametrize("rows", [[0, 2], [1]])
def test_moments_count_each_input_by_itself(rows):
    moments = batching.Moments((3, 2), squares=False)
    for row in range(3):
        moments.add(np.array([row]), np.ones((1, 2)))
    moments.add(np.array(rows), np.full((len(rows), 2), 3.0))
    expected = np.ones((3, 2))
    expected[rows] = 2
    np.testing.assert_array_equal(moments.mean, expected)
