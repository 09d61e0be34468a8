"""In-domain deletion: closed forms of a linear network, exact numbers of passes, and refusals in one line."""

import json

import numpy as np
import pytest

from attribution.errors import BadInput
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.metrics.in_domain import FILE, Deletions
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY

MEASURE = METRIC_REGISTRY["in_domain_deletion"].measure
POINTS, SEGMENTS = 23, 5
WEIGHTS = np.random.default_rng(3).normal(size=POINTS)


class Model:
    """What a model's path says of it."""

    def __init__(self, path):
        self.path = path


class Linear:
    """A linear network that is asked again; counts the rows that it is asked about."""

    def __init__(self, path):
        self.model, self.rows = Model(path), 0

    def scores(self, inputs):
        self.rows += len(inputs)
        return np.stack([inputs[..., 0] @ WEIGHTS, np.zeros(len(inputs))], axis=1)


@pytest.fixture
def saved(tmp_path):
    def save(said='{"segments": [5], "fill": 0.5}'):
        (tmp_path / "saved_model.pb").touch()
        if said is not None:
            (tmp_path / FILE).parent.mkdir(exist_ok=True)
            (tmp_path / FILE).write_text(said)
        return tmp_path

    return save


@pytest.fixture
def batch():
    inputs = np.random.default_rng(0).normal(size=(40, POINTS, 1))
    return Batch(inputs, list(range(40)), np.zeros(40, np.int64))


def test_the_parts_of_a_linear_network_rank_as_their_deletion_and_their_opposite_against_it(saved, batch):
    again = Linear(saved())
    parts = (batch.pictures[..., 0] - 0.5) * WEIGHTS
    np.testing.assert_allclose(MEASURE.function(parts, batch, again), 1)
    np.testing.assert_allclose(MEASURE.function(-7 * parts[..., None], batch, again), -1)
    assert again.rows == len(batch) * (1 + SEGMENTS)  # once for all maps
    zero = np.bincount(np.arange(POINTS) * SEGMENTS // POINTS)[np.arange(POINTS) * SEGMENTS // POINTS]
    np.testing.assert_array_equal(MEASURE.function(np.tile(1 / zero, (40, 1)), batch, again), 0)
    drawn = MEASURE.function(np.random.default_rng(1).normal(size=(40, POINTS)), batch, again)
    assert abs(drawn.mean()) < 4 / np.sqrt((SEGMENTS - 1) * 40)


def test_a_score_that_no_deletion_changes_tells_nothing(saved, batch):
    again = Linear(saved())
    other = Batch(batch.pictures, batch.seeds, np.ones(40, np.int64))
    assert np.isnan(MEASURE.function(batch.pictures, other, again)).all()


def test_segments_cut_every_axis_evenly():
    cut = Deletions((2, 3), -1.0)
    assert cut.numbered((4, 6)).tolist() == [[0, 0, 1, 1, 2, 2]] * 2 + [[3, 3, 4, 4, 5, 5]] * 2
    without = cut.without(np.zeros((2, 4, 6, 3), np.float32), 4)
    assert without.dtype == np.float32 and without.sum() == -1 * 2 * 2 * 2 * 3
    assert (without[:, 2:, 2:4] == -1).all()


@pytest.mark.parametrize("said", ["{}", '{"segments": [2], "fill": 0}', '{"segments": "ab", "fill": 0}', "[1"])
def test_what_a_file_cannot_mean_is_refused(saved, said):
    with pytest.raises(BadInput, match="not of the form"):
        MEASURE.check(Model(saved(said)))


def test_other_networks_are_refused_before_anything_is_explained(saved, batch):
    with pytest.raises(BadInput, match=r"trained with deleted segments, and .* does not declare any"):
        MEASURE.check(Model(saved(None)))
    with pytest.raises(BadInput, match="precomputed maps have no network"):
        MEASURE.check(None)
    with pytest.raises(BadInput, match=r"segments, \[4, 4\], do not fit inputs of positions \(23,\)"):
        MEASURE.function(batch.pictures, batch, Linear(saved('{"segments": [4, 4], "fill": 0}')))


def test_what_is_saved_is_read(saved):
    directory = saved(None)
    Deletions((4, 4), 127.5).save(directory)
    assert MEASURE.check(Model(directory)) == Deletions((4, 4), 127.5)
    assert json.loads((directory / FILE).read_text()) == {"segments": [4, 4], "fill": 127.5}
