"""Settings of the methods; controls: maps that know no network, and what is asked in place of the right thing."""

import numpy as np
import pytest

from attribution.errors import BadInput
from attribution_benchmarks.core.batch import Batch
from clevr_xai import methods
from clevr_xai.data import Dataset
from clevr_xai.questions import Questions


def batch(count=3, seeds=("a", "b", "c")):
    images = np.random.default_rng(0).random((count, 12, 10, 3), dtype=np.float32)
    return Batch({"image": images}, list(seeds)[:count], explained="image")


def test_the_random_map_is_each_questions_own():
    random = methods.CONTROLS["random"].maps
    found = random(batch(), 0)
    assert found.shape == (3, 12, 10) and (found >= 0).all() and (found < 1).all()
    np.testing.assert_array_equal(random(batch(1, ["c"]), 0)[0], found[2])
    assert not np.array_equal(found[0], found[1])
    assert not np.array_equal(random(batch(1, ["c"]), 1)[0], found[2])


def test_the_edge_detector_finds_an_edge_and_nothing_else():
    edges = methods.CONTROLS["edge_detector"].maps
    step = np.zeros((1, 8, 8, 3), np.float32)
    step[:, :, 4:] = 0.5
    found = edges(Batch({"image": step}, ["a"], explained="image"), 0)[0]
    np.testing.assert_allclose(found[:, 3:5], 4 * 0.5, rtol=1e-6)  # Sobel's columns 1, 2, 1
    assert not found[:, :3].any() and not found[:, 5:].any()
    turned = edges(Batch({"image": step.transpose(0, 2, 1, 3)}, ["a"], explained="image"), 0)[0]
    np.testing.assert_array_equal(turned, found.T)


def test_the_wrong_class_is_the_best_of_the_others(network, data):
    (part,) = Questions(data, range(12), network).batches(12)
    asked = part.load()
    model, disturbed = methods.CONTROLS["wrong_class"].disturb(network.model, asked, 0)
    logits = network.model.scores(asked.inputs)
    assert model is network.model and disturbed.inputs is asked.inputs
    for scores, target, found in zip(logits, asked.targets, disturbed.targets, strict=True):
        assert found == max((place for place in range(28) if place != target), key=lambda place: scores[place])


def test_another_question_has_other_words():
    sentences = ["What is it?", "what is it", "How big is the cube?", "What is it?"]
    for seed in range(5):
        assert methods.other_questions(sentences, [0, 1, 3], seed) == [2, 2, 2]
    assert set(methods.other_questions(sentences, [2], 0)) <= {0, 1, 3}
    assert methods.other_questions(["same", "same"], [1], 0) == [1]
    many = [f"question number {number}" for number in range(50)]
    rows = list(range(50))
    drawn = methods.other_questions(many, rows, 0)
    assert all(row != other for row, other in zip(rows, drawn, strict=True)) and len(set(drawn)) > 20
    assert methods.other_questions(many, [7, 3], 0) == [drawn[7], drawn[3]]  # whatever else is asked
    assert methods.other_questions(many, rows, 1) != drawn


def test_the_other_question_is_put_in_place_of_the_words_alone(network, data):
    (asked,) = methods.asked_of(data, network, ["permuted_question"])
    (part,) = Questions(data, [3, 8, 9], network).batches(5)
    batch = part.load()
    model, disturbed = asked.disturb(network.model, batch, 4)
    sentences = [question["question"] for question in data.questions]
    others = [sentences[row] for row in methods.other_questions(sentences, [3, 8, 9], 4)]
    assert model is network.model
    np.testing.assert_array_equal(disturbed.targets, batch.targets)
    np.testing.assert_array_equal(disturbed.pictures, batch.pictures)
    np.testing.assert_array_equal(disturbed.inputs["question"], network.encoded(others))


def test_the_controls_of_a_run_stand_in_the_order_of_the_tables(network, data):
    chosen = methods.asked_of(data, network, ["random", "permuted_question", "wrong_class"])
    assert [control.name for control in chosen] == ["wrong_class", "permuted_question", "random"]
    assert all(control.maps or control.disturb for control in chosen)
    other = Dataset("simple", data.data_dir, size=64)
    first, *rest = other.questions
    other.questions = [dict(first, question="What color is the ball?"), *rest]
    (changed,) = methods.asked_of(other, network, ["permuted_question"])
    assert changed.depends_on != chosen[1].depends_on  # what was stored of other questions is not found again


def test_settings_of_the_methods():
    chosen = methods.settings(list(methods.TITLES), steps=7, samples=9, layer="conv3")
    parameters = {name: method.parameters(overrides) for name, (method, overrides) in chosen.items()}
    assert list(chosen) == list(methods.TITLES)
    assert {name: parameters[name]["baseline"] for name in methods.BASELINES} == methods.BASELINES
    assert {parameters[name]["points"] for name in methods.BASELINES} == {8}
    assert parameters["smoothgrad"]["samples"] == parameters["vargrad"]["samples"] == 9
    assert parameters["grad_cam"]["layer"] == "conv3"
    defaults = methods.settings(["vargrad", "integrated_gradients", "grad_cam"])
    assert defaults["vargrad"][1] == {"samples": 300, "noise": 0.05}
    assert defaults["integrated_gradients"][1] == {"points": 301, "baseline": 0.0} and defaults["grad_cam"][1] == {}
    (refined,) = methods.settings(["integrated_gradients_gray"], tolerance=0.02).values()
    assert refined[0].name == "integrated_gradients"
    assert refined[1] == {"points": 301, "baseline": 0.5, "tolerance": 0.02}
    with pytest.raises(BadInput, match="needs a live Keras network of one input"):
        methods.settings(["tf_keras_vis.gradient"])
    with pytest.raises(BadInput, match="no method 'lrp'; did you mean"):
        methods.settings(["lrp"])
    with pytest.raises(BadInput, match="no method 'integrated_gradients_white'"):
        methods.settings(["integrated_gradients_white"])
