"""Training sets: reading, questions as numbers, caching."""

import dataclasses
import json
import os
import shutil

import numpy as np
import pytest

from attribution.errors import BadInput
from clevr_xai import dataset, layout, programs
from clevr_xai.generation import questions
from clevr_xai.training import training_set
from clevr_xai.training.batches import MIRRORED_NODES, MIRRORED_TOKENS
from clevr_xai.vocabulary import QUESTION_WORDS


def test_questions_of_an_image_lie_together(training_data):
    assert training_data.images.shape == (4, 128, 128, 3)
    first = training_data.first_question
    assert np.diff(first).min() > 10 and first[-1] == len(training_data.answers)
    np.testing.assert_array_equal(training_data.image_of, np.repeat(np.arange(4), np.diff(first)))


def test_rounds_have_different_questions(training_dir, training_data):
    once = training_set.load(training_dir, {"simple": 1})
    assert len(once.answers) < len(training_data.rows_of_kind()["simple"])
    sentences = {tuple(row[row > 0]) for row in training_data.tokens}
    assert len(sentences) > 0.9 * len(training_data.tokens)


def test_blocks_are_read_in_processes_and_put_one_behind_the_other(training_dir, training_data, monkeypatch):
    monkeypatch.setattr(questions, "BLOCK", 3)  # of four scenes: 3 and 1
    monkeypatch.setattr(training_set, "available_cores", lambda: 2)
    found = []
    for least in (5, 1):
        monkeypatch.setattr(training_set, "_MIN_PARALLEL_BLOCKS", least)
        found.append(training_set.load(training_dir, {"simple": 2, "complex": 1}))
    data, in_processes = map(dataclasses.asdict, found)
    for name, values in data.items():
        np.testing.assert_array_equal(in_processes[name], values)
    for name in ("images", "centres", "segmentation", "attributes"):
        np.testing.assert_array_equal(data[name], getattr(training_data, name))
    first = found[0].first_question[3]  # the first block's questions depend on its scenes alone
    assert (data["image_of"][:first] < 3).all() and (data["image_of"][first:] == 3).all()
    length = min(data["tokens"].shape[1], training_data.tokens.shape[1])
    np.testing.assert_array_equal(data["tokens"][:first, :length], training_data.tokens[:first, :length])


def test_each_wording_has_questions_of_its_own(training_dir):
    rounds = {"simple": 2, "complex": 1}
    plain, both = (
        training_set.load(training_dir, rounds, wordings=names) for names in (["plain"], ["plain", "official"])
    )
    assert set(plain.wordings) == {"plain"} and set(both.wordings) == {"plain", "official"}
    chosen = both.wordings == "plain"
    np.testing.assert_array_equal(both.tokens[chosen][:, : plain.tokens.shape[1]], plain.tokens)
    np.testing.assert_array_equal(both.programs[chosen], plain.programs)
    assert abs(np.count_nonzero(~chosen) - len(plain.tokens)) <= 2
    official = set(map(tuple, both.programs[~chosen]))
    assert len(official & set(map(tuple, plain.programs))) < 0.2 * len(plain.tokens)


def test_owners_are_the_pixels_of_the_masks(training_data):
    data = dataset.Dataset("simple")
    names = [question["image_filename"] for question in data.questions]
    truths = data.masks("all_objects", [names.index(name) for name in sorted(set(names))[:4]])[0]
    for image, every in enumerate(truths):
        shown = training_data.segmentation[image] > 0
        assert every[shown].all()  # the ground truth takes in every pixel that an object touches
        assert shown.sum() > 0.8 * every.sum()
        centres = training_data.centres[image]
        number = (~np.isnan(centres[:, 0])).sum()
        assert set(np.unique(training_data.segmentation[image])) == set(range(number + 1))
        for position in range(number):
            rows, columns = np.nonzero(training_data.segmentation[image] == position + 1)
            np.testing.assert_allclose(centres[position], [columns.mean(), rows.mean()], atol=1)


def first_scene(objects):
    return lambda content: {**content, "scenes": [{**content["scenes"][0], "objects": objects}]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        *((lambda content, seed=seed: {**content, "info": {"seed": seed}}, "embedded") for seed in (0, None, -5)),
        (lambda content: {"scenes": content["scenes"]}, "embedded"),
        (lambda content: [], "no list 'scenes'"),
        (lambda content: {**content, "scenes": [{}]}, "lacks 'image_index'"),
        (first_scene([{"color": "pink"}]), "CLEVR does not have"),
        (first_scene([{"shape": "cube", "size": "large", "color": "red", "material": "metal"}] * 11), "more than 10"),
    ],
)
def test_data_of_the_embedded_sequence_and_other_scenes_are_refused(training_dir, tmp_path, change, message):
    copy = shutil.copytree(training_dir, tmp_path / "copy")
    content = json.loads((copy / layout.SCENES).read_text())
    (copy / layout.SCENES).write_text(json.dumps(change(content)))
    with pytest.raises(BadInput, match=message):
        training_set.load(copy, {"simple": 1})


def test_only_one_kind(training_data):
    for kind, rows in training_data.rows_of_kind().items():
        part = training_data.only([kind])
        np.testing.assert_array_equal(part.answers, training_data.answers[rows])
        np.testing.assert_array_equal(part.images[part.image_of], training_data.images[training_data.image_of[rows]])
        assert part.first_question[-1] == len(rows)
    assert training_data.only(["complex", "simple"]) is training_data  # no copy of the images


def test_programs_are_read_from_their_end(asked):
    question = asked["complex"][3]
    nodes = training_set.program_nodes(question["program"])
    assert len(nodes) == training_set.MAX_NODES
    assert training_set.NODES[nodes[0]] == question["program"][-1]["type"]
    assert training_set.NODES[nodes[len(question["program"]) - 1]] == "scene"
    assert not any(nodes[len(question["program"]) :])
    assert max(len(each["program"]) for each in asked["complex"]) <= training_set.MAX_NODES


def test_cells_are_those_whose_receptive_field_is_centred_nearest():
    centres = np.array([[[15, 15], [111, 15], [22.9, 23.1], [np.nan, np.nan], [127, 127], [0, 0]]])
    assert training_set.cell_of(centres).tolist() == [[0, 6, 7, -1, 48, 0]]


def test_sets_are_what_the_programs_find(asked, scene_of):
    for question in asked["complex"][:100]:
        found = training_set.found_sets(question["program"])
        assert len(found) == training_set.MAX_NODES
        outputs = programs.execute(question["program"], scene_of(question))[::-1]
        for node, output, bits in zip(question["program"][::-1], outputs, found, strict=False):
            if node["type"] == "unique":
                assert bits == 2**output
            elif isinstance(output, list) and node["type"] != "scene":
                assert [k for k in range(10) if bits >> k & 1] == output
            else:
                assert bits == -1
        assert set(found[len(question["program"]) :]) <= {-1}


def test_mirrored_questions_keep_their_answers_in_mirrored_scenes(asked, scene_of):
    words = ["", "", *QUESTION_WORDS]
    turned = {"left": "right", "right": "left"}
    assert [turned.get(word, word) for word in words] == [words[token] for token in MIRRORED_TOKENS]
    number = 0
    for question in asked["complex"][:300]:
        scene = scene_of(question)
        related = scene["relationships"]
        mirrored = {**scene, "relationships": {name: related[turned.get(name, name)] for name in related}}
        program = [
            {**node, "value_inputs": [turned.get(value, value) for value in node["value_inputs"]]}
            for node in question["program"]
        ]
        assert programs.execute(program, mirrored)[-1] == question["answer"]
        nodes = np.array(training_set.program_nodes(question["program"]))
        assert MIRRORED_NODES[nodes].tolist() == training_set.program_nodes(program)
        number += program != question["program"]
    assert number > 50


ROUNDS = {"simple": 1}


@pytest.fixture
def loads(monkeypatch):
    """The arguments with which data were read from their directory."""
    found, load = [], training_set.load

    def counted(*arguments):
        found.append(arguments)
        return load(*arguments)

    monkeypatch.setattr(training_set, "load", counted)
    return found


def test_a_second_start_reads_the_same_from_one_file(training_dir, tmp_path, loads):
    first, second = (vars(training_set.load_cached(tmp_path / "set.npz", training_dir, ROUNDS)) for _ in range(2))
    assert len(loads) == 1 and list(first) == list(second)
    for name, value in first.items():
        assert type(value) is type(second[name])
        np.testing.assert_array_equal(value, second[name])
    assert os.listdir(tmp_path) == ["set.npz"]


@pytest.mark.parametrize("change", ["rounds", "number", "scenes", "wordings", "code"])
def test_changed_data_are_read_again(training_dir, tmp_path, loads, change, monkeypatch):
    arguments = [tmp_path / "set.npz", training_dir, ROUNDS, 3]
    training_set.load_cached(*arguments)
    if change == "scenes":
        os.utime(training_dir / layout.SCENES, (1, 1))
    elif change == "code":
        monkeypatch.setattr(training_set, "code_fingerprint", lambda *objects, files: "other code")
    elif change == "wordings":
        arguments.append(["plain"])
    else:
        arguments[2:] = ({"simple": 2}, 3) if change == "rounds" else (ROUNDS, 2)
    again = training_set.load_cached(*arguments)
    assert len(loads) == 2
    assert len(again.images) == arguments[3]
    training_set.load_cached(*arguments)
    assert len(loads) == 2


def test_a_directory_without_data_is_refused_and_nothing_written(tmp_path):
    with pytest.raises(BadInput, match="generate_clevr_xai"):
        training_set.load_cached(tmp_path / "set.npz", tmp_path, ROUNDS)
    assert not any(tmp_path.iterdir())
