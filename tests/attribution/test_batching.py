"""Passes of equal size, generators per key, moments without samples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribution import batching
from attribution.errors import BadInput


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


@pytest.mark.parametrize(
    ("wanted", "given", "message"),
    [
        (np.float32, np.ma.masked_greater(np.ones((2, 3)), 0), "a masked array; give a value for every position"),
        (np.float32, [[1.0], [1.0, 2.0]], "a list whose parts differ in shape is not an array"),
        (np.float32, np.ones((2, 3)) + 1j, "values of type complex128, the model takes float32"),
        (np.float32, np.full((2, 3), "1"), "values of type <U1, the model takes float32"),
        (np.float32, np.ones((2, 3), object), "values of type object, the model takes float32"),
        (np.float32, np.zeros((2, 3), "M8[s]"), "values of type datetime64"),
        (np.float32, np.zeros((2, 3), [("a", "f4")]), "the model takes float32"),
        (np.float32, np.full((2, 3), 1e300), "values too large for float32, first in row 0"),
        (np.uint8, np.full((2, 3), 0.5), "fractions or numbers outside uint8"),
        (np.int32, np.full((2, 3), 2**40), "fractions or numbers outside int32"),
        (np.int32, np.full((2, 3), np.nan), "fractions or numbers outside int32"),
        (np.uint8, np.full((2, 3), -1), "fractions or numbers outside uint8"),
    ],
)
def test_numbers_that_a_model_does_not_take_are_refused(wanted, given, message):
    expected = {"x": batching.Expected(np.dtype(wanted), lambda shape: shape == (2, 3), "(any, 3)")}
    with pytest.raises(BadInput, match=message):
        batching.checked_feed(given, expected, "the model")


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        (np.float32, np.ones((2, 3), bool)),
        (np.float32, [[1, 2, 3], [4, 5, 6]]),
        (np.uint8, np.full((2, 3), 255.0)),
        (np.int32, np.full((2, 3), 7, np.int64)),
        (object, np.full((2, 3), "word")),
        (None, np.ones((2, 3))),
    ],
)
def test_numbers_that_a_model_takes_are_the_same_in_its_type(wanted, given):
    expected = {"x": batching.Expected(wanted and np.dtype(wanted), lambda shape: True, "(any, 3)")}
    found = batching.checked_feed(given, expected, "the model")["x"]
    assert found.dtype == (wanted or np.float64) and (found == np.asarray(given)).all()


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


def test_rows_of_a_pass_are_those_of_its_inputs_or_refused():
    values = np.arange(2)
    assert batching.real_rows(values, 2, 1, "scores").tolist() == [0]
    assert batching.real_rows(values[:1], 1, 1, "scores", size=1).tolist() == [0]
    for other, fed, size in ((values, 3, None), (values, 2, 2), (values[0], 2, None)):  # the second's length by chance
        with pytest.raises(batching.FoldedBatch, match="its first axis does not count the inputs"):
            batching.real_rows(other, fed, fed, "scores", size)


def test_squares_are_of_float64():
    moments = batching.Moments((1,), squares=True)
    moments.add(np.arange(1), np.float32([1e30]))  # whose square float32 does not hold
    assert moments.mean_square == np.float64(np.float32(1e30)) ** 2
