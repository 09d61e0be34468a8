"""PyTorch modules compute the scores and gradients of the SavedModels that they are built from, or are refused."""

import copy
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


def gradient(twin, given, words, targets):
    """Return a twin's scores, and the gradient of the targets' scores."""
    given.requires_grad_()
    scores = twin(given) if words is None else twin(given, words)
    (found,) = torch.autograd.grad(scores.gather(1, targets).sum(), given)
    return scores.detach().numpy(), found.numpy()


def difference(found, wanted):
    """Return each input's largest difference of gradients, of its largest value."""
    axes = tuple(range(1, wanted.ndim))
    largest = np.abs(wanted).max(axis=axes)
    return np.abs(found - wanted).max(axis=axes) / np.where(largest, largest, 1)


def compared(model, inputs):
    """Return the largest difference of scores, of the largest score, that of each input's gradient, and in float64."""
    scores, gradients, precise = [], [], []

    def run(queries):
        twin, given, words = twins.of(queries)
        targets = torch.from_numpy(queries.targets[:, None].astype(np.int64))
        found, ours = gradient(twin, given, words, targets)
        scores.append(np.abs(found - queries.scores).max() / np.abs(queries.scores).max())
        _, double = gradient(copy.deepcopy(twin).double(), given.detach().double(), words, targets)
        precise.append(difference(ours, double))
        if twin.logits.channels_first and given.ndim > 2:
            ours = np.moveaxis(ours, 1, -1)
        gradients.append(difference(ours, queries.input_gradient()))
        return np.zeros_like(queries.inputs)

    explained = "image" if isinstance(inputs, dict) else None
    attribution.explain(run, model, inputs, explain_input=explained, batch_size=200 if explained is None else 4)
    return max(scores), np.concatenate(gradients), np.concatenate(precise)


def test_scores_and_gradients_equal_tensorflows(network):
    model, inputs = network
    scores, gradients, precise = compared(model, inputs)
    assert scores < 1e-5
    # Kinks: a unit near zero may be on the other side, in float32 and float64 of PyTorch too.
    assert np.median(gradients) < 1e-5 and np.mean(gradients > 1e-5) < np.mean(precise > 1e-5) + 0.15


def test_random_networks_have_twins_too(loaded):
    for name in ("svea/baseline", "exact/sequences/transformer", "parts/residual_seed0"):
        model, inputs = loaded(name, 30)
        scores, *_ = compared(with_shuffled_weights(model.path, 0, model.score), inputs)
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
