"""Scenes and questions that several tests look at, made once."""

import json
import shutil

import pytest

from attribution_benchmarks.core.evaluation import prepare
from attribution_benchmarks.core.store import ScoreStore
from clevr_xai import layout, methods
from clevr_xai.data import EMBEDDED, KINDS, Dataset
from clevr_xai.definition import BENCHMARK
from clevr_xai.evaluation import ClevrXaiEvaluation
from clevr_xai.generation import questions
from clevr_xai.network import Answering
from clevr_xai.questions import Questions
from clevr_xai.settings import Settings


@pytest.fixture(scope="session")
def ask():
    """A function from scenes, kind and seed to the questions about them, with their numbers."""

    def generate(scenes, kind, seed, wording="official"):
        blocks = questions.in_blocks(scenes)
        found = (question for block in blocks for question in questions.generate_block(block, kind, seed, wording))
        return [{**question, "question_index": number} for number, question in enumerate(found)]

    return generate


@pytest.fixture(scope="session")
def asked(ask, embedded_scenes):
    """Complex and simple questions in official wording on the embedded scenes, of another seed than the embedded."""
    return {kind: ask(embedded_scenes, kind, seed=7) for kind in KINDS}


@pytest.fixture(scope="session")
def asked_plainly(ask, embedded_scenes):
    """The same questions in the plain wording."""
    return {kind: ask(embedded_scenes, kind, 7, "plain") for kind in KINDS}


@pytest.fixture(scope="session")
def scene_of(embedded_scenes):
    scenes = {scene["image_filename"]: scene for scene in embedded_scenes}
    return lambda question: scenes[question["image_filename"]]


@pytest.fixture(scope="module")
def network(small_network):
    return Answering(small_network)


@pytest.fixture(scope="module")
def data(answered):
    """The questions that the small network answers, of its image size."""
    return Dataset("simple", answered, size=64)


@pytest.fixture(scope="session")
def evaluation_of():
    """Return a maker of evaluations of questions, by default all twelve with five methods and all controls."""
    names = ("lrp_clevr_xai", "gradient", "grad_cam", "integrated_gradients", "smoothgrad")

    def made(network, data, directory=None, names=names, rows=tuple(range(12)), metrics=("mass", "rank"), **given):
        few = {"questions": data.kind, "controls": tuple(methods.CONTROLS), "control_methods": tuple(names)[:2],
               "batch_size": 5, "steps": 3, "samples": 2, "random_networks": 2}  # fmt: skip
        settings = Settings(**{**few, **given})
        run = prepare(BENCHMARK, names, settings, metrics=metrics, store=ScoreStore(directory))
        asked = Questions(data, rows, network, settings.truths[0])
        return ClevrXaiEvaluation(run, {"small": network.model} if network else {}, asked)

    return made


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
            shutil.copy(EMBEDDED / folder / scene[name], directory / folder / scene[name])
    (directory / layout.SCENES).write_text(json.dumps({"info": {"seed": 5}, "scenes": scenes}))
    return directory
