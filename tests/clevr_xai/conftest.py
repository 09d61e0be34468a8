"""Scenes and questions that several tests look at, made once."""

import json
import shutil

import numpy as np
import pytest

from clevr_xai import dataset, layout
from clevr_xai.generation import questions
from clevr_xai.training import training_set


@pytest.fixture(scope="session")
def embedded_scenes():
    return layout.read_json(dataset.EMBEDDED / f"{layout.SCENES}.gz")["scenes"]


@pytest.fixture(scope="session")
def asked(embedded_scenes):
    """Complex and simple questions on the embedded scenes, of another seed than the embedded ones."""
    return {kind: questions.generate(embedded_scenes, kind, seed=7) for kind in dataset.KINDS}


@pytest.fixture(scope="session")
def asked_officially(embedded_scenes):
    """The same questions in the official wording."""
    return {kind: questions.generate(embedded_scenes, kind, seed=7, wording="official") for kind in dataset.KINDS}


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


@pytest.fixture(scope="session")
def training_dir(tmp_path_factory, embedded_scenes):
    """The first embedded images as if they were of seed 5."""
    directory = tmp_path_factory.mktemp("training")
    scenes = embedded_scenes[:4]
    for folder, name in ((layout.IMAGES, "image_filename"), (layout.MASKS, "mask_filename")):
        (directory / folder).mkdir()
        for scene in scenes:
            shutil.copy(dataset.EMBEDDED / folder / scene[name], directory / folder / scene[name])
    (directory / layout.SCENES).write_text(json.dumps({"info": {"seed": 5}, "scenes": scenes}))
    return directory


@pytest.fixture(scope="session")
def training_data(training_dir):
    return training_set.load(training_dir, {"simple": 2, "complex": 1})


@pytest.fixture(scope="session")
def small_network(tmp_path_factory):
    """Base path of a small Relation Network of 64 pixels as a SavedModel, weights random, normalisation at work."""
    import keras

    from clevr_xai import relation_network

    keras.utils.set_random_seed(1)
    network = relation_network.build((16,) * 4, (16, 16), channels=6, image_size=64)
    generator = np.random.default_rng(4)
    for variable in network.variables:
        values = generator.normal(0, 0.3, variable.shape)
        if "variance" in variable.path or "gamma" in variable.path:
            variable.assign(np.abs(values) + 0.5)
        elif any(word in variable.path for word in ("bias", "beta", "moving_mean")):
            variable.assign(values)
    path = tmp_path_factory.mktemp("small") / "relation_network"
    relation_network.export(network, path)
    return path


@pytest.fixture(scope="session")
def answered(small_network, tmp_path_factory):
    """Directory of 12 embedded questions of each kind with the small network's answers, the last one's wrong."""
    from clevr_xai.answering import Answering

    network = Answering(small_network)
    directory = tmp_path_factory.mktemp("answered")
    for kind in dataset.KINDS:
        data = dataset.Dataset(kind, size=network.size)
        rows = np.arange(12)
        (batch,) = data.batches(12, rows)
        places = network.model.predict(network.inputs(batch.images, batch.questions))
        places[-1] = (places[-1] + 1) % len(network.answers)
        questions_ = [dict(data.questions[row], answer=network.answers[places[row]]) for row in rows]
        layout.write_json(directory / layout.QUESTIONS.format(kind=kind), {"questions": questions_})
    for name in (f"{layout.SCENES}.gz", layout.IMAGES, layout.MASKS):
        (directory / name).symlink_to(dataset.EMBEDDED / name)
    return directory
