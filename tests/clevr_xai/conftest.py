"""Scenes and questions that several tests look at, made once."""

import json

import pytest

from clevr_xai import dataset, layout, questions


@pytest.fixture(scope="session")
def embedded_scenes():
    return layout.read_json(dataset.EMBEDDED / f"{layout.SCENES}.gz")["scenes"]


@pytest.fixture(scope="session")
def asked(embedded_scenes):
    """Complex and simple questions on the embedded scenes, of another seed than the embedded ones."""
    return {kind: questions.generate(embedded_scenes, kind, seed=7) for kind in dataset.KINDS}


@pytest.fixture(scope="session")
def scene_of(embedded_scenes):
    scenes = {scene["image_filename"]: scene for scene in embedded_scenes}
    return lambda question: scenes[question["image_filename"]]


@pytest.fixture
def write_json():
    def write(path, content):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))

    return write
