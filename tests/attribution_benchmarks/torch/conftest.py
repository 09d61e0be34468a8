"""PyTorch, the methods of docs/torch_methods.py, and networks of the benchmarks with their inputs."""

import importlib.util
import pathlib
import sys
import types

import pytest

import attribution
import attribution_benchmarks.torch  # noqa: F401  # first: it blocks Triton
from attribution_benchmarks.core.bundled_models import default_model
from attribution_benchmarks.core.registry import benchmark_named

RECIPES = pathlib.Path(__file__).resolve().parents[3] / "docs" / "torch_methods.py"


def pytest_ignore_collect(collection_path):
    return None if importlib.util.find_spec("torch") else True


@pytest.fixture(scope="session")
def recipes():
    """Return the place of the methods, without ``:NAME``; torchvision, which their packages import, may be missing."""
    if not importlib.util.find_spec("torchvision"):
        for name in ("", ".models", ".models.vision_transformer", ".transforms", ".transforms.functional"):
            sys.modules[f"torchvision{name}"] = types.ModuleType(f"torchvision{name}")
        sys.modules["torchvision.models"].vision_transformer = sys.modules["torchvision.models.vision_transformer"]
        sys.modules["torchvision.models.vision_transformer"].nn = importlib.import_module("torch").nn
        for name in ("Compose", "Normalize", "ToTensor", "resize"):
            setattr(sys.modules["torchvision.transforms"], name, None)
            setattr(sys.modules["torchvision.transforms.functional"], name, None)
        sys.modules["zennit.torchvision"] = types.ModuleType("zennit.torchvision")
    return f"torch:{RECIPES}"


def _bim(count):
    from bim import classifiers, data

    images = data.load_set(data.resolve_data_dir(""), "obj").images(range(count))
    return classifiers.network_inputs(images, 128)


def _signals(count):
    from svea import mnist1d

    return mnist1d.load().test.signals[:count, :, None]


def _questions(count):
    from clevr_xai import data, vocabulary

    questions = data.Dataset("simple", "", 128)
    words, _ = vocabulary.read_assets(default_model("clevr_xai/relation_network/1"))
    texts = [questions.questions[row]["question"] for row in range(count)]
    return {"image": questions.images(range(count)) / 255, "question": vocabulary.encode(texts, words, None)}


def _examples(name):
    return lambda count: benchmark_named(name).examples(count, 0).inputs


def _sequences(count):
    return benchmark_named("sequences").examples(count, 0).inputs[:count]


# Network -> its inputs, and how many to test.
NETWORKS = {
    "svea/baseline": (_signals, 1000),
    "bim/obj": (_bim, 40),
    "bim/scene": (_bim, 40),
    "bim/vit/obj": (_bim, 40),
    "parts/plain_seed0": (_examples("parts"), 100),
    "parts/residual_seed0": (_examples("parts"), 100),
    "exact/problems": (_examples("exact"), 405),
    "exact/units": (_examples("xai_units"), 406),
    "exact/tetrominoes": (_examples("xai_tris"), 400),
    "clevr_xai/relation_network": (_questions, 12),
    "clevr_xai/cross_attention": (_questions, 12),
    **{
        f"exact/sequences/{name}": (_sequences, 120)
        for name in ("transformer", "transformer_rotary", "transformer_plain", "lstm", "cnn")
    },
}


def load(name, count=None):
    """Return a bundled network as its benchmark explains it, and some of the benchmark's inputs."""
    inputs, most = NETWORKS[name]
    options = {"score": "probabilities"} if name.startswith("svea") else {}
    return attribution.load_model(default_model(name), **options), inputs(count or most)


@pytest.fixture(scope="session")
def loaded():
    """Return ``load``."""
    return load


@pytest.fixture(params=NETWORKS, scope="module")
def network(request):
    """Return each network and its inputs."""
    return load(request.param)
