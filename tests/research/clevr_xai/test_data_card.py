"""The figures of a data directory, and the card that holds them."""

import json
import pathlib
import re

import numpy as np
import pytest
from PIL import Image

from attribution import cli
from attribution.reading import read_json
from clevr_xai import dataset, layout
from research.clevr_xai import data_card


@pytest.fixture(scope="module")
def facts(embedded_directory):
    return data_card.collect(embedded_directory, traced=3)


@pytest.fixture(scope="module")
def embedded_directory(tmp_path_factory, embedded_scenes):
    """Three embedded scenes; the images are flat, of level 100 + row outside the objects and black on them.

    The last two do not tell where the camera stood.
    """
    directory = tmp_path_factory.mktemp("flat")
    scenes = embedded_scenes[:3]
    (directory / layout.IMAGES).mkdir()
    (directory / layout.MASKS).symlink_to(dataset.EMBEDDED / layout.MASKS)
    for scene in scenes:
        mask = np.asarray(Image.open(dataset.EMBEDDED / layout.MASKS / scene["mask_filename"]).convert("RGB"))
        front = Image.fromarray((mask != 64).any(axis=2).astype(np.float32)).resize((128, 128), Image.BILINEAR)
        levels = np.where(np.asarray(front) > 0, 0, 100 + np.arange(128)[:, None]).astype(np.uint8)
        Image.fromarray(np.repeat(levels[..., None], 3, axis=2)).save(
            directory / layout.IMAGES / scene["image_filename"]
        )
    names = {scene["image_filename"] for scene in scenes}
    embedded = read_json(dataset.EMBEDDED / (layout.QUESTIONS.format(kind="complex") + ".gz"))["questions"]
    asked = [question for question in embedded if question["image_filename"] in names]
    bare = [{key: value for key, value in scene.items() if key != "camera"} for scene in scenes[1:]]
    (directory / layout.SCENES).write_text(json.dumps({"scenes": [scenes[0], *bare]}))
    (directory / layout.QUESTIONS.format(kind="complex")).write_text(json.dumps({"questions": asked}))
    return directory


def test_the_background_is_what_no_object_covers(facts):
    covered = np.isnan(facts.rows)
    np.testing.assert_array_equal(np.where(covered, 0, facts.rows), np.where(covered, 0, 100.0 + np.arange(128)))
    assert facts.grey(16) == 116 and facts.images == 3


def test_objects_and_questions_are_counted(facts, embedded_scenes):
    assert facts.objects.tolist() == [len(scene["objects"]) for scene in embedded_scenes[:3]]
    assert len(facts.visible) == facts.objects.sum() and facts.visible.min() >= data_card.REAL_VISIBLE
    assert len(facts.hidden) == facts.objects[0]
    assert all(abs(sum(shares.values()) - 1) < 1e-12 for shares in facts.attributes.values())
    assert list(facts.questions) == ["complex"] and facts.questions["complex"].count == 30
    assert abs(sum(facts.questions["complex"].files.values()) - 1) < 1e-12


def test_an_object_behind_a_larger_one_is_hidden(embedded_scenes):
    """A sphere on the way from the camera to a small cube hides all of it, and nothing hides the sphere."""
    scene = embedded_scenes[0]
    eye = np.array(scene["camera"])
    there = {**scene["objects"][0], "rotation": 0.0}
    cube = {**there, "shape": "cube", "size": "small", "3d_coords": [0.0, 0.0, 0.2474873734152916]}
    sphere = {**there, "shape": "sphere", "size": "large", "3d_coords": (0.4 * eye).tolist()}
    aside = {**cube, "3d_coords": [2.5, 2.5, 0.2474873734152916]}
    np.testing.assert_allclose(
        data_card.hidden_shares({**scene, "objects": [cube, sphere, aside]}), [1, 0, 0], atol=1e-9
    )


def test_scenes_without_a_camera_say_so(facts):
    bare = facts._replace(hidden=np.zeros(0))
    assert "is not measured" in data_card.card(bare, "a set", "a command")


def test_the_card_says_which_rows_are_off(facts):
    text = data_card.card(facts, "a set", "a command")
    assert "| 16 | 116 | 105 | +11 |" in text and "| 48 | 148 | 131 | +17 |" in text
    near = [row for row, real in data_card.REAL_GREY.items() if abs(100 + row - real) <= data_card.NEAR]
    assert f"{len(near)} of 5 rows; not in row" in text and "simple questions" not in text


def test_the_command_writes_the_card(embedded_directory, tmp_path):
    output = tmp_path / "cards" / "data.md"
    given = [f"--data_dir={embedded_directory}", f"--output={output}", "--traced=1"]
    assert cli.execute(data_card.main, data_card.FLAGS, data_card.__doc__, ["data_card", *given]) == 0
    assert output.read_text().startswith("# Data card of CLEVR-XAI\n\nWhat ")


def test_the_committed_card_is_of_the_embedded_data():
    """The parts that take no tracing, made again."""
    path = pathlib.Path(__file__).resolve().parents[3] / "docs" / "clevr_xai_data.md"
    text = path.read_text(encoding="utf-8")
    made = data_card.card(
        data_card.collect(traced=1),
        "the embedded set",
        "python -m research.clevr_xai.data_card --output=docs/clevr_xai_data.md",
    )
    of_tracing = re.compile(r"^Occlusion, .*$", re.MULTILINE)
    assert of_tracing.sub("", text).startswith(of_tracing.sub("", made))
    assert of_tracing.search(text)
