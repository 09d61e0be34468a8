"""Maps on disk: written, read back in every layout, refused when damaged."""

import numpy as np
import pytest

from attribution.errors import BadInput
from attribution_benchmarks.core.batch import Batch, MapSource
from attribution_benchmarks.core.controls import RANDOM, WRONG_CLASS
from attribution_benchmarks.core.evaluator import Evaluator
from attribution_benchmarks.core.examples import Examples
from attribution_benchmarks.core.explainer import MapsDirectory, SavedMaps, read_map, saved_methods
from attribution_benchmarks.core.metric import PerSampleMetric

KEY = ("method", "input")
MAP = np.random.default_rng(0).normal(size=(64, 64, 3)).astype(np.float32)


def test_whole_maps_and_reduced_ones(tmp_path):
    whole = MapsDirectory(str(tmp_path / "whole"), {})
    assert not whole.has("my.py:sharpened", "17", KEY)
    whole.save("my.py:sharpened", "17", MAP.astype(np.float64), KEY)
    assert whole.has("my.py:sharpened", "17", KEY)
    again = MapsDirectory(str(tmp_path / "whole"), {})
    assert again.has("my.py:sharpened", "17", KEY)
    for other in (("other", "input"), ("method", "other")):
        assert not again.has("my.py:sharpened", "17", other)
    found = np.load(tmp_path / "whole" / "sharpened" / "17.npy", allow_pickle=False)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, MAP)


def test_a_directory_keeps_maps_of_one_origin(tmp_path):
    MapsDirectory(str(tmp_path), {"model": "a", "seed": 0}).save("gradient", "0", MAP, KEY)
    MapsDirectory(str(tmp_path), {"seed": 0, "model": "a"})
    for other in ({"model": "b", "seed": 0}, {"model": "a"}):
        with pytest.raises(BadInput, match="holds maps of another network, seed or setting"):
            MapsDirectory(str(tmp_path), other)


def test_maps_too_large_for_single_precision_are_not_saved(tmp_path):
    large = np.full((4, 4, 2), 1e300)
    maps = MapsDirectory(str(tmp_path), {"seed": 0})
    with pytest.raises(BadInput, match="method 'own': the map of input 17 has NaN, infinite or too large values"):
        maps.save("own", "17", large, KEY)
    assert not list(tmp_path.rglob("*.npy"))


@pytest.mark.parametrize(
    "stored", [MAP, MAP[None], MAP.transpose(2, 0, 1), MAP.transpose(2, 0, 1)[None]], ids=lambda one: str(one.shape)
)
def test_every_layout_of_a_map_is_read(stored, tmp_path):
    np.save(tmp_path / "0.npy", stored)
    np.testing.assert_array_equal(read_map(tmp_path / "0.npy", (64, 64)), MAP)
    np.save(tmp_path / "1.npy", stored[..., :1] if stored.shape[-1] == 3 else stored[..., :1, :, :])
    found = read_map(tmp_path / "1.npy", (64, 64))
    np.testing.assert_array_equal(found.reshape(64, 64), MAP[..., 0])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (np.zeros((64, 32, 3)), r"holds float64 of shape \(64, 32, 3\); numbers of shape \(64, 64, C\)"),
        (np.full((64, 64), np.nan), "has NaN or infinite values"),
        (np.full((64, 64), 1e300), "values too large for float32"),
        (np.full((64, 64), "x"), "holds <U1"),
        (np.float32(1), r"of shape \(\)"),
        (b"no array", "is not a readable array"),
        (b"PK\x03\x04" + bytes(60), "is not a readable array"),
    ],
    ids=str,
)
def test_what_is_no_map_is_refused(content, message, tmp_path):
    path = tmp_path / "0.npy"
    path.write_bytes(content) if isinstance(content, bytes) else np.save(path, content)
    with pytest.raises(BadInput, match=message):
        read_map(path, (64, 64))


def test_folders_of_methods_are_found(tmp_path):
    with pytest.raises(BadInput, match=r"no directory .*nowhere; name one that holds METHOD/INPUT"):
        saved_methods(str(tmp_path / "nowhere"))
    with pytest.raises(BadInput, match=r"no maps in .*; expected METHOD/INPUT\.npy"):
        saved_methods(str(tmp_path))
    for name in ("rise", "lime"):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "0.npy", MAP)
    (tmp_path / "empty").mkdir()
    assert list(saved_methods(str(tmp_path))) == ["lime", "rise"]
    assert list(saved_methods(str(tmp_path), ["rise"])) == ["rise"]
    assert saved_methods(str(tmp_path / "rise")) == {"rise": tmp_path / "rise"}
    with pytest.raises(BadInput, match=r"no maps of 'shap' in .*; there are 'lime', 'rise'"):
        saved_methods(str(tmp_path), ["shap"])


def test_metrics_of_saved_maps_find_the_predicted_classes_where_the_run_has_a_model(tmp_path):
    (tmp_path / "rise").mkdir()
    for name in ("a", "b"):
        np.save(tmp_path / "rise" / f"{name}.npy", MAP)
    seen = []

    def targets(maps, batch, scores):
        seen.append(batch.targets)
        return np.zeros(len(maps))

    examples = Examples(np.zeros((2, 64, 64, 3), np.float32), names=("a", "b"))
    for scores in (None, lambda inputs: np.array([[0.1, 0.9, 0.0], [0.2, 0.3, 0.5]])):
        explainer = SavedMaps(saved_methods(str(tmp_path)), scores=scores)
        Evaluator(explainer, [PerSampleMetric("targets", targets)], {}).run(examples.batches(2))
    assert seen[0] is None  # nothing predicts a class
    np.testing.assert_array_equal(seen[1], [1, 2])


def test_saved_maps_take_the_place_of_a_model(tmp_path):
    (tmp_path / "rise").mkdir()
    for name in ("a", "b"):
        np.save(tmp_path / "rise" / f"{name}.npy", MAP + ord(name))
    explainer = SavedMaps(saved_methods(str(tmp_path)), [RANDOM, WRONG_CLASS], seed=3)
    assert explainer.sources == (MapSource("rise"), MapSource(control="random"))  # saved maps are of one class
    batch = Batch(np.zeros((2, 64, 64, 3)), ["a", "b"], truth={"file": ["b", "a"]})
    found = dict(explainer.maps(explainer.sources, batch))
    np.testing.assert_array_equal(found[MapSource("rise")], np.stack([MAP + ord("b"), MAP + ord("a")]))
    np.testing.assert_array_equal(found[MapSource(control="random")], RANDOM.maps(batch, 3))
    with pytest.raises(BadInput, match="--precomputed_maps loads no network, and a metric needs one"):
        explainer.scores(batch.inputs)
    np.save(tmp_path / "rise" / "a.npy", MAP[..., 0])
    with pytest.raises(BadInput, match="hold maps of different shapes; one shape a method is needed"):
        list(explainer.maps(explainer.sources, batch))
