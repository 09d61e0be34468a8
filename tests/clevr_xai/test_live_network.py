"""The live network behind a Relation Network's file is the same function, and methods can ask it."""

import pathlib
import re

import numpy as np
import pytest

import attribution
from attribution.cli import execute
from attribution.errors import BadInput
from attribution.methods import third_party
from clevr_xai import evaluate
from clevr_xai.answering import Answering, live_network

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "own_models.md"
(OWN,) = [block for block in re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL) if ".feed" in block]


@pytest.fixture(scope="module")
def network(small_network):
    network = Answering(small_network)
    third_party.offer(network.model, live_network)
    return network


@pytest.fixture
def method(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    return f"{tmp_path / 'own.py'}:beside_its_question"


def test_a_class_of_a_library_explains_an_image_beside_its_question(network, method):
    pytest.importorskip("tf_keras_vis")
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
    import tensorflow as tf

    from clevr_xai import vocabulary

    for name in (vocabulary.WORDS_FILE, vocabulary.ANSWERS_FILE):
        (tmp_path / name).write_text("yes\nno\n")
    module = tf.Module()
    module.lists = [
        tf.saved_model.Asset(str(tmp_path / name)) for name in (vocabulary.WORDS_FILE, vocabulary.ANSWERS_FILE)
    ]
    module.weights = tf.Variable(tf.ones((3, 2)))

    def logits(image, question):
        return tf.reduce_mean(image, [1, 2]) @ module.weights * tf.cast(tf.reduce_sum(question, 1, True), tf.float32)

    specification = [tf.TensorSpec((None, 64, 64, 3), name="image"), tf.TensorSpec((None, None), tf.int32, "question")]
    tf.saved_model.save(module, str(tmp_path / "other"), tf.function(logits, specification).get_concrete_function())
    other = Answering(tmp_path / "other")
    with pytest.raises(BadInput, match=r"which is not a Relation Network exported"):
        live_network(other.model)
