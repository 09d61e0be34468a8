"""What the methods of tf-keras-vis and tf-explain compute, against this project's definitions of them."""

import keras
import numpy as np
import pytest

import attribution
from attribution.errors import BadInput
from attribution.methods import third_party

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
    """A SavedModel with a network of the same architecture attached."""
    path, network = tmp_path_factory.mktemp("live"), build()
    generator = np.random.default_rng(3)
    # Scores around 5: of negative ones, which it takes for probabilities, tf-explain's cross-entropy has no gradient.
    network.set_weights([generator.normal(0, 0.3, weight.shape) for weight in network.weights[:-1]] + [np.full(5, 5.0)])
    network.export(path, verbose=False)
    model = attribution.load_model(path)
    third_party.attach(model, build())
    return model


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
    ours = attribution.explain(method, with_live, EIGHT, TARGETS, like=library, **options)
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
    by_class = np.stack([with_live.gradients(EIGHT, target) for target in range(5)])
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


def test_only_the_network_behind_the_file_can_be_attached(with_live, tmp_path):
    with pytest.raises(BadInput, match="was not exported from this network"):
        third_party.attach(
            with_live, keras.Sequential([keras.Input((16, 16, 3)), keras.layers.Flatten(), keras.layers.Dense(5)])
        )
    build().export(tmp_path, verbose=False)
    probabilities = attribution.load_model(tmp_path, score="probabilities")
    with pytest.raises(BadInput, match="does not compute the probabilities of"):
        third_party.attach(probabilities, build())
    assert probabilities.live is None


def test_signals_are_for_tf_keras_vis_alone(live, exported, inputs):
    model = attribution.load_model(exported["signal"], score="probabilities")
    third_party.attach(model, keras.models.clone_model(live["signal"]))
    assert attribution.explain("tf_keras_vis.grad_cam", model, inputs["signal"]).shape == (7, 20)
    with pytest.raises(BadInput, match="tf-explain explains images alone"):
        attribution.explain("tf_explain.gradient", model, inputs["signal"])


def tf_keras_vis_saliency(passes):
    """What docs/own_models.md shows."""
    from tf_keras_vis.saliency import Saliency
    from tf_keras_vis.utils.scores import CategoricalScore

    score = CategoricalScore(passes.targets.tolist())
    return Saliency(passes.keras_model)(score, passes.inputs, normalize_map=False)


def tf_explain_grad_cam(passes):
    """What docs/own_models.md shows."""
    from tf_explain.core.grad_cam import GradCAM

    rows = [(passes.inputs[row : row + 1], int(target)) for row, target in enumerate(passes.targets)]
    layer = passes.keras_model.layers[-3].name
    maps = [GradCAM.get_gradients_and_filters(passes.keras_model, x, layer, target, False) for x, target in rows]
    return np.concatenate([GradCAM.generate_ponderated_output(*map_) for map_ in maps])


@pytest.fixture
def network_file(with_live, tmp_path):
    with_live.live.save(tmp_path / "network.keras")
    return tmp_path / "network.keras"


def test_a_class_of_a_library_wrapped_in_five_lines_is_a_method(with_live, network_file):
    model = attribution.load_model(with_live.path, keras_model=network_file)
    assert model.live is None  # nothing is built before a method asks
    maps = attribution.explain(tf_keras_vis_saliency, model, EIGHT, TARGETS)
    expected = np.abs(attribution.explain("gradient", model, EIGHT, TARGETS)).max(axis=-1)
    np.testing.assert_allclose(maps, expected, atol=1e-6)
    coarse = attribution.explain(tf_explain_grad_cam, model, EIGHT, TARGETS)
    assert coarse.shape == (8, 16, 16) and np.abs(coarse).max() > 0


@pytest.mark.parametrize("kind", ["network", "builder", "file:builder"])
def test_the_network_comes_as_a_network_a_builder_or_by_name(kind, with_live, tmp_path):
    (tmp_path / "architecture.py").write_text("import keras\ndef build():\n    return keras.Sequential()\n")
    given = {"network": build(), "builder": build, "file:builder": f"{tmp_path / 'architecture.py'}:build"}[kind]
    model = attribution.load_model(with_live.path, keras_model=given)
    if kind == "file:builder":  # found, and another network
        with pytest.raises(BadInput, match="was not exported from this network"):
            attribution.explain(tf_keras_vis_saliency, model, EIGHT, TARGETS)
        return
    maps = attribution.explain(tf_keras_vis_saliency, model, EIGHT, TARGETS)
    assert np.abs(maps).max() > 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("no/such.keras", "is not a Keras network; expected module:function, file.py:function or a .keras file"),
        (3, "keras_model is of type int; give a keras.Model or a function that builds it"),
        ("no_such_module:build", "network 'no_such_module:build': cannot import"),
    ],
)
def test_a_network_that_does_not_exist_is_refused_at_once(given, message, with_live):
    with pytest.raises(BadInput, match=message):
        attribution.load_model(with_live.path, keras_model=given)


@pytest.mark.parametrize(
    ("given", "message"),
    [(dict, "the Keras network is of type dict"), ([].pop, "could not be built: IndexError: pop from empty list")],
)
def test_a_function_that_builds_no_network_is_refused_when_one_is_needed(given, message, with_live):
    model = attribution.load_model(with_live.path, keras_model=given)
    with pytest.raises(BadInput, match=message):
        attribution.explain(tf_keras_vis_saliency, model, EIGHT, TARGETS)
