"""Maps of questions on disk, with answers beside them, as the authors' tools keep them."""

import json

import numpy as np
import pytest

from attribution.errors import BadInput
from attribution_benchmarks.core.batch import MapSource
from attribution_benchmarks.core.explainer import SavedMaps, saved_methods
from clevr_xai import answering, methods
from clevr_xai.answering import Questions
from clevr_xai.dataset import Dataset
from clevr_xai.measured import collect, sharded_run
from clevr_xai.metrics import score_maps


@pytest.fixture(scope="module")
def data(answered):
    return Dataset("simple", answered, size=64)


def test_the_side_of_maps_is_read_from_them(tmp_path):
    for number, shape in enumerate(((9, 9, 3), (1, 3, 9, 9), (9, 9))):
        folder = tmp_path / str(number)
        folder.mkdir()
        np.save(folder / "0.npy", np.ones(shape))
        assert answering.side({"rise": folder}) == 9
    np.save(tmp_path / "0" / "0.npy", np.ones((9, 8)))
    with pytest.raises(BadInput, match="is no map of a square image"):
        answering.side({"rise": tmp_path / "0"})


def test_predictions_are_written_and_read(tmp_path):
    assert answering.read_predictions(tmp_path) is None
    answering.save_predictions(tmp_path / "maps", [(7, "red"), (np.int64(12), "yes")])
    written = json.loads((tmp_path / "maps" / "predictions.json").read_text())
    assert written == [{"answer": "red", "question_index": 7}, {"answer": "yes", "question_index": 12}]
    assert answering.read_predictions(tmp_path / "maps") == {"7": "red", "12": "yes"}
    for content in ('{"answer": 1}', '[{"answer": "red"}]', '[{"answer": "mauve", "question_index": 1}]', "{"):
        (tmp_path / "predictions.json").write_text(content)
        with pytest.raises(BadInput, match="is no list of answers"):
            answering.read_predictions(tmp_path)


def test_saved_maps_score_as_they_would_in_memory(data, tmp_path):
    generator = np.random.default_rng(1)
    maps = {"rise": generator.random((12, 64, 64)), "lime": generator.normal(size=(12, 64, 64, 3))}
    indices = [question["question_index"] for question in data.questions]
    for name, found in maps.items():
        (tmp_path / name).mkdir()
        for index, one in zip(indices, found, strict=True):
            np.save(tmp_path / name / f"{index}.npy", one)
    explainer = SavedMaps(saved_methods(str(tmp_path)), [methods.MAPS["edge_detector"]])
    given = {str(index): answer for index, answer in zip(indices, data.answers, strict=True)}
    given[str(indices[4])] = "purple" if data.answers[4] != "purple" else "red"
    del given[str(indices[5])]
    questions = Questions(data, range(9))
    measured = collect(questions, sharded_run(questions, explainer, given, batch_size=4).evaluate())
    assert measured.right.tolist() == [True] * 4 + [False] * 2 + [True] * 3
    assert measured.confidence is None and measured.indices.tolist() == indices[:9]
    assert measured.gaps == {}
    (batch,) = data.batches(12, range(12))
    for name, found in maps.items():
        expected = score_maps(found, batch.masks)[:9]
        expected[4:6] = np.nan
        np.testing.assert_allclose(measured.scores(MapSource(name)), expected, rtol=1e-12)
    assert np.isfinite(measured.scores(MapSource(control="edge_detector"))[0]).all()
    without = collect(questions, sharded_run(questions, explainer).evaluate())
    assert without.right.all() and without.fingerprint == measured.fingerprint
