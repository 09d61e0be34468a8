"""What the methods of tf-keras-vis and tf-explain compute, against this project's definitions of them."""

import pathlib
import shutil

import keras
import numpy as np
import pytest

import attribution
from attribution.errors import BadInput
from attribution.methods import third_party

ROOT = pathlib.Path(__file__).parents[3]
LIBRARY_METHODS = [name for name, method in attribution.METHODS.items() if method.library]
EIGHT = np.random.default_rng(8).random((8, 16, 16, 3), dtype=np.float32)
TARGETS = np.array([0, 1, 2, 3, 4, 0, 1, 2])


def build():
    return keras.Sequential(
        [
            keras.Input((16, 16, 3)),
            keras.layers.Conv2D(8, 3, padding="same", activation="relu"),
            keras.layers.Conv2D(8, 3, padding="same", activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(5),
        ]
    )


@pytest.fixture(scope="module")
def with_live(tmp_path_factory):
    """A network loaded from its file."""
    path, network = tmp_path_factory.mktemp("live") / "network.keras", build()
    generator = np.random.default_rng(3)
    # Scores around 5: of negative ones, which it takes for probabilities, tf-explain's cross-entropy has no gradient.
    network.set_weights([generator.normal(0, 0.3, weight.shape) for weight in network.weights[:-1]] + [np.full(5, 5.0)])
    network.save(path)
    return attribution.load_model(path)


@pytest.mark.parametrize("name", LIBRARY_METHODS)
def test_methods_of_libraries_return_valid_deterministic_maps(name, with_live, capfd, recwarn):
    maps = attribution.explain(name, with_live, EIGHT, TARGETS, batch_size=4)
    assert maps.shape == (8, 16, 16) and np.isfinite(maps).all() and np.abs(maps).max() > 0
    assert attribution.explain(name, with_live, EIGHT, TARGETS, batch_size=4).tobytes() == maps.tobytes()
    assert capfd.readouterr().out == ""  # results alone go to standard output
    assert not [warning for warning in recwarn if "structure of `inputs`" in str(warning.message)]


@pytest.mark.parametrize("name", [name for name in LIBRARY_METHODS if not name.endswith("smoothgrad")])
def test_a_method_of_a_library_is_this_projects_of_the_same_definition(name, with_live):
    library, _, method = name.partition(".")
    options = {"patch": 4} if method == "occlusion" else {}
    theirs = attribution.explain(name, with_live, EIGHT, TARGETS, **options)
    ours = attribution.explain(f"{method}@{library}", with_live, EIGHT, TARGETS, **options)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * np.abs(theirs).max())


@pytest.fixture(scope="module")
def coarse():
    """Networks whose last convolution has 4 x 4 positions; one with a logit of about -60."""

    def network(bias):
        layers = [
            keras.layers.Conv2D(6, 3, 4, padding="same", activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
        ]
        network = keras.Sequential([keras.Input((16, 16, 3)), *layers, keras.layers.Dense(3)])
        generator = np.random.default_rng(5)
        network.set_weights([generator.normal(0, 0.3, one.shape) for one in network.weights[:-1]] + [np.full(3, bias)])
        return attribution.load_model(network)

    return network(0.0), network(-60.0)


def test_tf_keras_vis_grad_cam_plus_plus_has_the_exponential_of_the_score_as_a_factor(coarse):
    around_zero, far_below = (attribution.explain("tf_keras_vis.grad_cam_plus_plus", one, EIGHT, 1) for one in coarse)
    assert around_zero.max() > 0.99 and far_below.max() < 1e-15


def test_tf_explain_smoothgrad_differentiates_the_cross_entropy(with_live):
    """Without noise: |d log(score / sum of scores)|, as Keras has it for what it takes for probabilities."""
    maps = attribution.explain("tf_explain.smoothgrad", with_live, EIGHT, TARGETS, samples=1, noise=0.0)
    scores = with_live.scores(EIGHT)
    assert (scores > 0).all()
    by_class = np.stack([attribution.explain("gradient", with_live, EIGHT, target) for target in range(5)])
    own = by_class[TARGETS, np.arange(8)] / scores[np.arange(8), TARGETS][:, None, None, None]
    everyone = by_class.sum(axis=0) / scores.sum(axis=1)[:, None, None, None]
    np.testing.assert_allclose(maps, np.abs(own - everyone).sum(axis=-1), rtol=1e-3, atol=1e-6)


def test_tf_explain_occlusion_covers_with_half_of_255(with_live):
    x = EIGHT[:1].copy()
    x[:] = 127.5
    maps = attribution.explain("tf_explain.occlusion", with_live, x, 1, patch=4)
    np.testing.assert_allclose(maps, 1 - with_live.scores(x)[0, 1], rtol=1e-4)


def test_a_missing_live_network_raises(models, inputs):
    with pytest.raises(BadInput, match="needs the live Keras network"):
        attribution.explain("tf_keras_vis.grad_cam", models["image"], inputs["image"])


def test_only_a_network_of_the_same_scores_can_be_attached(tmp_path):
    network = build()
    network.export(tmp_path, verbose=False)
    model = attribution.load_model(tmp_path)
    with pytest.raises(BadInput, match="does not compute the logits of"):
        third_party.matching(model, build())
    with pytest.raises(BadInput, match="was not exported from this network"):
        third_party.with_weights(keras.Sequential([keras.Input((16, 16, 3)), keras.layers.Dense(5)]), model)
    third_party.offer(model, lambda wanted: third_party.with_weights(build(), wanted))
    probabilities = attribution.load_model(tmp_path, score="probabilities")
    with pytest.raises(BadInput, match="does not compute the probabilities of"):
        third_party.matching(probabilities, network)


BUNDLED = {"bim/obj": (128, 128, 3), "svea/baseline": (40, 1), "clevr_xai/relation_network": (128, 128, 3)}


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_networks_are_explained_from_their_path_alone(name):
    """As this project computes the same on the SavedModel, whose gradients are those of the weights in the file."""
    x = np.random.default_rng(0).uniform(0, 1, (2, *BUNDLED[name])).astype(np.float32)
    options = {}
    if name.startswith("clevr_xai"):
        x = {"image": x, "question": np.array([[3, 5, 7, 9], [4, 2, 6, 8]], np.int32)}
        options["explain_input"] = "image"
    model = attribution.load_model(ROOT / "saved_models" / name)
    for library in ("tf_keras_vis", "tf_explain"):
        theirs = attribution.explain(f"{library}.gradient", model, x, **options)
        ours = attribution.explain(f"gradient@{library}", model, x, **options)
        assert np.abs(theirs).max() > 0
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-4 * np.abs(theirs).max())
    assert attribution.explain("tf_keras_vis.grad_cam", model, x, **options).max() > 0


def test_a_file_beside_a_saved_model_of_others_names_no_code(with_live, tmp_path):
    shutil.copytree(with_live.path, tmp_path / "saved_models/bim/obj")
    shutil.copy(ROOT / "saved_models/live_networks.json", tmp_path / "saved_models")
    with pytest.raises(BadInput, match="needs the live Keras network"):
        attribution.explain("tf_explain.gradient", attribution.load_model(tmp_path / "saved_models/bim/obj"), EIGHT)


def test_signals_are_explained_but_by_methods_that_need_images(live, inputs):
    model = attribution.load_model(live["signal"], score="probabilities")
    assert attribution.explain("tf_keras_vis.grad_cam", model, inputs["signal"]).shape == (7, 20)
    assert attribution.explain("tf_explain.gradient", model, inputs["signal"]).shape == (7, 20)
    with pytest.raises(BadInput, match="explains images alone"):
        attribution.explain("tf_explain.occlusion", model, inputs["signal"])


def test_guided_backprop_of_a_network_inside_a_network_is_refused():
    """tf-keras-vis would leave its ReLUs as they are without a word."""
    inner = keras.Sequential([keras.Input((16, 16, 3)), keras.layers.Conv2D(4, 3, activation="relu", name="inside")])
    layers = [inner, keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(3)]
    model = attribution.load_model(keras.Sequential([keras.Input((16, 16, 3)), *layers]))
    with pytest.raises(BadInput, match="does not change the ReLU of 'inside', which is inside another layer"):
        attribution.explain("tf_keras_vis.guided_backprop", model, EIGHT)


def test_a_class_of_a_library_wrapped_in_five_lines_is_a_method(with_live):
    """What docs/own_models.md shows."""

    def saliency(queries):
        from tf_keras_vis.saliency import Saliency
        from tf_keras_vis.utils.scores import CategoricalScore

        score = CategoricalScore(queries.targets.tolist())
        return Saliency(queries.keras_model)(score, queries.inputs, normalize_map=False)

    maps = attribution.explain(saliency, with_live, EIGHT, TARGETS)
    expected = np.abs(attribution.explain("gradient", with_live, EIGHT, TARGETS)).max(axis=-1)
    np.testing.assert_allclose(maps, expected, atol=1e-6)
