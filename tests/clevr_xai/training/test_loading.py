import dataclasses
import json
import shutil

import numpy as np
import pytest

from attribution.errors import BadInput
from clevr_xai import dataset, layout
from clevr_xai.generation import questions
from clevr_xai.training import loading


def test_questions_of_an_image_lie_together(training_data):
    assert training_data.images.shape == (4, 128, 128, 3)
    for image in range(4):
        rows = range(*training_data.first_question[image : image + 2])
        assert set(training_data.image_of[list(rows)]) == {image}
        assert len(rows) > 10
    assert training_data.first_question[-1] == len(training_data.answers)


def test_rounds_ask_anew(training_dir, training_data):
    once = loading.load(training_dir, {"simple": 1})
    assert len(once.answers) < len(training_data.rows_of_kind()["simple"])
    sentences = {tuple(row[row > 0]) for row in training_data.tokens}
    assert len(sentences) > 0.9 * len(training_data.tokens)


def test_processes_beside_each_other_read_the_same(training_dir, monkeypatch):
    monkeypatch.setattr(questions, "BLOCK", 1)
    monkeypatch.setattr(loading, "available_cores", lambda: 2)
    found = []
    for worth in (5, 1):
        monkeypatch.setattr(loading, "WORTH_PROCESSES", worth)
        found.append(loading.load(training_dir, {"simple": 1, "complex": 1}))
    for field in dataclasses.fields(found[0]):
        np.testing.assert_array_equal(*(getattr(each, field.name) for each in found))
    assert len(np.unique((found[0].tokens > 0).sum(axis=1))) > 4  # blocks' longest questions differ, and are padded


def test_blocks_are_put_one_behind_the_other(training_dir, training_data, monkeypatch):
    monkeypatch.setattr(questions, "BLOCK", 3)  # of four scenes: 3 and 1
    data = loading.load(training_dir, {"simple": 2, "complex": 1})
    for name in ("images", "centres", "owners", "attributes"):
        np.testing.assert_array_equal(getattr(data, name), getattr(training_data, name))
    first = data.first_question[3]  # the first block's questions depend on its scenes alone
    assert (data.image_of[:first] < 3).all() and (data.image_of[first:] == 3).all()
    length = min(data.tokens.shape[1], training_data.tokens.shape[1])
    np.testing.assert_array_equal(data.tokens[:first, :length], training_data.tokens[:first, :length])
    assert not data.tokens[:first, length:].any()


def test_each_wording_has_questions_of_its_own(training_dir):
    rounds = {"simple": 2, "complex": 1}
    plain, both = (loading.load(training_dir, rounds, wordings=names) for names in (["plain"], ["plain", "official"]))
    assert set(plain.wordings) == {"plain"} and set(both.wordings) == {"plain", "official"}
    chosen = both.wordings == "plain"
    width = plain.tokens.shape[1]
    np.testing.assert_array_equal(both.tokens[chosen][:, :width], plain.tokens)
    np.testing.assert_array_equal(both.programs[chosen], plain.programs)
    counts = [np.count_nonzero(both.wordings == name) for name in ("plain", "official")]
    assert abs(counts[0] - counts[1]) <= 2
    programs = {name: {tuple(row) for row in both.programs[both.wordings == name]} for name in ("plain", "official")}
    assert len(programs["plain"] & programs["official"]) < 0.2 * counts[0]


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


@pytest.mark.parametrize("seed", [0, None])
def test_data_of_the_embedded_sequence_are_refused(training_dir, tmp_path, seed):
    copy = shutil.copytree(training_dir, tmp_path / "copy")
    content = json.loads((copy / layout.SCENES).read_text())
    (copy / layout.SCENES).write_text(json.dumps({**content, "info": {"seed": seed}}))
    with pytest.raises(BadInput, match="embedded"):
        loading.load(copy, {"simple": 1})


def test_a_directory_without_data_is_refused(tmp_path):
    with pytest.raises(BadInput, match="generate_clevr_xai"):
        loading.load(tmp_path, {"simple": 1})
