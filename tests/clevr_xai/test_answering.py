"""A network and its questions: what goes in, what comes out, and what is refused."""

import numpy as np
import pytest
import tensorflow as tf

from attribution.errors import BadInput
from clevr_xai import vocabulary
from clevr_xai.answering import Answering, confidences, scaled
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
