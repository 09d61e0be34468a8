"""PyTorch modules compute the scores and gradients of the SavedModels that they are built from, or are refused."""

import re

import keras
import numpy as np
import pytest

import attribution
from attribution.errors import BadInput
from attribution_benchmarks.core.random_weights import with_shuffled_weights
from attribution_benchmarks.torch import method

torch = pytest.importorskip("torch")
from attribution_benchmarks.torch import twins  # noqa: E402


def compared(model, inputs):
    """Return the largest difference of scores, of the largest score, and that of each input's gradient."""
    scores, gradients = [], []

    def run(queries):
        twin = twins.of(queries)
        given, words = twins.tensors(queries)
        given.requires_grad_()
        found = twin(given) if words is None else twin(given, words)
        scores.append(np.abs(found.detach().numpy() - queries.scores).max() / np.abs(queries.scores).max())
        (gradient,) = torch.autograd.grad(
            found.gather(1, torch.from_numpy(queries.targets[:, None]).long()).sum(), given
        )
        if twin.logits.channels_first and given.ndim > 2:
            gradient = gradient.movedim(1, -1)
        wanted, axes = queries.input_gradient(), tuple(range(1, given.ndim))
        largest = np.abs(wanted).max(axis=axes)
        gradients.append(np.abs(gradient.numpy() - wanted).max(axis=axes) / np.where(largest, largest, 1))
        return np.zeros_like(queries.inputs)

    explained = "image" if isinstance(inputs, dict) else None
    attribution.explain(run, model, inputs, explain_input=explained, batch_size=200 if explained is None else 4)
    return max(scores), np.concatenate(gradients)


def test_scores_and_gradients_equal_tensorflows(network):
    model, inputs = network
    scores, gradients = compared(model, inputs)
    assert scores < 1e-5
    # Kinks: in float32 a unit near zero may be on the other side. PyTorch's float32 and float64 differ as much.
    assert np.median(gradients) < 1e-5 and np.mean(gradients > 1e-5) < 0.2


def test_random_networks_have_twins_too(loaded):
    for name in ("svea/baseline", "exact/sequences/transformer", "parts/residual_seed0"):
        model, inputs = loaded(name, 30)
        scores, _ = compared(with_shuffled_weights(model.path, 0, model.score), inputs)
        assert scores < 1e-5


def test_a_twin_with_other_scores_is_refused(loaded, monkeypatch):
    model, inputs = loaded("exact/sequences/transformer", 12)
    monkeypatch.setattr(twins, "_NUMBERED", re.compile("(no number)"))  # keys and queries in the order of the file
    with pytest.raises(BadInput, match=r"Transformer\(.*does not compute the scores"):
        compared(model, inputs)


def test_other_networks_are_refused():
    network = keras.Sequential([keras.Input((40, 1)), keras.layers.Flatten(), keras.layers.Dense(10)])
    with pytest.raises(BadInput, match="no PyTorch twin of this network"):
        attribution.explain(method(lambda model, inputs, targets: inputs), network, np.zeros((1, 40, 1), np.float32))


def test_a_layer_inside_is_refused(loaded):
    model, images = loaded("parts/plain_seed0", 2)
    with pytest.raises(BadInput, match=r"parts\(\) takes no inputs of shape"):
        attribution.explain(
            method(lambda model, inputs, targets: inputs), model, images, explain_input=model.layer(None)
        )


def test_probabilities_have_the_network_before_its_softmax(loaded):
    model, signals = loaded("svea/baseline", 5)

    def run(module, inputs, targets):
        torch.testing.assert_close(module.logits(inputs).softmax(dim=1), module(inputs))
        assert module.logits.logits is module.logits and not module.training
        return inputs

    np.testing.assert_array_equal(attribution.explain(method(run), model, signals), signals)


def test_a_network_has_one_twin_for_all_batches(loaded, monkeypatch):
    built, read = [], twins._variables
    monkeypatch.setattr(twins, "_variables", lambda model: built.append(model.path) or read(model))
    network = attribution.load_model(loaded("svea/baseline", 1)[0].path)
    inputs = loaded("svea/baseline", 6)[1]
    for _ in range(2):
        attribution.explain(method(lambda model, inputs, targets: inputs), network, inputs, batch_size=2)
    assert len(built) == 1
