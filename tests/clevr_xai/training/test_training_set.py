import json
import shutil

import numpy as np
import pytest

from attribution_benchmarks.command_line import BadInput
from clevr_xai import dataset, layout, programs
from clevr_xai.training import training_set
from clevr_xai.vocabulary import ANSWERS, QUESTION_WORDS


def test_questions_of_an_image_lie_together(training_data):
    assert training_data.images.shape == (4, 128, 128, 3)
    for image in range(4):
        rows = range(*training_data.first_question[image : image + 2])
        assert set(training_data.image_of[list(rows)]) == {image}
        assert len(rows) > 10
    assert training_data.first_question[-1] == len(training_data.answers)


def test_rounds_ask_anew(training_dir, training_data):
    once = training_set.load(training_dir, {"simple": 1})
    assert len(once.answers) < len(training_data.rows_of_kind()["simple"])
    sentences = {tuple(row[row > 0]) for row in training_data.tokens}
    assert len(sentences) > 0.9 * len(training_data.tokens)


def masks_of_all_objects(number):
    """Return the ground truth of all objects in the first so many embedded images."""
    data = dataset.Dataset("simple")
    names = [question["image_filename"] for question in data.questions]
    return data.masks("all_objects", [names.index(name) for name in sorted(set(names))[:number]])[0]


def test_centres_are_where_the_masks_are(training_data):
    for image, every in enumerate(masks_of_all_objects(4)):
        for column, line in training_data.centres[image]:
            if not np.isnan(column):  # a visible part may be hollow, its middle is next to it at most
                around = every[int(line) - 3 : int(line) + 5, int(column) - 3 : int(column) + 5]
                assert around.any()


def test_owners_are_the_pixels_of_the_masks(training_data):
    for image, every in enumerate(masks_of_all_objects(4)):
        shown = training_data.owners[image] > 0
        assert every[shown].all()  # the ground truth takes in every pixel that an object touches
        assert shown.sum() > 0.8 * every.sum()
        centres = training_data.centres[image]
        number = (~np.isnan(centres[:, 0])).sum()
        assert set(np.unique(training_data.owners[image])) == set(range(number + 1))
        for position in range(number):
            rows, columns = np.nonzero(training_data.owners[image] == position + 1)
            np.testing.assert_allclose(centres[position], [columns.mean(), rows.mean()], atol=1)


def test_answers_are_those_of_the_programs(training_data):
    values = {"yes", "no", *map(str, range(11))}
    last = [training_set.NODES[node] for node in training_data.programs[:, 0]]
    for name, answer in zip(last, training_data.answers, strict=True):
        assert (ANSWERS[answer] in values) != name.startswith("query_")


def test_only_one_kind(training_data):
    for kind, rows in training_data.rows_of_kind().items():
        part = training_data.only([kind])
        np.testing.assert_array_equal(part.answers, training_data.answers[rows])
        np.testing.assert_array_equal(part.images[part.image_of], training_data.images[training_data.image_of[rows]])
        assert part.first_question[-1] == len(rows)
    both = training_data.only(["complex", "simple"])
    np.testing.assert_array_equal(both.tokens, training_data.tokens)


def test_programs_are_read_from_their_end(asked):
    question = asked["complex"][3]
    nodes = training_set.program_nodes(question["program"])
    assert len(nodes) == training_set.MOST_NODES
    assert training_set.NODES[nodes[0]] == question["program"][-1]["type"]
    assert training_set.NODES[nodes[len(question["program"]) - 1]] == "scene"
    assert not any(nodes[len(question["program"]) :])
    assert max(len(each["program"]) for each in asked["complex"]) <= training_set.MOST_NODES


def test_cells_are_those_whose_receptive_field_is_centred_nearest():
    centres = np.array([[[15, 15], [111, 15], [22.9, 23.1], [np.nan, np.nan], [127, 127], [0, 0]]])
    assert training_set.cell_of(centres).tolist() == [[0, 6, 7, -1, 48, 0]]


def test_sets_are_what_the_programs_find(asked, scene_of):
    for question in asked["complex"][:100]:
        found = training_set.found_sets(question["program"])
        assert len(found) == training_set.MOST_NODES
        outputs = programs.execute(question["program"], scene_of(question))[::-1]
        for node, output, bits in zip(question["program"][::-1], outputs, found, strict=False):
            if node["type"] == "unique":
                assert bits == 2**output
            elif isinstance(output, list) and node["type"] != "scene":
                assert [k for k in range(10) if bits >> k & 1] == output
            else:
                assert bits == -1
        assert set(found[len(question["program"]) :]) <= {-1}


@pytest.mark.parametrize("seed", [0, None])
def test_data_of_the_embedded_sequence_are_refused(training_dir, tmp_path, seed):
    copy = shutil.copytree(training_dir, tmp_path / "copy")
    content = json.loads((copy / layout.SCENES).read_text())
    (copy / layout.SCENES).write_text(json.dumps({**content, "info": {"seed": seed}}))
    with pytest.raises(BadInput, match="embedded"):
        training_set.load(copy, {"simple": 1})


def test_a_directory_without_data_is_refused(tmp_path):
    with pytest.raises(BadInput, match="generate_clevr_xai"):
        training_set.load(tmp_path, {"simple": 1})


def test_mirrored_questions_keep_their_answers_in_mirrored_scenes(asked, scene_of):
    """What the batches do to questions on mirrored images: left and right change places."""
    from clevr_xai.training.batches import MIRRORED_NODES, MIRRORED_TOKENS

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
