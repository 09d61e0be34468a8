"""MNIST-1D, the committed network, and scores of methods on it."""

import pytest

from attribution_benchmarks.core.explainer import Explainer
from svea import baseline, mnist1d, scoring
from svea.methods import CONTROLS


@pytest.fixture(scope="session")
def data():
    return mnist1d.load()


@pytest.fixture(scope="session")
def model():
    return scoring.load_network(baseline.SAVED_MODELS / "baseline")


@pytest.fixture(scope="session")
def score(data, model):
    """Return a function from name -> (method, overrides) to the scores of these methods on the network."""

    def score(methods):
        explainer = Explainer(model, methods, CONTROLS, batch_size=1000)
        results = scoring.evaluator(explainer, model, [scoring.REGION]).run(scoring.batches(data, 1000))
        return scoring.score_network(model, data, results)

    return score
