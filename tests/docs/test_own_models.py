"""The examples of docs/own_models.md run as they are printed, and what they write is what the page says."""

import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.errors import BadInput
from attribution.methods.queries import ModelQueries

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
    tested = ("keras.Sequential", "ExportArchive", "frozen.pb", "@tf.function(input_signature=[tf.TensorSpec((None, 12",
              "jax2tf", "class WithWords", 'columns["kind"]', "def sharpened", "def mean_gradient", "def saliency(",
              "def beside_its_question", "def batch_of_sounds", "attribution_benchmarks.choose")  # fmt: skip
    assert all(sum(words in example for words in tested) == 1 for example in EXAMPLES)
    assert len(EXAMPLES) == len(tested)


def test_the_choice_of_a_method(monkeypatch, capsys):
    monkeypatch.chdir(pathlib.Path(__file__).parents[2])
    run("attribution_benchmarks.choose")
    assert capsys.readouterr().out.startswith("Take LRP-α1β0")


def test_a_keras_network():
    run("keras.Sequential")
    maps = attribution.explain("grad_cam", attribution.load_model("my_model"), np.ones((2, 32, 32, 3)))
    assert maps.shape == (2, 32, 32)


def test_a_keras_network_with_augmentation():
    import keras

    image = np.random.default_rng(0).random((2, 8, 8, 3), dtype=np.float32)
    layers = [keras.Input((8, 8, 3)), keras.layers.RandomFlip(), keras.layers.Flatten(), keras.layers.Dense(3)]
    network = keras.Sequential(layers)
    run("ExportArchive", {"keras": keras, "network": network})
    scores = attribution.load_model("my_model").scores(image)
    np.testing.assert_allclose(scores, network.predict(image, verbose=0), atol=1e-5)


def test_a_frozen_graph():
    kernel = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    with tf.Graph().as_default() as graph:
        tf.matmul(tf.compat.v1.placeholder(tf.float32, (None, 4), "input"), kernel, name="scores")
    pathlib.Path("frozen.pb").write_bytes(graph.as_graph_def().SerializeToString())
    run("frozen.pb")
    maps = attribution.explain("gradient", attribution.load_model("my_frozen_graph"), np.ones((2, 4)), 1)
    np.testing.assert_allclose(maps[0], kernel[:, 1], rtol=1e-6)


def test_a_table_of_columns():
    known = run('columns["kind"]')
    model, rows, maps = (known[name] for name in ("model", "rows", "maps"))
    assert list(maps) == ["age", "income", "debt"] and all(array.shape == (5, 1) for array in maps.values())
    start = rows | {"age": np.full((5, 1), 0.5), "income": np.zeros((5, 1)), "debt": np.zeros((5, 1))}
    predicted = np.arange(5), model.predict(rows)
    gap = model.scores(rows)[predicted] - model.scores(start)[predicted]
    np.testing.assert_allclose(sum(maps.values())[:, 0], gap, rtol=1e-2, atol=1e-3)
    together = attribution.explain("gradient", model, rows, explain_input="all")
    assert sorted(together) == sorted(maps)


def test_a_function():
    known = run("@tf.function(input_signature=[tf.TensorSpec((None, 12)")
    maps = attribution.explain("gradient", attribution.load_model("my_function"), np.ones((2, 12)), 1)
    np.testing.assert_allclose(maps[0], known["weights"].numpy()[:, 1], rtol=1e-6)


def test_a_network_without_a_batch(tmp_path):
    network = lambda sound: tf.signal.frame(sound, 4, 2)[:, :3]  # noqa: E731
    function = run("def batch_of_sounds", {"tf": tf, "network": network})["batch_of_sounds"]
    module, x = tf.Module(), np.random.default_rng(0).normal(size=(2, 8)).astype(np.float32)
    module.call = tf.function(function, input_signature=[tf.TensorSpec((None, 8), tf.float32)], autograph=False)
    tf.saved_model.save(module, str(tmp_path), signatures=module.call)
    expected = [(row[:3] + row[2:5] + row[4:7]) / 3 for row in x]
    np.testing.assert_allclose(attribution.load_model(tmp_path).scores(x), expected, rtol=1e-6)


def test_a_function_of_jax():
    pytest.importorskip("jax")
    known = run("jax2tf")
    model = attribution.load_model("my_jax_model")
    inputs = np.random.default_rng(1).normal(size=(3, 12)).astype(np.float32)
    np.testing.assert_allclose(model.scores(inputs), np.maximum(inputs, 0) @ known["kernel"], rtol=1e-4, atol=1e-5)
    maps = attribution.explain("gradient", model, inputs, 2)
    np.testing.assert_allclose(maps, (inputs > 0) * known["kernel"][:, 2], rtol=1e-5, atol=1e-6)
    relevance = attribution.explain("lrp_epsilon", model, inputs, 2)
    np.testing.assert_allclose(relevance, inputs.clip(0) * known["kernel"][:, 2], rtol=1e-4, atol=1e-5)


def test_a_network_for_clevr_xai():
    run("class WithWords")
    from clevr_xai.network import Answering

    network = Answering("my_relation_network")
    assert (network.words, network.answers, network.size) == (["is", "it", "red"], ["no", "yes"], 128)
    assert network.encoded(["Is it blue?"]).tolist() == [[2, 3, 1]]
    inputs = network.inputs(np.zeros((1, 128, 128, 3), np.uint8), ["Is it red?"])
    assert attribution.explain("gradient", network.model, inputs, explain_input="image").shape == (1, 128, 128, 3)


@pytest.mark.parametrize("name", ["sharpened", "mean_gradient", "saliency"])
def test_methods_keep_their_contract(name):
    found = attribution.check_method(run(f"def {name}")[name], show=False)
    assert {finding.outcome for finding in found} == {"passed"}


def test_what_the_page_says_of_the_benchmarks():
    from bim.layout import CHANNEL_MEANS

    assert "(123.68, 116.78, 103.94)" in PAGE and np.allclose(CHANNEL_MEANS, [123.68, 116.78, 103.94])


def test_the_table_of_queries_is_complete():
    table = PAGE.split("| query | returns | cost |")[1].split("\n\n")[0]
    listed = set(re.findall(r"`(?:len\()?(\w+)", " ".join(line.split("|")[1] for line in table.splitlines()[2:])))
    public = {name for name in dir(ModelQueries) if not name.startswith("_")}
    assert listed == public | {"inputs", "model", "seed", "keys", "queries"}


@pytest.fixture(scope="module")
def cubic(tmp_path_factory):
    """A network whose score is the sum of x³, so that its gradient at c x is 3 c² x²."""
    module, directory = tf.Module(), str(tmp_path_factory.mktemp("cubic"))
    signature = [tf.TensorSpec((None, 12), tf.float32, name="x")]
    score = tf.function(lambda x: {"scores": tf.reduce_sum(x**3, axis=1, keepdims=True)}, signature, autograph=False)
    tf.saved_model.save(module, directory, signatures=score)
    return attribution.load_model(directory)


def test_a_gradient_at_other_points(cubic):
    inputs, method = np.random.default_rng(0).normal(size=(6, 12)).astype(np.float32), run("def mean_gradient")
    for targets, gradients in ((0, 2), (None, 3)):  # the page's cost
        cubic.counts.clear()
        maps = attribution.explain(method["mean_gradient"], cubic, inputs, targets, batch_size=2)
        np.testing.assert_allclose(maps, 3 * inputs**2 * (1 + 0.25) / 2, rtol=1e-5)
        assert (cubic.counts["backward"], cubic.counts["forward"]) == (gradients * len(inputs), 0)


def test_input_gradient_at_an_array_raises(cubic):
    with pytest.raises(BadInput, match=r"takes no ndarray: .*call variant_gradients\(1, lambda number, rows") as error:
        attribution.explain(lambda queries: queries.input_gradient(queries.inputs / 2), cubic, np.ones((2, 12)))
    assert isinstance(error.value.__cause__, TypeError)
