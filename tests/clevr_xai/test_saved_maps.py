"""Maps on disk: written as the authors' tools read them, read back in every layout, refused when damaged."""

import json

import numpy as np
import pytest

from attribution_benchmarks.command_line import BadInput
from clevr_xai import controls, saved_maps
from clevr_xai.dataset import Dataset
from clevr_xai.measured import Label
from clevr_xai.pooling import pool
from clevr_xai.scoring import score_maps

MAP = np.random.default_rng(0).normal(size=(64, 64, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def data(answered):
    return Dataset("simple", answered, size=64)


def test_whole_maps_and_pooled_ones(tmp_path):
    whole = saved_maps.MapsDirectory(str(tmp_path / "whole"))
    assert not whole.has(Label("my.py:sharpened"), 17)
    whole.save(Label("my.py:sharpened"), 17, MAP.astype(np.float64))
    assert whole.has(Label("my.py:sharpened"), 17)
    found = np.load(tmp_path / "whole" / "sharpened" / "17.npy", allow_pickle=False)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, MAP)
    saved_maps.MapsDirectory(str(tmp_path / "pooled"), "l2-norm,sq").save(Label("gradient"), 3, MAP)
    found = np.load(tmp_path / "pooled" / "gradient" / "3.npy", allow_pickle=False)
    np.testing.assert_allclose(found, pool(MAP[None])["l2-norm,sq"][0], rtol=1e-6)
    with pytest.raises(BadInput, match="no pooling 'sum'"):
        saved_maps.MapsDirectory(str(tmp_path), "sum")


def test_a_directory_keeps_maps_of_one_origin(tmp_path):
    saved_maps.MapsDirectory(str(tmp_path), origin={"model": "a"}).save(Label("gradient"), 0, MAP)
    saved_maps.MapsDirectory(str(tmp_path), origin={"model": "a"})
    for other in ({"origin": {"model": "b"}}, {"origin": {"model": "a"}, "pooling": "sum,abs"}):
        with pytest.raises(BadInput, match="holds maps of another network, seed or setting"):
            saved_maps.MapsDirectory(str(tmp_path), **other)


@pytest.mark.parametrize(
    "stored", [MAP, MAP[None], MAP.transpose(2, 0, 1), MAP.transpose(2, 0, 1)[None]], ids=lambda one: str(one.shape)
)
def test_every_layout_of_a_map_is_read(stored, tmp_path):
    np.save(tmp_path / "0.npy", stored)
    np.testing.assert_array_equal(saved_maps.read_map(tmp_path / "0.npy", 64), MAP)
    np.save(tmp_path / "1.npy", stored[..., :1] if stored.shape[-1] == 3 else stored[..., :1, :, :])
    found = saved_maps.read_map(tmp_path / "1.npy", 64)
    np.testing.assert_array_equal(found.reshape(64, 64), MAP[..., 0])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (np.zeros((64, 32, 3)), r"holds float64 of shape \(64, 32, 3\); numbers of shape \(64, 64, C\)"),
        (np.full((64, 64), np.nan), "has NaN or infinite values"),
        (np.full((64, 64), "x"), "holds <U1"),
        (np.float32(1), r"of shape \(\)"),
        (b"no array", "is not a readable map"),
    ],
    ids=str,
)
def test_what_is_no_map_is_refused(content, message, tmp_path):
    path = tmp_path / "0.npy"
    path.write_bytes(content) if isinstance(content, bytes) else np.save(path, content)
    with pytest.raises(BadInput, match=message):
        saved_maps.read_map(path, 64)


def test_folders_of_methods_are_found(tmp_path):
    with pytest.raises(BadInput, match=r"no directory .*nowhere; name one that holds METHOD/QUESTION_INDEX"):
        saved_maps.saved_methods(str(tmp_path / "nowhere"))
    with pytest.raises(BadInput, match=r"no maps in .*; expected METHOD/QUESTION_INDEX\.npy"):
        saved_maps.saved_methods(str(tmp_path))
    for name in ("rise", "lime"):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "0.npy", MAP)
    (tmp_path / "empty").mkdir()
    assert list(saved_maps.saved_methods(str(tmp_path))) == ["lime", "rise"]
    assert list(saved_maps.saved_methods(str(tmp_path), ["rise"])) == ["rise"]
    assert saved_maps.saved_methods(str(tmp_path / "rise")) == {"rise": tmp_path / "rise"}
    with pytest.raises(BadInput, match=r"no maps of 'shap' in .*; there are 'lime', 'rise'"):
        saved_maps.saved_methods(str(tmp_path), ["shap"])


def test_the_side_of_maps_is_read_from_them(tmp_path):
    for number, shape in enumerate(((9, 9, 3), (1, 3, 9, 9), (9, 9))):
        folder = tmp_path / str(number)
        folder.mkdir()
        np.save(folder / "0.npy", np.ones(shape))
        assert saved_maps.side({"rise": folder}) == 9
    np.save(tmp_path / "0" / "0.npy", np.ones((9, 8)))
    with pytest.raises(BadInput, match="is no map of a square image"):
        saved_maps.side({"rise": tmp_path / "0"})


def test_saved_maps_score_as_they_would_in_memory(data, tmp_path):
    generator = np.random.default_rng(1)
    maps = {"rise": generator.random((12, 64, 64)), "lime": generator.normal(size=(12, 64, 64, 3))}
    indices = [question["question_index"] for question in data.questions]
    for name, found in maps.items():
        (tmp_path / name).mkdir()
        for index, one in zip(indices[: 12 if name == "rise" else 9], found, strict=False):
            np.save(tmp_path / name / f"{index}.npy", one)
    folders = saved_maps.saved_methods(str(tmp_path))
    given = [{"question_index": i, "answer": a} for i, a in zip(indices, data.answers, strict=True)]
    given[4]["answer"] = "purple" if data.answers[4] != "purple" else "red"
    del given[5]
    (tmp_path / "predictions.json").write_text(json.dumps(given))
    measured = saved_maps.measure_saved(
        data, range(12), folders, tmp_path / "predictions.json", {"edge_detector": controls.edge_detector}, batch_size=4
    )
    assert measured.right.tolist() == [True] * 4 + [False] * 2 + [True] * 3
    assert measured.confidence is None and measured.indices.tolist() == indices[:9]
    (batch,) = data.batches(12, range(12))
    for name, found in maps.items():
        expected = score_maps(found, batch.masks)[:9]
        expected[4:6] = np.nan
        np.testing.assert_allclose(measured.scores(Label(name)), expected, rtol=1e-12)
    assert np.isfinite(measured.scores(Label(control="edge_detector"))[0]).all()
    without = saved_maps.measure_saved(data, range(12), folders, None)
    assert without.right.all() and without.fingerprint == measured.fingerprint
    np.testing.assert_array_equal(saved_maps.maps_of(data, folders, [2])["rise"], maps["rise"][2:3])
    with pytest.raises(BadInput, match="none of the questions drawn has maps of all methods"):
        saved_maps.measure_saved(data, [10, 11], folders, None)
    (tmp_path / "predictions.json").write_text('{"answer": 1}')
    with pytest.raises(BadInput, match="is no list of answers"):
        saved_maps.measure_saved(data, range(12), folders, tmp_path / "predictions.json")
