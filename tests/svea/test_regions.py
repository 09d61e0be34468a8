"""Regions kept in a store: the same as without one, never computed twice, and not found for another method."""

import numpy as np
import pytest

from attribution_benchmarks.command_line import BadInput
from attribution_benchmarks.leaderboard.store import ScoreStore
from svea import baseline, mnist1d, regions, scoring

SIGNALS = mnist1d.load().test.signals[:300]


@pytest.fixture(scope="module")
def model():
    return scoring.load_network(baseline.SAVED_MODELS / "baseline")


class Counting:
    """A method that counts the signals it explains and can fail in the middle; random, so that keys matter."""

    def __init__(self, fails_at=None):
        self.explained, self.fails_at = 0, fails_at

    def __call__(self, passes):
        self.explained += len(passes)
        if self.fails_at is not None and self.explained > self.fails_at:
            raise KeyboardInterrupt
        return np.stack([passes.generator(row, "counting").random(40) for row in range(len(passes))])


def found(model, method, store=None, batch_size=100, name="counting"):
    def counting(passes):
        return method(passes)

    return regions.find_regions(model, SIGNALS, {name: (counting, {})}, 0, batch_size, store)[name]


def test_with_and_without_a_store_in_any_block_size(model, tmp_path):
    plain = found(model, Counting())
    kept = found(model, Counting(), ScoreStore(str(tmp_path)), batch_size=70)
    np.testing.assert_array_equal(plain.starts, kept.starts)
    np.testing.assert_array_equal(plain.zero, kept.zero)


def test_an_interrupted_run_goes_on_and_explains_nothing_twice(model, tmp_path):
    store, first = ScoreStore(str(tmp_path)), Counting(fails_at=200)
    with pytest.raises(KeyboardInterrupt):
        found(model, first, store)
    second = Counting()
    continued = found(model, second, store)
    assert second.explained == 100
    np.testing.assert_array_equal(continued.starts, found(model, Counting()).starts)
    third = Counting()
    np.testing.assert_array_equal(found(model, third, store).starts, continued.starts)
    assert third.explained == 0


def test_zero_maps_are_kept_as_such(model, tmp_path):
    def nothing(passes):
        return np.zeros_like(passes.inputs)

    for _ in range(2):
        result = regions.find_regions(model, SIGNALS, {"x": (nothing, {})}, 0, 300, ScoreStore(str(tmp_path)))["x"]
        assert result.zero.all() and not result.starts.any()


def test_a_changed_file_of_ones_own_is_scored_anew(model, tmp_path, monkeypatch):
    import attribution

    monkeypatch.chdir(tmp_path)
    store = ScoreStore("scores")
    starts = []
    for sign in ("", "-"):
        (tmp_path / "own.py").write_text(f"def maps(passes):\n    return {sign}passes.inputs\n")
        method = attribution.resolve_method("own.py:maps")
        starts.append(regions.find_regions(model, SIGNALS, {"own.py:maps": (method, {})}, 0, 300, store)["own.py:maps"])
    assert (starts[0].starts != starts[1].starts).any()
    assert len(store.manifest()) == 2


def test_damaged_regions_are_named(model, tmp_path):
    store = ScoreStore(str(tmp_path))
    found(model, Counting(), store)
    (path,) = tmp_path.iterdir()
    header, _, *rest = path.read_text().splitlines(keepends=True)
    path.write_text("".join([header, '["0", ["here", 0]]\n', *rest]))
    with pytest.raises(BadInput, match="damaged; remove that folder"):
        found(model, Counting(), store)
