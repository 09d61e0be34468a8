"""A served model in place of a loaded one: scores, gradients and methods made of them, against closed forms."""

import dataclasses
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from stand_in import ServedSignature

import attribution
from attribution.errors import BadInput
from attribution_benchmarks import serving
from attribution_benchmarks.serving._protocols import ServerError, Signature, TensorSpec

ROOT = pathlib.Path(__file__).resolve().parents[3]
FLOAT = np.dtype(np.float32)


@pytest.fixture
def model(server, client, explained):
    server.models["explained"] = {1: explained()}
    return serving.ServedModel(client, "explained")


@pytest.fixture
def plain(client):
    return serving.ServedModel(client, "linear@1")


def test_scores_predictions_and_what_the_model_is(plain, inputs, weights):
    expected = inputs.reshape(-1, 6) @ weights
    np.testing.assert_allclose(plain.scores(inputs, batch_size=2), expected, rtol=1e-6)
    assert plain.predict(inputs).tolist() == expected.argmax(axis=1).tolist()
    assert plain.num_classes == 3 and list(plain.inputs) == ["x"] and plain.version == 1 and plain.sheet is None
    assert plain.counts["forward_passes"] == 3 + 1


def test_a_version_that_is_loaded_meanwhile_does_not_answer(server, client, inputs, weights, linear):
    model = serving.ServedModel(client, "linear")
    server.models["linear"][3] = {"serving_default": linear(change=lambda scores: 3 * scores)}
    np.testing.assert_allclose(model.scores(inputs), 2 * inputs.reshape(-1, 6) @ weights, rtol=1e-6)
    assert serving.ServedModel(client, "linear").version == 3
    del server.models["linear"][2]
    with pytest.raises(ServerError, match=r"NOT_FOUND: Servable not found for request: Specific\(linear, 2\)"):
        model.scores(inputs)


def test_methods_of_scores_need_no_export(plain, inputs, weights):
    """Covering one value takes away its product with its weight."""
    maps = attribution.explain("occlusion", plain, inputs, 1, patch=1, batch_size=64)
    products = inputs * weights[:, 1].reshape(2, 3)
    np.testing.assert_allclose(maps, products.sum(axis=2), rtol=1e-4, atol=1e-5)
    with pytest.raises(BadInput, match="does not have 'gradient', which this method needs; it has none"):
        attribution.explain("gradient", plain, inputs)
    with pytest.raises(BadInput, match="does not have gradients of a layer"):
        attribution.explain("grad_cam", plain, inputs)


def test_an_exported_method_is_one_request(model, server, inputs, weights):
    chosen = weights.T[model.predict(inputs)].reshape(5, 2, 3)
    for method, expected in (("gradient", chosen), ("integrated_gradients", chosen * inputs)):
        maps = attribution.explain(serving.as_served(method), model, inputs)
        np.testing.assert_allclose(maps, expected, rtol=1e-6)
        assert server.asked["explained", "explain_" + method] == 5


def test_other_parameters_are_computed_from_gradients(model, server, inputs, weights):
    chosen = weights.T[model.predict(inputs)].reshape(5, 2, 3)
    maps = attribution.explain(serving.as_served("integrated_gradients"), model, inputs, points=3, baseline=0.5)
    np.testing.assert_allclose(maps, chosen * (inputs - 0.5), rtol=1e-5)
    assert server.asked["explained", "explain_integrated_gradients"] == 0
    assert server.asked["explained", "explain_gradient"] == 5 * 3  # the path ends at the input, which says the class
    # The mean gradient of a linear model is its gradient, whatever the noise.
    maps = attribution.explain("smoothgrad", model, inputs, samples=4)
    np.testing.assert_allclose(maps, chosen, rtol=1e-5)


def test_targets(model, inputs, weights):
    targets = np.array([0, 1, 2, 1, 0])
    maps = attribution.explain(serving.as_served("gradient"), model, inputs, targets)
    np.testing.assert_allclose(maps, weights.T[targets].reshape(5, 2, 3), rtol=1e-6)
    with pytest.raises(BadInput, match="target 3 is outside"):
        attribution.explain(serving.as_served("gradient"), model, inputs, 3)
    with pytest.raises(BadInput, match="targets must be 5 whole numbers"):
        attribution.explain(serving.as_served("gradient"), model, inputs, [1, 2])


def test_what_it_does_not_carry(model, inputs):
    with pytest.raises(BadInput, match=r"does not have 'guided_backprop'.*attribution.export --methods=guided"):
        attribution.explain("guided_backprop", model, inputs)
    with pytest.raises(BadInput, match="does not have this method with these parameters"):
        attribution.explain(serving.as_served("lrp_epsilon"), model, inputs)
    with pytest.raises(BadInput, match="cannot change its backward pass by 'Mine'"):
        model.backward(model.feed(inputs), np.zeros(5, np.int32), "x", rules={"relu": "Mine"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.zeros((2, 3, 3)), r"has shape \(2, 3, 3\), .* takes \(any, 2, 3\)"),
        (np.full((2, 2, 3), np.nan), "NaN or infinite values, first in row 0"),
        ({"y": np.zeros((2, 2, 3))}, "inputs 'y' were given"),
    ],
)
def test_inputs_are_checked_before_they_are_sent(plain, server, given, message):
    before = sum(server.asked.values())
    with pytest.raises(BadInput, match=message):
        plain.scores(given)
    assert sum(server.asked.values()) == before


def test_fingerprints(server, linear, explained):
    """Of the file where it is known; of the answers elsewhere, the same by both protocols and another for others."""
    server.models["twin"] = {1: {"serving_default": linear()}}
    server.models["explained"] = {1: explained()}
    found = {}
    for address in (server.grpc_address, server.rest_address):
        with serving.Client(address) as client:
            for name in ("linear@1", "twin", "linear@2", "explained"):
                found.setdefault(name, set()).add(serving.ServedModel(client, name).fingerprint)
    assert all(len(values) == 1 for values in found.values())
    assert found["linear@1"] == found["twin"] != found["linear@2"] and found["explained"] == {"a" * 64}


def test_models_that_cannot_be_scored(server, client, linear, explained):
    two = linear()
    many = ServedSignature(
        Signature(two.specs.inputs, {**two.specs.outputs, "other": two.specs.outputs["scores"]}), None
    )
    server.models.update(
        {
            "many": {1: {"serving_default": many}},
            "named": {1: {"a": two, "b": two}},
            "probabilities": {1: explained(score="probabilities")},
            "later": {1: explained(sheet=2)},
        }
    )
    for name, message in [
        ("many", "has the outputs 'other', 'scores'; expected only scores"),
        ("named", "has no default signature; its signatures are 'a', 'b'"),
        ("probabilities", "explains probabilities, not logits"),
        ("later", "has version 2 instead of 1"),
    ]:
        with pytest.raises(BadInput, match=message) as refused:
            serving.ServedModel(client, name)
        assert "\n" not in str(refused.value) and name in str(refused.value)
    assert serving.ServedModel(client, "named", signature="b").num_classes == 3
    for name in ("", "a/b", "a@x"):
        with pytest.raises(BadInput, match="is not the name of a served model"):
            serving.ServedModel(client, name)


@pytest.mark.parametrize("text", ["", "[]", "[" * 100_000, '{"sheet": 1, "methods": 3}'])
def test_descriptions_of_explanations_that_cannot_be_used(server, client, explained, text):
    signatures = explained()
    signatures["explanation_sheet"] = dataclasses.replace(
        signatures["explanation_sheet"], answer=lambda _: {"sheet": np.array([text.encode()], object)}
    )
    server.models["odd"] = {1: signatures}
    with pytest.raises(BadInput, match="description of the explanations") as refused:
        serving.ServedModel(client, "odd")
    assert "\n" not in str(refused.value)


def test_a_model_with_a_fixed_batch_is_refused(server, client):
    specs = Signature({"x": TensorSpec(FLOAT, (4, 2, 3))}, {"scores": TensorSpec(FLOAT, (4, 3))})
    server.models["fixed"] = {1: {"serving_default": ServedSignature(specs, None)}}
    with pytest.raises(BadInput, match="takes a fixed number of rows of 'x'"):
        serving.ServedModel(client, "fixed")


def test_rest_needs_neither_tensorflow_nor_grpc(server):
    program = f"""
import sys
import numpy as np
import attribution
from attribution_benchmarks import serving
model = serving.ServedModel(serving.Client({server.rest_address!r}), "linear")
maps = attribution.explain("occlusion", model, np.ones((2, 2, 3), np.float32), patch=1)
assert maps.shape == (2, 2), maps.shape
assert not {{"tensorflow", "tensorflow_serving", "grpc", "google.protobuf"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


def test_grpc_without_its_stubs_is_one_line(server, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_serving.apis", None)
    with pytest.raises(
        BadInput, match=r"grpc:// needs .* \(pip install 'tensorflow-serving-api[^']*'\).*http:// does not"
    ):
        serving.Client(server.grpc_address)
