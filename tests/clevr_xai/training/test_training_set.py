import numpy as np

from clevr_xai import programs
from clevr_xai.training import training_set
from clevr_xai.vocabulary import ANSWERS, QUESTION_WORDS


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
    assert training_data.only(["complex", "simple"]) is training_data  # no copy of the images


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
