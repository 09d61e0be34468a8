"""A network and its questions, and maps and answers on disk: what goes in, what comes out, and what is refused."""

import json

import numpy as np
import pytest
import tensorflow as tf

from attribution.errors import BadInput
from attribution_benchmarks.core.batch import MapSource
from attribution_benchmarks.core.explainer import SavedMaps, saved_methods
from clevr_xai import answering, methods, vocabulary
from clevr_xai.answering import Answering, Questions, collect, confidences, scaled, sharded_run
from clevr_xai.metrics import score_maps
from clevr_xai.vocabulary import ANSWERS


def write(path, answers, words=("red",), image=(None, 8, 8, 3)):
    """Write a network that gives three logits."""
    path.mkdir()
    module = tf.Module()
    module.assets = []
    for name, entries in ((vocabulary.WORDS_FILE, words), (vocabulary.ANSWERS_FILE, answers)):
        (path / name).write_text("".join(f"{entry}\n" for entry in entries))
        module.assets.append(tf.saved_model.Asset(str(path / name)))
    module.call = tf.function(
        lambda image, question: {"logits": tf.reduce_mean(image, axis=[1, 2]) + tf.cast(question[:, :1], tf.float32)},
        input_signature=[tf.TensorSpec(image, tf.float32, name="image"),
                         tf.TensorSpec((None, None), tf.int32, name="question")],
    )  # fmt: skip
    tf.saved_model.save(module, str(path / "1"), signatures=module.call)
    return path


def test_inputs_and_targets(small_network):
    network = Answering(small_network)
    assert network.size == 64 and network.answers == list(ANSWERS)
    images = np.full((2, 64, 64, 3), 255, np.uint8)
    inputs = network.inputs(images, ["What?", "How big is it?"])
    assert inputs["image"].dtype == np.float32 and (inputs["image"] == 1).all()
    assert inputs["question"].shape == (2, 4)
    np.testing.assert_array_equal(network.targets(["no", "mauve", "yes"]), [1, -1, 0])
    assert network.model.scores(inputs).shape == (2, 28)


def test_confidence_is_the_greatest_softmax_to_its_last_digits():
    np.testing.assert_allclose(confidences(np.array([[0.0, 0, 0], [np.log(2), 0, 0]])), [1 / 3, 0.5])
    np.testing.assert_allclose(1 - confidences(np.array([[20.0, 0.0]], np.float32)), np.exp(-20), rtol=1e-6)
    assert scaled(np.array([0, 51, 255], np.uint8)).tolist() == pytest.approx([0, 0.2, 1])


def test_what_is_no_such_network_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"gives 3 logits, but its answers\.txt lists 2 answers"):
        Answering(write(tmp_path / "few", ["yes", "no"]))
    with pytest.raises(BadInput, match=r"takes image \(None, 8, 6, 3\), question .*; a network for CLEVR-XAI takes"):
        Answering(write(tmp_path / "oblong", ["yes", "no", "2"], image=(None, 8, 6, 3)))
    network = Answering(write(tmp_path / "good", ["yes", "no", "2"]))
    network.model.path.joinpath("assets", vocabulary.ANSWERS_FILE).unlink()
    with pytest.raises(BadInput, match=r"no readable .*answers\.txt"):
        Answering(tmp_path / "good")


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
