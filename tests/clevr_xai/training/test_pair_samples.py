import numpy as np
import pytest

from clevr_xai.training import pair_samples


def cells(rows, total=9):
    found = np.zeros((len(rows), total), bool)
    for row, chosen in enumerate(rows):
        found[row, list(chosen)] = True
    return found


def draw(number, seed=0, centres=((0, 4), (2,)), shown=((0, 1, 4, 5), (2,))):
    return pair_samples.draw(cells(centres), cells(shown), number, np.random.default_rng(seed))


def matrix(pairs, weights, total=9):
    summed = np.zeros((total, total))
    np.add.at(summed, tuple(pairs.T), weights)
    return summed


def test_pairs_of_centres_count_once_in_every_draw():
    for seed in range(20):
        pairs, weights = draw(12, seed)
        for row, centres in enumerate(((0, 4), (2,))):
            assert (matrix(pairs[row], weights[row])[np.ix_(centres, centres)] == 1).all()


def test_weights_always_add_up_to_all_pairs():
    for number in (8, 12, 30, 81):
        _, weights = draw(number)
        np.testing.assert_allclose(weights.sum(axis=1), 81, rtol=1e-6)


def test_sums_are_right_in_expectation():
    """The mean over draws of each pair's weight is 1, within five standard errors of it."""
    draws = np.array([matrix(pairs[0], weights[0]) for pairs, weights in (draw(16, seed) for seed in range(3000))])
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - 1) <= 5 * error + 1e-6).all()
    assert error.max() > 0


def test_no_pair_is_drawn_twice():
    pairs, weights = draw(40, 1)
    for row in range(2):
        used = [tuple(pair) for pair, weight in zip(pairs[row], weights[row], strict=True) if weight > 0]
        assert len(set(used)) == len(used)


@pytest.mark.parametrize("number", [81, 90])
def test_as_many_as_there_are_means_all_once_and_more_fills_up(number):
    pairs, weights = draw(number)
    for row in range(2):
        np.testing.assert_array_equal(matrix(pairs[row], weights[row]), 1)
        assert (weights[row] == 0).sum() == number - 81


def test_a_picture_full_of_objects_and_an_empty_one():
    everything = range(9)
    pairs, weights = draw(20, centres=((3,), ()), shown=(everything, ()))
    np.testing.assert_allclose(weights.sum(axis=1), 81, rtol=1e-6)
    assert matrix(pairs[0], weights[0])[3, 3] == 1
    assert len(set(weights[1])) == 1  # one stratum, one weight


def test_pairs_of_what_is_shown_are_drawn_more_often():
    pairs, weights = draw(30)
    shown = cells(((0, 1, 4, 5),))[0]
    both = shown[pairs[0]].all(axis=1)
    assert weights[0][both].max() < weights[0][~both].min()


def test_too_few_pairs_are_refused():
    with pytest.raises(ValueError, match="6 pairs are too few for images with 4 pairs of centres"):
        draw(6)
