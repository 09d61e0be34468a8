"""MNIST-1D, the committed network, and scores of methods on it."""

import pytest

from attribution_benchmarks.core.explainer import Explainer
from attribution_benchmarks.core.scores import Scores, summarised
from svea import baseline, mnist1d, scoring
from svea.definition import BENCHMARK
from svea.evaluation import groups_of
from svea.methods import CONTROLS
from svea.metrics import METRICS


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
        results = scoring.evaluator(explainer, model, data, [scoring.REGION]).run(scoring.batches(data, 1000))
        return scoring.score_network(model, data, results)

    return score


@pytest.fixture(scope="session")
def table_of():
    """A function from the scores of networks to those of the table, with the paper's figures."""

    def scores(networks):
        groups = list(groups_of(networks, METRICS))
        metrics = {group.where["metric"]: METRICS[group.where["metric"]] for group in groups}
        rows = [
            row
            for group in groups
            for row in summarised(group, metrics[group.where["metric"]], BENCHMARK.published_figures)
        ]
        return Scores(rows, groups, BENCHMARK.row_titles(networks[0].sources))

    return scores
