"""Relevance on a Relation Network: conservation, signs, folding, and every method of the benchmark once."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.lrp.composite import Composite, Rule
from clevr_xai import relation_network

SIZE, CELLS = 64, 9


def asked_directly():
    """Return a network without biases whose question is a vector, so that its relevance can be asked for."""
    keras.utils.set_random_seed(2)
    image, question = keras.Input((SIZE, SIZE, 3), name="image"), keras.Input((5,), name="question")
    cells = relation_network.Coordinates()(relation_network.convolutions(SIZE, 6)(image))
    related = relation_network.Relations((16,) * 4)(cells, question)
    network = keras.Model([image, question], relation_network.head(16, (16, 16), num_answers=4)(related))
    generator = np.random.default_rng(4)
    for variable in network.variables:  # normalization only scales
        if "variance" in variable.path or "gamma" in variable.path:
            variable.assign(np.abs(generator.normal(0, 0.3, variable.shape)) + 0.5)
    return network


def exported(network, path):
    archive = keras.export.ExportArchive()
    archive.track(network)
    specification = [tf.TensorSpec((None, *one.shape[1:]), one.dtype, name=one.name) for one in network.inputs]
    archive.add_endpoint("serve", lambda image, question: network([image, question]), specification)
    archive.write_out(path, verbose=False)
    return attribution.load_model(path)


@pytest.fixture(scope="module")
def network(small_network):
    return attribution.load_model(small_network)


@pytest.fixture(scope="module")
def unbiased(tmp_path_factory):
    return exported(asked_directly(), tmp_path_factory.mktemp("unbiased"))


@pytest.fixture(scope="module")
def asked():
    generator = np.random.default_rng(0)
    image = generator.random((3, SIZE, SIZE, 3), dtype=np.float32)
    tokens = np.array([[4, 7, 2, 0], [9, 3, 0, 0], [5, 6, 8, 30]], np.int32)
    return {"tokens": {"image": image, "question": tokens},
            "vectors": {"image": image, "question": generator.normal(size=(3, 5)).astype(np.float32)}}  # fmt: skip


def nodes(graph, kind, source="image"):
    return [name for name in graph.nodes if graph.nodes[name].op == kind and name in graph.below([source])]


def test_relevance_of_image_coordinates_and_question_is_the_logit(unbiased, asked):
    inputs, targets = asked["vectors"], np.array([0, 1, 2], np.int32)
    plus = Rule("z_plus", epsilon=0.0)
    box = Rule("box", epsilon=0.0)
    as_in_the_paper, without_box = (Composite(plus, plus, plus, first=first) for first in (box, None))
    of_image = unbiased.relevance(inputs, targets, "image", as_in_the_paper).sum(axis=(1, 2, 3))
    of_question = unbiased.relevance(inputs, targets, "question", without_box).sum(axis=1)
    (cells,) = nodes(unbiased.graph, "ConcatV2", unbiased.input_node("image"))
    of_cells = unbiased.relevance(inputs, targets, "image", as_in_the_paper, layers=[cells])[cells]
    assert of_cells.shape == (3, CELLS, 8)
    of_coordinates = of_cells[..., -2:].sum(axis=(1, 2))
    logits = unbiased.scores(inputs)[np.arange(3), targets]
    for part in (of_image, of_question, of_coordinates):
        assert (part / logits > 1e-4).all()
    np.testing.assert_allclose(of_image + of_question + of_coordinates, logits, rtol=1e-4)


def test_positive_rules_give_maps_of_one_sign(network, asked):
    inputs = asked["tokens"]
    for target in (0, 5, 27):
        logits = network.scores(inputs)[:, target]
        maps = attribution.explain("lrp_clevr_xai", network, inputs, target, explain_input="image")
        assert (maps * np.sign(logits)[:, None, None, None] >= 0).all() and maps.any(axis=(1, 2, 3)).all()
        maps = attribution.explain("excitation_backprop", network, inputs, target, explain_input="image")
        assert (maps >= 0).all() and (maps.sum(axis=(1, 2, 3)) <= 1).all() and maps.any(axis=(1, 2, 3)).all()


def test_padding_and_the_rows_of_a_batch_change_no_map(network, asked):
    inputs = asked["tokens"]
    padded = dict(inputs, question=np.pad(inputs["question"], ((0, 0), (2, 3))))
    one = {key: array[1:2] for key, array in inputs.items()}
    for name in ("lrp_clevr_xai", "gradient"):
        maps, of_padded, of_one = (
            attribution.explain(name, network, asked_about, 3, explain_input="image")
            for asked_about in (inputs, padded, one)
        )
        slack = 1e-5 * np.abs(maps).max()
        np.testing.assert_allclose(of_padded, maps, atol=slack)
        np.testing.assert_allclose(of_one, maps[1:2], atol=slack)
