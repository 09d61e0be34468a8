"""The live network behind a SavedModel, and classes of tf-keras-vis and tf-explain that explain it."""

import keras
import numpy as np
import pytest

import attribution
from attribution.errors import BadInput
from attribution.methods import third_party
from attribution.methods.registry import known_method

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
    network.set_weights([generator.normal(0, 0.3, weight.shape) for weight in network.weights])
    network.export(path, verbose=False)
    model = attribution.load_model(path)
    third_party.attach(model, build())
    return model


def test_a_missing_live_network_raises(models, inputs):
    with pytest.raises(BadInput, match="needs the live Keras network"):
        attribution.explain(tf_keras_vis_saliency, models["image"], inputs["image"])


def test_former_names_of_methods_are_those_of_the_definition():
    for former, name in (
        ("tf_explain.grad_cam", "grad_cam@tf_explain"),
        ("tf_keras_vis.gradient", "gradient@tf_keras_vis"),
    ):
        assert attribution.resolve_method(former) == attribution.resolve_method(name) == known_method(former)
    with pytest.raises(BadInput, match="has no 'rise'"):
        attribution.resolve_method("tf_explain.rise")


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
