"""The examples of docs/own_models.md run as they are printed, and what they write is what the page says."""

import pathlib
import re

import numpy as np
import pytest

import attribution

PAGE = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "own_models.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(words, known=None):
    """Run the one example that holds some words; return its names."""
    (example,) = [example for example in EXAMPLES if words in example]
    known = known if known is not None else {}
    exec(compile(example, "own_models.md", "exec"), known)
    return known


def test_every_example_is_run_here():  # the last in tests/clevr_xai/test_live_network.py
    tested = ("keras.Sequential", "@tf.function(input_signature=[tf.TensorSpec((None, 12)", "jax2tf", "class WithWords",
              "def sharpened", "def saliency(", "def beside_its_question")  # fmt: skip
    assert all(sum(words in example for words in tested) == 1 for example in EXAMPLES)
    assert len(EXAMPLES) == len(tested)


def test_a_keras_network():
    run("keras.Sequential")
    maps = attribution.explain("grad_cam", attribution.load_model("my_model"), np.ones((2, 32, 32, 3)))
    assert maps.shape == (2, 32, 32)


def test_a_function():
    known = run("@tf.function(input_signature=[tf.TensorSpec((None, 12)")
    maps = attribution.explain("gradient", attribution.load_model("my_function"), np.ones((2, 12)), 1)
    np.testing.assert_allclose(maps[0], known["weights"].numpy()[:, 1], rtol=1e-6)


def test_a_function_of_jax():
    pytest.importorskip("jax")
    known = run("jax2tf")
    model = attribution.load_model("my_jax_model")
    inputs = np.random.default_rng(1).normal(size=(3, 12)).astype(np.float32)
    np.testing.assert_allclose(model.scores(inputs), np.maximum(inputs, 0) @ known["kernel"], rtol=1e-4, atol=1e-5)
    maps = attribution.explain("gradient", model, inputs, 2)
    np.testing.assert_allclose(maps, (inputs > 0) * known["kernel"][:, 2], rtol=1e-5, atol=1e-6)


def test_a_network_for_clevr_xai():
    run("class WithWords")
    from clevr_xai.answering import Answering

    network = Answering("my_relation_network")
    assert (network.words, network.answers, network.size) == (["is", "it", "red"], ["no", "yes"], 128)
    assert network.encoded(["Is it blue?"]).tolist() == [[2, 3, 1]]
    inputs = network.inputs(np.zeros((1, 128, 128, 3), np.uint8), ["Is it red?"])
    assert attribution.explain("gradient", network.model, inputs, explain_input="image").shape == (1, 128, 128, 3)


@pytest.mark.parametrize("name", ["sharpened", "saliency"])
def test_methods_keep_their_contract(name):
    found = attribution.check_method(run(f"def {name}")[name], show=False)
    assert {finding.outcome for finding in found} == {"passed"}


def test_what_the_page_says_of_the_benchmarks():
    from bim.layout import CHANNEL_MEANS

    assert "(123.68, 116.78, 103.94)" in PAGE and np.allclose(CHANNEL_MEANS, [123.68, 116.78, 103.94])
