"""A network that answers questions, and the live network behind its file: what goes in and out, and what is refused."""

import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.cli import execute
from attribution.errors import BadInput
from attribution.methods import third_party
from clevr_xai import evaluate, vocabulary
from clevr_xai.network import Answering, confidences, live_network, scaled
from clevr_xai.vocabulary import ANSWERS

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "own_models.md"
(OWN,) = [block for block in re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL) if ".feed" in block]


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


@pytest.fixture(scope="module")
def with_live(small_network):
    network = Answering(small_network)
    third_party.offer(network.model, live_network)
    return network


@pytest.fixture
def method(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    return f"{tmp_path / 'own.py'}:beside_its_question"


def test_a_class_of_a_library_explains_an_image_beside_its_question(with_live, method):
    pytest.importorskip("tf_keras_vis")
    network = with_live
    images = np.random.default_rng(3).integers(0, 256, (2, 64, 64, 3), np.uint8)
    inputs = network.inputs(images, ["what color is the cube ?", "how many small red things are there ?"])
    maps = attribution.explain(method, network.model, inputs, explain_input="image")
    expected = np.abs(attribution.explain("gradient", network.model, inputs, explain_input="image")).max(axis=-1)
    assert expected.max() > 0
    np.testing.assert_allclose(maps, expected, rtol=1e-3, atol=1e-6 * expected.max())


def test_the_command_offers_it(method, small_network, answered, tmp_path, capsys):
    pytest.importorskip("tf_keras_vis")
    arguments = [f"--data_dir={answered}", f"--scores_dir={tmp_path}", f"--model={small_network}", "--num_questions=1"]
    arguments += [f"--methods={method}", "--controls=random_weights", "--random_networks=1", "--metrics=mass"]
    assert execute(evaluate.main, evaluate.FLAGS, evaluate.__doc__, ["evaluate", *arguments]) == 0
    out = capsys.readouterr().out
    assert "beside_its_question" in out and "poster:" not in out  # under random weights too, by a file made for the run


def test_another_network_is_refused_in_words(tmp_path):
    other = Answering(write(tmp_path / "other", ["yes", "no", "2"]))
    with pytest.raises(BadInput, match=r"which is not a Relation Network exported"):
        live_network(other.model)
