"""Links, and masks as packed bits."""

import numpy as np
import pytest

from attribution.errors import BadInput
from bim import data, layout

SHAPES = [(3, 5), (17, 1), (8, 8), (1, 1)]


def test_a_link_that_another_process_makes_at_the_same_time_stays_a_link(tmp_path, monkeypatch):
    source, target = tmp_path / "a.jpg", tmp_path / "b.jpg"
    source.write_bytes(b"picture")
    layout.link(str(source), str(target))
    monkeypatch.setattr(data.os.path, "exists", lambda path: False)  # as it was a moment before
    layout.link(str(source), str(target))
    assert source.samefile(target)


@pytest.fixture
def some_masks():
    rng = np.random.default_rng(0)
    return [rng.random(shape) < 0.5 for shape in SHAPES]


def test_masks_come_back(tmp_path, some_masks):
    names = ["dog-0900", "dog-0901", "kite-0900", "kite-0901"]
    layout.save_masks(str(tmp_path / "val_mask.npz"), some_masks, names)
    found = data.load_masks(str(tmp_path))
    assert list(found) == names
    for one, other in zip(found.values(), some_masks, strict=True):
        assert one.dtype == bool
        np.testing.assert_array_equal(one, other)
    with np.load(tmp_path / "val_mask.npz", allow_pickle=False) as file:
        assert set(file.files) == {"bits", "shapes", "keys"}


@pytest.mark.parametrize(
    "change",
    [
        {"shapes": np.array([[1 << 20, 1 << 20]])},
        {"shapes": np.array([[3, 5], [17, 0], [8, 8], [1, 1]])},
        {"shapes": np.array([[3, 5], [-17, -1], [8, 8], [1, 1]])},
        {"shapes": np.zeros((2, 2, 2), int)},
        {"bits": np.zeros(4, np.uint8)},
        {"bits": np.zeros(13, np.int64)},
        {"keys": np.array(["a", "a", "b", "c"])},
        {"keys": np.array(["a", "b"])},
    ],
)
def test_arrays_that_are_no_masks_are_refused(tmp_path, some_masks, change):
    layout.save_masks(str(tmp_path / "val_mask.npz"), some_masks, list("abcd"))
    with np.load(tmp_path / "val_mask.npz") as file:
        arrays = dict(file)
    np.savez(tmp_path / "val_mask.npz", **{**arrays, **change})
    with pytest.raises(BadInput, match="is damaged"):
        data.load_masks(str(tmp_path))


def test_missing_masks_are_named(tmp_path):
    with pytest.raises(BadInput, match=r"expected val_mask\.npz"):
        data.load_masks(str(tmp_path))
