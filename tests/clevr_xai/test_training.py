"""Training: data of both layouts, batches, a loop that resumes, and fine-tuning that starts at a network's scores."""

import functools
import json
import shutil

import keras
import numpy as np
import pytest
from PIL import Image

import attribution
from attribution.errors import BadInput
from attribution_benchmarks.core.bundled_models import default_model
from clevr_xai import cross_attention, layout, relation_network, training, vocabulary
from clevr_xai.data import EMBEDDED
from clevr_xai.network import Answering
from clevr_xai.vocabulary import ANSWERS, ATTRIBUTES, QUESTION_WORDS

BUILD = functools.partial(relation_network.build, pair_scale=relation_network.PAIR_SCALE, dropout=0.0)


@pytest.fixture(scope="module")
def data(training_dir):
    return training.load(training_dir, rounds=2)


def small(seed=0):
    keras.utils.set_random_seed(seed)
    return relation_network.build((16, 16), (16,), channels=8, pair_scale=0.01, dropout=0.0)


def attending():
    """A network of another architecture, with the layers that get auxiliary losses."""
    image = keras.Input((128, 128, 3), name="image")
    question = keras.Input((None,), dtype="int32", name="question")
    cells = keras.layers.Reshape((-1, 4))(relation_network.convolutions(channels=4)(image))
    code = relation_network.question_encoder(embedding=4, units=4)(question)
    found = keras.layers.Attention(name="attend")([keras.layers.Reshape((1, 4))(code), cells])
    return keras.Model([image, question], keras.layers.Dense(len(ANSWERS), name="logits")(found[:, 0]))


def asking():
    return cross_attention.build(width=16, heads=2, blocks=2, channels=8)


def batches(data, num_images=4, num_questions=2, num_pairs=120):
    return lambda step: training.answering_batch(
        data, np.random.default_rng((0, step)), num_images, num_questions, num_pairs
    )


def test_images_come_with_their_objects_and_every_round_has_other_questions(data, embedded_scenes):
    assert data.images.shape == (4, 128, 128, 3) and set(data.kinds) == {"simple", "complex"}
    first = data.first_question
    assert first[-1] == len(data.answers) and (np.diff(first) > 20).all()
    sentences = {tuple(row[row > 0]) for row in data.tokens}
    assert len(sentences) > 0.9 * len(data.tokens)
    for row, scene in enumerate(embedded_scenes[:4]):
        places = np.array([item["pixel_coords"][:2] for item in scene["objects"]]) * 128 / [480, 320]
        found = data.centres[row, : len(places)]
        assert np.abs(found - places).max() < 6  # the visible part of an object is around its middle
        assert np.isnan(data.centres[row, len(places) :]).all()
        names = [values[place] for values, place in zip(ATTRIBUTES.values(), data.attributes[row, 0], strict=True)]
        assert names == [scene["objects"][0][name] for name in ATTRIBUTES]


@pytest.fixture(scope="module")
def clevr(tmp_path_factory, embedded_scenes, ask):
    """Two embedded scenes in the layout of CLEVR v1.0, with its names of keys, and their questions."""
    folder = tmp_path_factory.mktemp("CLEVR_v1.0")
    scenes = [
        {**scene, "image_filename": f"CLEVR_train_{scene['image_index']:06}.png"} for scene in embedded_scenes[:2]
    ]
    asked = ask(embedded_scenes[:2], "complex", seed=3)
    for question in asked:
        question["program"] = [
            {"function": node["type"], "inputs": node["inputs"], "value_inputs": node["value_inputs"]}
            for node in question["program"]
        ]
        question["answer"] = vocabulary.answer_text(question["answer"])
        del question["template_filename"]
    for name in ("images/train", "scenes", "questions"):
        (folder / name).mkdir(parents=True)
    for old, new in zip(embedded_scenes, scenes, strict=False):
        with Image.open(EMBEDDED / layout.IMAGES / old["image_filename"]) as picture:
            picture.resize((480, 320)).save(folder / "images/train" / new["image_filename"])
        for key in ("mask_filename", "camera", "lights"):
            del new[key]
    (folder / "scenes/CLEVR_train_scenes.json").write_text(json.dumps({"info": {}, "scenes": scenes}))
    (folder / "questions/CLEVR_train_questions.json").write_text(json.dumps({"info": {}, "questions": asked}))
    return folder, asked


def test_the_official_clevr_is_read_with_its_questions(clevr, data):
    folder, asked = clevr
    found = training.load_clevr(folder)
    assert set(found.kinds) == {"CLEVR"} and len(found.answers) == len(asked)
    assert [ANSWERS[answer] for answer in found.answers] == [question["answer"] for question in asked]
    words = [[QUESTION_WORDS[token - 2] for token in row if token] for row in found.tokens]
    assert words == [vocabulary.words_of(question["question"]) for question in asked]
    np.testing.assert_array_equal(found.attributes, data.attributes[:2])
    np.testing.assert_allclose(found.centres, data.centres[:2], atol=6)
    assert found.types.tolist() == [question["program"][-1]["function"].replace("_", " ") for question in asked]
    with pytest.raises(BadInput, match="CLEVR_val_scenes"):
        training.load_clevr(folder, "val")


def test_what_is_not_of_clevr_is_refused(training_dir, clevr, tmp_path):
    with pytest.raises(BadInput, match="no scenes, images or masks"):
        training.load(tmp_path)
    for path, name, change in (
        (training_dir, layout.SCENES, lambda content: content["scenes"][0]["objects"][0].update(color="pink")),
        (clevr[0], "questions/CLEVR_train_questions.json", lambda one: one["questions"][0].update(answer="pink")),
    ):
        copy = tmp_path / path.name
        shutil.copytree(path, copy)
        content = json.loads((copy / name).read_text())
        change(content)
        (copy / name).write_text(json.dumps(content))
        with pytest.raises(BadInput, match="CLEVR"):
            (training.load if path == training_dir else training.load_clevr)(copy)


def test_a_batch_depends_on_its_generator_alone_and_a_mirrored_image_has_a_mirrored_question(data):
    make = batches(data, num_images=16, num_questions=3)
    for one, other in zip(make(5), make(5), strict=True):
        assert all(np.array_equal(one[name], other[name]) for name in one)
    inputs, targets = make(5)
    assert not np.array_equal(inputs["image"], make(6)[0]["image"])
    assert inputs["question"].shape[0] == targets["answer"].shape[0] == 48
    questions = {tuple(row[row > 0]): place for place, row in enumerate(data.tokens)}
    mirrored = {tuple(training.MIRRORED_TOKENS[list(row)]): place for row, place in questions.items()}
    seen = set()
    for row, answer, program in zip(inputs["question"], targets["answer"], targets["program"], strict=True):
        words = tuple(row[row > 0])
        assert words in questions or words in mirrored
        seen.add(words in questions)
        place = questions.get(words, mirrored.get(words))
        assert answer == data.answers[place]
        if words not in questions:
            np.testing.assert_array_equal(program, training.MIRRORED_NODES[data.programs[place]])
    assert seen == {True, False}


def test_cells_show_the_object_with_its_centre_there(data):
    cells = training.cell_targets(data.centres, data.attributes)
    for row in range(len(data.images)):
        number = np.count_nonzero(~np.isnan(data.centres[row, :, 0]))
        places = relation_network.cell_of(data.centres[row, :number])
        for position in reversed(range(number)):
            first = list(places).index(places[position])
            np.testing.assert_array_equal(cells[row, places[position]], data.attributes[row, first])


def test_sampled_pairs_estimate_the_sum_of_all_and_include_the_certain_ones():
    certain = np.zeros((300, 9), bool)
    certain[:, [1, 4]] = True
    values = np.random.default_rng(1).normal(size=(9, 9))
    pairs, weights = relation_network.sample_pairs(certain, 30, np.random.default_rng(0))
    np.testing.assert_allclose(weights.sum(axis=1), 81, rtol=1e-5)
    sums = (values[pairs[..., 0], pairs[..., 1]] * weights).sum(axis=1)
    assert abs(sums.mean() - values.sum()) < 4 * sums.std() / np.sqrt(len(sums))
    for chosen in pairs:
        numbers = {tuple(pair) for pair in chosen.tolist()}
        assert len(numbers) == 30 and {(1, 1), (1, 4), (4, 1), (4, 4)} <= numbers
    _, weights = relation_network.sample_pairs(certain, 81, np.random.default_rng(0))
    assert (weights == 1).all()
    with pytest.raises(ValueError, match="4 pairs of 81"):
        relation_network.sample_pairs(certain, 4, np.random.default_rng(0))


@pytest.mark.parametrize("build", [small, attending, asking])
def test_a_step_on_all_pairs_answers_as_the_network_does(build, data):
    network = build()
    inputs, _ = batches(data, num_pairs=2401)(0)
    model = training.training_model(network, num_questions=2)
    answers = model({name: inputs[name] for name in model.input})["answer"]
    images = np.repeat(inputs["image"], 2, axis=0).astype(np.float32) / 255
    np.testing.assert_allclose(answers, network([images, inputs["question"]]), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("build", [small, attending, asking])
def test_training_fits_a_few_questions(build, data):
    first = batches(data)(0)
    model = training.training_model(build(), num_questions=2)
    log = training.train(model, lambda step: first, 60, training.Schedule(5e-3, 60, 5), every=30)
    assert [entry["step"] for entry in log] == [30, 60]
    for name in ("answer_loss", "cells_loss", "program_loss"):
        assert log[1][name] < 0.9 * log[0][name]
    assert log[1]["answer_accuracy"] > log[0]["answer_accuracy"]


def test_a_stopped_training_ends_with_the_same_weights(data, tmp_path):
    def run(steps, checkpoint, build=small):
        whole = training.training_model(build(), num_questions=2)
        model = keras.Model({"image": whole.input["image"]}, {"cells": whole.output["cells"]})
        training.train(model, batches(data), steps, training.Schedule(1e-3, 4, 2), checkpoint=checkpoint, every=2)
        return model.get_weights()

    whole = run(4, tmp_path / "whole.npz")
    run(2, tmp_path / "parts.npz")
    for one, other in zip(run(4, tmp_path / "parts.npz"), whole, strict=True):
        assert one.tobytes() == other.tobytes()
    with pytest.raises(BadInput, match="step 4, the last is 3"):
        run(3, tmp_path / "parts.npz")
    with pytest.raises(BadInput, match="another network"):
        run(4, tmp_path / "parts.npz", attending)


def test_frozen_layers_keep_their_weights_and_slow_ones_change_less(data):
    def moved(factors, frozen=()):
        network = small()
        training.freeze(network, frozen)
        before = {weight.path: np.array(weight) for weight in network.weights}
        model = training.training_model(network, num_questions=2)
        training.train(model, batches(data), 1, training.Schedule(1e-3, 2, warm_up=0), factors)
        return {weight.path: np.abs(np.array(weight) - before[weight.path]).max() for weight in network.weights}

    whole, slow = moved({}), moved({"convolutions": 0.1}, ["question_encoder", "norm1"])
    kernel = "convolutions/conv1/kernel"
    assert slow[kernel] == pytest.approx(0.1 * whole[kernel], rel=0.05) and whole[kernel] > 1e-4
    for path, distance in slow.items():
        frozen = path.split("/")[0] in ("embedding", "gates", "lstm") or "norm1" in path
        assert (distance == 0) == frozen, path
    with pytest.raises(BadInput, match="no layer 'norm9'"):
        training.freeze(small(), ["norm9"])


def test_fine_tuning_starts_at_the_scores_of_the_bundled_network_and_its_export_is_loaded_again(data, tmp_path):
    path = default_model("clevr_xai/relation_network")
    network = training.load_exported(path, BUILD)
    inputs = {"image": data.images[:2].astype(np.float32) / 255, "question": data.tokens[[0, -1]]}
    scores = attribution.load_model(path, score="logits").scores(inputs)
    np.testing.assert_allclose(network(list(inputs.values())), scores, rtol=1e-3, atol=1e-3)
    rows = np.arange(0, len(data.answers), 3)
    correct = training.is_correct(network, data, rows)
    found = training.accuracies(data, rows, correct)
    assert found["simple"][0] > 0.9 and found["simple"][1] + found["complex"][1] == len(rows)
    card = training.model_card(found, source=data.source, wordings="official", command="train", settings="none")
    assert "with CLEVR's questions in official wording" in card and "| simple |" in card
    relation_network.export(network, tmp_path / "again", card)
    again = attribution.load_model(tmp_path / "again", score="logits").scores(inputs)
    np.testing.assert_allclose(again, scores, rtol=1e-3, atol=1e-3)
    with pytest.raises(BadInput, match="no exported network of this architecture"):
        training.load_exported(path, small)


def test_a_new_head_takes_some_layers_of_a_file_and_is_exported_with_the_same_inputs(data, tmp_path):
    path = default_model("clevr_xai/relation_network")
    whole = training.load_exported(path, BUILD)
    network = training.load_exported(path, cross_attention.build, ("convolutions", "question_encoder"))
    for name in ("convolutions", "question_encoder"):
        for taken, given in zip(network.get_layer(name).weights, whole.get_layer(name).weights, strict=True):
            np.testing.assert_array_equal(taken, given)
    inputs = {"image": data.images[:2].astype(np.float32) / 255, "question": data.tokens[[0, -1]]}
    relation_network.export(network, tmp_path / "attending", "")
    model = Answering(tmp_path / "attending").model
    np.testing.assert_allclose(model.scores(inputs), network(list(inputs.values())), rtol=1e-3, atol=1e-4)
    maps = attribution.explain("lrp_cp", model, inputs)
    assert maps.shape == (2, 128, 128, 3) and np.abs(maps).max() > 0
    with pytest.raises(BadInput, match="rollout is defined for self-attention alone"):
        attribution.explain("attention_rollout", model, inputs)
