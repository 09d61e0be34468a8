"""Weights stand beside the graph: the same numbers, and one copy of them however many functions are compiled."""

import concurrent.futures
import gc
import itertools
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.graph import view
from attribution.lrp.composite import Composite, Rule


def test_a_tensorflow_1_file_has_its_weights_beside_the_graph_too(tf1, inputs):
    model = attribution.load_model(tf1[0], inputs=["input_tensor:0"], output="resnet_model/final_dense:0")
    assert model.graph.weights
    np.testing.assert_allclose(model.scores(inputs["image"]), tf1[1]()(inputs["image"]), rtol=1e-5, atol=1e-6)


def test_weights_that_loops_and_lookups_use(tmp_path, monkeypatch):
    monkeypatch.setattr(view, "WEIGHT", 1)
    generator = np.random.default_rng(0)
    module = tf.Module()
    rows, square, plain = generator.normal(size=(3, 4)), generator.normal(size=(4, 4)), generator.normal(size=(4, 5))
    module.rows, module.square, module.plain = (tf.Variable(v, dtype=tf.float32) for v in (rows, square, plain))

    @tf.function(input_signature=[tf.TensorSpec((None, 4), tf.float32, name="x")])
    def scores(x):
        x *= tf.nn.embedding_lookup(module.rows, [1])
        for _ in tf.range(2):
            x = tf.matmul(x, module.square)
        return {"scores": tf.matmul(x, module.plain)}

    module.call = scores
    tf.saved_model.save(module, str(tmp_path), signatures=scores)
    model = attribution.load_model(tmp_path)
    assert {tuple(weight.shape) for weight in model.graph.weights.values()} == {rows.shape, square.shape, plain.shape}
    x = generator.normal(size=(2, 4)).astype(np.float32)
    np.testing.assert_allclose(model.scores(x), x * rows[1] @ square @ square @ plain, rtol=1e-5)


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """A network with 1.8 MB of weights."""
    network = keras.Sequential(
        [keras.Input((8, 8, 4)), keras.layers.Conv2D(64, 3, activation="relu"), keras.layers.Flatten()]
        + [keras.layers.Dense(200, activation="relu"), keras.layers.Dense(5)]
    )
    path = tmp_path_factory.mktemp("wide")
    network.export(path, verbose=False)
    return attribution.load_model(path)


def test_compiled_functions_share_the_weights(wide):
    x = np.random.default_rng(0).random((2, 8, 8, 4), dtype=np.float32)
    names = ["gradient", "guided_backprop", "grad_cam", "rise", "lrp_epsilon", "lrp_alpha1beta0"]
    attribution.explain_many({name: (name, {"masks": 4} if name == "rise" else {}) for name in names}, wide, x)
    functions = wide._compiled._functions
    assert len(functions) == 5
    weights = {id(weight) for weight in wide.graph.weights.values()}
    assert sum(weight.numpy().nbytes for weight in wide.graph.weights.values()) > 1 << 20
    for key, concrete in functions.items():
        assert concrete.graph.as_graph_def().ByteSize() < 1 << 17, key
        assert {id(capture) for capture in concrete.captured_inputs} == weights, key


def test_relevance_is_compiled_once_for_all_numbers_of_a_composite(wide):
    """Each new ε would otherwise keep a graph for ever."""
    x = np.random.default_rng(0).random((2, 8, 8, 4), dtype=np.float32)
    name, wanted = wide.explained_input(), (wide.input_node(),)
    rules = [Rule("alpha_beta", epsilon, alpha, alpha - 1) for epsilon, alpha in ((1e-6, 2.0), (1.0, 3.0))]
    functions = [wide._compiled.relevance(name, Composite(rule, rule, rule), wanted) for rule in rules]
    assert functions[0].func is functions[1].func
    maps = [function(np.zeros(2, np.int32), x)[1].numpy() for function in functions]
    assert np.abs(maps[0] - maps[1]).max() > 1e-3 * np.abs(maps[0]).max()


def test_layers_before_normalization_keep_their_values(live, models, inputs):
    """Passes compute normalization with the layer before it, but not those that ask for that layer."""
    model, x = models["image"], inputs["image"]
    convolution = next(layer for layer in live["image"].layers if isinstance(layer, keras.layers.Conv2D))
    expected = keras.Model(live["image"].inputs, convolution.output)(x).numpy() - convolution.bias.numpy()
    node = next(name for name in model.layers() if model.graph.nodes[name].op == "Conv2D")
    assert model.has_own_pass(node) and not model.has_own_pass(model.layer())
    targets = np.zeros(len(x), np.int32)
    found = model.backward({"image": x}, targets, "image", [node])
    np.testing.assert_allclose(found.values[node], expected, rtol=1e-6, atol=1e-6)
    together = attribution.explain_many(
        {"gradient": "gradient", "before": ("grad_cam", {"layer": node}), "grad_cam": "grad_cam"}, model, x, 0
    )
    alone = attribution.explain("grad_cam", model, x, 0, layer=node), attribution.explain("gradient", model, x, 0)
    assert together["before"].tobytes() == alone[0].tobytes()
    assert together["gradient"].tobytes() == alone[1].tobytes()


def test_scores_that_depend_on_shapes_and_widen_are_left_alone(from_function):
    """Neither is normalization, though both look like it: one number per channel times the output of a layer."""
    kernel = np.random.default_rng(0).normal(size=(3, 1)).astype(np.float32)
    scale = np.array([1.0, -2.0, 3.0], np.float32)
    model = from_function(lambda x: (tf.matmul(x, kernel) + tf.zeros(tf.shape(x)[:1])[:, tf.newaxis]) * scale, 3)
    x = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
    np.testing.assert_allclose(model.scores(x), x @ kernel * scale, rtol=1e-6)
    np.testing.assert_allclose(attribution.explain("gradient", model, x, 1), np.tile(-2 * kernel.T, (4, 1)), rtol=1e-6)


METHODS = ["gradient", "guided_backprop", "deeplift", "lrp_epsilon"]


def maps_of(path):
    x = np.random.default_rng(0).normal(size=(2, 8, 8, 3)).astype(np.float32)
    model = attribution.load_model(path)
    return model, [found.tobytes() for found in attribution.explain_many(METHODS, model, x, 1).values()]


# Of the last one's graph LRP reads the slopes: a PReLU is an activation only where they are not negative.
@pytest.mark.parametrize("kind, slopes", [("ReLU", [[]] * 3), ("PReLU", [[0.0], [0.2], [-0.5]])])
def test_networks_with_equal_graphs_share_functions_and_no_values(kind, slopes, tmp_path, monkeypatch):
    layers = [
        keras.layers.Conv2D(5, 3, use_bias=False),
        keras.layers.BatchNormalization(),
        getattr(keras.layers, kind)(),
    ]
    layers += [keras.layers.GlobalAveragePooling2D(), keras.layers.BatchNormalization(), keras.layers.Dense(3)]
    network, generator, alone = keras.Sequential([keras.Input((8, 8, 3)), *layers]), np.random.default_rng(1), []
    for number, slope in enumerate(slopes):
        network.set_weights([generator.uniform(0.1, 1, one.shape) - 0.4 * (one.ndim > 1) for one in network.weights])
        layers[2].set_weights([np.full((6, 6, 5), one) for one in slope])
        network.export(tmp_path / str(number), verbose=False)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(view, "_TRACES", weakref.WeakValueDictionary())
            alone.append(maps_of(tmp_path / str(number))[1])
    assert len({one for maps in alone for one in maps}) == 3 * len(METHODS)
    imported, count, networks, counts = tf.graph_util.import_graph_def, itertools.count(), [], []
    monkeypatch.setattr(tf.graph_util, "import_graph_def", lambda *a, **b: [next(count), imported(*a, **b)][1])
    for number, expected in enumerate(alone):
        networks.append(maps_of(tmp_path / str(number)))
        assert networks[-1][1] == expected
        counts.append(next(count))
    assert (counts[2] == counts[0] + 2) == (kind == "ReLU")  # nothing but this test counts after the first network
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        assert [maps for _, maps in pool.map(maps_of, [tmp_path / str(number) for number in range(3)])] == alone
    weight = weakref.ref(next(iter(networks[0][0].graph.weights.values())))
    del networks
    gc.collect()
    assert weight() is None  # nor do functions live longer than the networks
