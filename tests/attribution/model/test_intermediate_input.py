"""Whole numbers are explained at the first tensor behind them that has a gradient; channels may come first."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution.errors import BadInput

L = keras.layers
IDS = np.random.default_rng(0).integers(0, 9, (5, 7)).astype(np.int32)


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    """A network on tokens, its SavedModel, and the same network from the embedding on."""
    ids = keras.Input((7,), dtype="int32", name="ids")
    embedding = L.Embedding(9, 4, name="words", embeddings_initializer="random_normal")
    rest = [L.Conv1D(5, 3, padding="same", activation="relu"), L.GlobalAveragePooling1D(), L.Dense(3)]
    x = embedding(ids)
    for layer in rest:
        x = layer(x)
    path = tmp_path_factory.mktemp("tokens")
    keras.Model(ids, x).export(path, verbose=False)

    def behind(x):
        for layer in rest:
            x = layer(x)
        return x

    return attribution.load_model(path), embedding(IDS).numpy(), behind


@pytest.mark.parametrize("explain_input", [None, "words"])
def test_tokens_are_explained_by_their_embedding(explain_input, tokens, oracle):
    model, embedded, behind = tokens
    targets = np.array([0, 1, 2, 1, 0])
    maps = attribution.explain_many(
        {"gradient": "gradient", "times": "gradient_x_input", "ig": "integrated_gradients", "cam": "grad_cam"},
        model, IDS, targets, explain_input=explain_input, batch_size=2,
    )  # fmt: skip
    expected = oracle(behind, embedded, targets)
    assert maps["gradient"].shape == (5, 7, 4) and maps["cam"].shape == (5, 7)
    np.testing.assert_allclose(maps["gradient"], expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(maps["times"], expected * embedded, rtol=1e-5, atol=1e-7)
    start = behind(np.zeros_like(embedded)).numpy()
    gap = (behind(embedded).numpy() - start)[np.arange(5), targets]
    np.testing.assert_allclose(maps["ig"].sum(axis=(1, 2)), gap, rtol=1e-2, atol=1e-4)
    for method in ("lrp_epsilon", "rise", "occlusion", "smoothgrad", "guided_backprop", "score_cam"):
        options = {"masks": 5} if method == "rise" else {}
        found = attribution.explain(method, model, IDS, targets, explain_input=explain_input, **options)
        assert np.isfinite(found).all() and found.shape[:2] == (5, 7)


def test_embeddings_cost_one_pass_to_compute(tokens):
    model = tokens[0]
    model.counts.clear()
    attribution.explain("gradient", model, IDS, 1, batch_size=5)
    assert model.counts == {"forward": 5, "forward_passes": 1, "backward": 5, "backward_passes": 1}


def test_what_can_be_explained_is_named(tokens):
    model = tokens[0]
    with pytest.raises(BadInput, match=r"'ids' is of type int32 and has no gradient; name a tensor .*GatherV2'"):
        attribution.explain("gradient", model, IDS, explain_input="ids")
    with pytest.raises(BadInput, match="no input 'picture'; its inputs are 'ids', and no tensor of floating point"):
        attribution.explain("gradient", model, IDS, explain_input="picture")
    assert attribution.explain("gradient", model, np.zeros((0, 7), np.int32)).shape == (0, 7, 4)


def test_the_name_of_what_is_explained_is_public(tokens):
    model, embedding, _ = tokens
    view = model.at()
    assert view.input in model.graph.nodes and view.input not in model.inputs
    assert view.feed_of({"ids": IDS})[view.input].shape == embedding.shape


def test_masks_are_not_what_is_explained(tmp_path):
    ids = keras.Input((6,), dtype="int32")
    x = L.Embedding(9, 4, mask_zero=True, name="words", embeddings_initializer="random_normal")(ids)
    keras.Model(ids, L.Dense(3)(L.GlobalAveragePooling1D()(L.LSTM(5, return_sequences=True)(x)))).export(
        tmp_path, verbose=False
    )
    model = attribution.load_model(tmp_path)
    x = np.array([[1, 2, 3, 4, 0, 0]], np.int32)
    maps = attribution.explain("gradient", model, x, 1)
    assert maps.shape == (1, 6, 4)
    np.testing.assert_array_equal(maps[0, 4:], 0)  # padding
    assert np.abs(maps[0, :4]).min() > 0


def test_pictures_of_whole_numbers(tmp_path, oracle):
    picture = keras.Input((10, 10, 3), dtype="uint8", name="picture")
    layers = [L.Rescaling(1 / 255.0), L.Conv2D(4, 3, activation="relu"), L.GlobalAveragePooling2D(), L.Dense(3)]
    x = picture
    for layer in layers:
        x = layer(x)
    keras.Model(picture, x).export(tmp_path, verbose=False)
    model = attribution.load_model(tmp_path)
    pictures = np.random.default_rng(0).integers(0, 256, (3, 10, 10, 3)).astype(np.uint8)

    def behind(x):
        for layer in layers:
            x = layer(x)
        return x

    found = attribution.explain("gradient", model, pictures, [0, 1, 2])
    expected = oracle(behind, pictures.astype(np.float32), [0, 1, 2])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-9)
    for method in ("grad_cam", "occlusion", "score_cam"):
        assert attribution.explain(method, model, pictures).shape == (3, 10, 10)


def test_a_float_tensor_behind_a_float_input_by_name(models, inputs, live):
    """What is explained may lie anywhere between input and score."""
    layer = next(layer for layer in live["image"].layers if isinstance(layer, keras.layers.Activation))
    values = keras.Model(live["image"].inputs, layer.output)(inputs["image"]).numpy()
    found = attribution.explain("gradient_x_input", models["image"], inputs["image"], 1, explain_input=layer.name)
    gradient = attribution.explain("gradient", models["image"], inputs["image"], 1, explain_input=layer.name)
    np.testing.assert_allclose(found, values * gradient, rtol=1e-4, atol=1e-6)


def both_orders(build, shape, tmp_path_factory):
    """Return two models of one network, channels last and channels first."""
    models = []
    for order in ("channels_last", "channels_first"):
        keras.utils.set_random_seed(0)
        size = shape if order == "channels_last" else (shape[-1], *shape[:-1])
        image = keras.Input(size)
        path = tmp_path_factory.mktemp(order)
        keras.Model(image, build(image, order)).export(path, verbose=False)
        models.append(attribution.load_model(path))
    return models


def image_layers(x, order):
    axis = -1 if order == "channels_last" else 1
    x = L.ReLU()(L.BatchNormalization(axis=axis)(L.Conv2D(5, 3, data_format=order)(x)))
    x = L.MaxPooling2D(data_format=order)(x)
    x = L.Conv2D(6, 3, activation="relu", data_format=order)(x)
    return L.Dense(3)(L.GlobalAveragePooling2D(data_format=order)(x))


def signal_layers(x, order):
    x = L.Conv1D(5, 3, activation="relu", data_format=order)(x)
    return L.Dense(3)(L.GlobalAveragePooling1D(data_format=order)(x))


@pytest.mark.parametrize(("build", "shape"), [(image_layers, (12, 10, 3)), (signal_layers, (9, 2))])
def test_channels_first_gives_the_maps_of_channels_last(build, shape, tmp_path_factory):
    last, first = both_orders(build, shape, tmp_path_factory)
    x = np.random.default_rng(0).random((4, *shape), dtype=np.float32)
    methods = {
        name: (name, {"masks": 6} if name == "rise" else {"samples": 3} if name == "smoothgrad" else {})
        for name in ("gradient", "gradient_x_input", "integrated_gradients", "lrp_epsilon", "guided_backprop",
                     "grad_cam", "guided_grad_cam", "score_cam", "sise", "rise", "occlusion", "random")
    }  # fmt: skip

    def with_arrays(move):
        return {
            **methods,
            "per input": ("integrated_gradients", {"baseline": move(x[::-1])}),
            "guided, per input": ("guided_integrated_gradients", {"steps": 3, "baseline": move(x[::-1])}),
            "references": ("expected_gradients", {"samples": 3, "references": move(x[:2])}),
        }

    expected = attribution.explain_many(with_arrays(np.asarray), last, x, 1, batch_size=3)
    methods = with_arrays(lambda array: np.moveaxis(array, -1, 1))
    found = attribution.explain_many(methods, first, np.moveaxis(x, -1, 1), 1, batch_size=3)
    for name, maps in found.items():
        if expected[name].ndim == x.ndim:
            assert maps.shape == (4, shape[-1], *shape[:-1])
            maps = np.moveaxis(maps, 1, -1)
        # Normalization is multiplied into its layer where channels come last alone, so that LRP's stabiliser acts on
        # other sums.
        tolerance = 1e-3 if name == "lrp_epsilon" else 1e-5
        np.testing.assert_allclose(maps, expected[name], rtol=1e-3, atol=tolerance * np.abs(expected[name]).max())


def test_words_behind_a_table(tmp_path):
    module = tf.Module()
    module.table = tf.lookup.StaticVocabularyTable(
        tf.lookup.KeyValueTensorInitializer(["a", "b", "c"], tf.constant([0, 1, 2], tf.int64)), 1
    )
    module.rows = tf.Variable(np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32))

    @tf.function(input_signature=[tf.TensorSpec((None, 2), tf.string, name="words")])
    def scores(words):
        embedded = tf.nn.embedding_lookup(module.rows, module.table.lookup(words), name="embedded")
        return {"scores": tf.reduce_sum(embedded, axis=1)}

    module.call = scores
    tf.saved_model.save(module, str(tmp_path), signatures=scores)
    model = attribution.load_model(tmp_path)
    words = np.array([["a", "c"], ["b", "z"], ["c", "c"]], object)
    rows = module.rows.numpy()[[[0, 2], [1, 3], [2, 2]]]
    np.testing.assert_allclose(model.scores(words), rows.sum(axis=1), rtol=1e-6)
    found = attribution.explain("gradient_x_input", model, words, 1, explain_input="embedded")
    np.testing.assert_allclose(found, rows * [0, 1, 0], rtol=1e-6)


def saved(path, function, spec):
    module = tf.Module()
    module.call = tf.function(lambda x: {"scores": function(x)}, autograph=False).get_concrete_function(spec)
    tf.saved_model.save(module, str(path), signatures=module.call)
    return attribution.load_model(path)


KERNEL = np.random.default_rng(4).normal(size=(33, 3)).astype(np.float32)


def of_a_spectrum(wave):
    return tf.abs(tf.signal.rfft(tf.cast(wave, tf.float32))) @ KERNEL


def of_a_spectrum_and_a_loop(wave):
    frames = tf.signal.rfft(tf.reshape(tf.cast(wave, tf.float32), (-1, 2, 32)))
    return (
        tf.map_fn(lambda frame: tf.reduce_sum(tf.abs(frame), 0), frames, fn_output_signature=tf.float32) @ KERNEL[:17]
    )


@pytest.mark.parametrize("function", [of_a_spectrum, of_a_spectrum_and_a_loop])
def test_a_spectrum_is_not_what_is_explained_first(function, tmp_path):
    model = saved(tmp_path, function, tf.TensorSpec((None, 64), tf.int16, name="wave"))
    wave = np.random.default_rng(5).integers(-999, 999, (2, 64)).astype(np.int16)
    x = tf.cast(wave, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(x)
        score = tf.reduce_sum(function(x)[:, 1])
    found = attribution.explain("gradient", model, wave, targets=1)
    expected = tape.gradient(score, x).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


def test_where_every_number_is_complex_the_first_real_one_is_explained(tmp_path):
    function = lambda ids: tf.abs(tf.gather(tf.complex(KERNEL, KERNEL[:, ::-1]), ids))  # noqa: E731
    model = saved(tmp_path, function, tf.TensorSpec((None,), tf.int32, name="ids"))
    with pytest.raises(BadInput, match="has no gradient"):  # nothing lies between it and the score
        attribution.explain("gradient", model, np.array([1, 2], np.int32), explain_input="ids")


def in_a_loop(size):
    def pixels(data):
        picture = tf.cast(tf.io.decode_jpeg(data, channels=3), tf.float32)
        picture = tf.image.resize(picture, (4, 4))
        return picture if size else tf.compat.v1.placeholder_with_default(picture, None)

    kernel = np.random.default_rng(6).normal(size=(48, 3)).astype(np.float32)

    def scores(data):
        pictures = tf.map_fn(pixels, data, fn_output_signature=tf.TensorSpec(size, tf.float32))
        return tf.reshape(tf.nn.relu(pictures), (-1, 48)) @ kernel

    return scores


def test_pictures_decoded_in_a_loop_say_what_to_export(tmp_path):
    bytes_ = tf.TensorSpec((None,), tf.string, name="image_bytes")
    model = saved(tmp_path / "known", in_a_loop((4, 4, 3)), bytes_)
    picture = np.random.default_rng(7).integers(0, 255, (8, 8, 3)).astype(np.uint8)
    data = np.array([tf.io.encode_jpeg(picture).numpy()] * 2, object)
    with pytest.raises(BadInput, match=r"export a signature that takes .* decoded pixels") as refusal:
        attribution.explain("gradient", model, data)
    named = str(refusal.value).split("explain_input='")[1].split("'")[0]
    assert attribution.explain("gradient", model, data, 1, explain_input=named).shape == (2, 4, 4, 3)
    model = saved(tmp_path / "unknown", in_a_loop(None), bytes_)
    with pytest.raises(BadInput, match=r"export a signature that takes .* decoded pixels"):
        attribution.explain("gradient", model, data)


def parsed_example(examples):
    names = ("age", "hours")
    columns = tf.io.parse_example(examples, {name: tf.io.FixedLenFeature((1,), tf.float32) for name in names})
    return tf.concat([columns[name] for name in names], 1) @ KERNEL[:2]


def parsed_single_values(examples):
    features = {name: tf.io.FixedLenFeature((), tf.float32) for name in ("age", "hours")}
    features |= {"kind": tf.io.FixedLenFeature((), tf.int64), "words": tf.io.VarLenFeature(tf.string)}
    columns = tf.io.parse_example(examples, features)
    kind = tf.cast(columns["kind"], tf.float32)[:, tf.newaxis]
    return tf.stack([columns["age"], columns["hours"]], 1) @ KERNEL[:2] + 0 * kind


def parsed_csv(lines):
    age, hours, _ = tf.io.decode_csv(lines, [[0.0], [0.0], ["none"]])
    return tf.stack([age, hours], 1) @ KERNEL[:2]


def test_a_file_that_parses_csv_is_refused_by_name(tmp_path):
    with pytest.raises(BadInput, match="parses CSV by DecodeCSV; export a signature that takes the columns"):
        saved(tmp_path, parsed_csv, tf.TensorSpec((None,), tf.string, name="lines"))


@pytest.mark.parametrize("function", [parsed_example, parsed_single_values])
def test_each_column_parsed_from_examples_is_offered_and_explained(function, tmp_path):
    names = ("age", "hours")
    model = saved(tmp_path, function, tf.TensorSpec((None,), tf.string, name="examples"))
    rows = np.random.default_rng(8).normal(size=(3, 2)).astype(np.float32).round(3)

    def example(row):
        numbers = lambda *values: tf.train.Feature(float_list=tf.train.FloatList(value=values))  # noqa: E731
        kind = tf.train.Feature(int64_list=tf.train.Int64List(value=[1]))
        feature = {"age": numbers(row[0]), "hours": numbers(row[1]), "kind": kind}
        return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()

    texts = np.array(list(map(example, rows)), object)
    with pytest.raises(BadInput, match=f"explain_input='.*{names[0]}', '{names[1]}'"):
        attribution.explain("gradient", model, texts)
    for column, name in enumerate(names):
        maps = attribution.explain("gradient_x_input", model, texts, 2, explain_input=name)
        np.testing.assert_allclose(maps.ravel(), rows[:, column] * KERNEL[column, 2], rtol=1e-4)
    maps = attribution.explain("gradient_x_input", model, texts, 2, explain_input=",".join(names))
    np.testing.assert_allclose(sum(each.ravel() for each in maps.values()), rows @ KERNEL[:2, 2], rtol=1e-4, atol=1e-6)
