"""SVEA's networks on MNIST-1D: explained and measured."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from attribution.errors import BadInput, print_line
from attribution_benchmarks.core.bundled_models import shown_model
from attribution_benchmarks.core.evaluation import Evaluation, Run
from attribution_benchmarks.core.evaluator import Evaluator, Inputs
from attribution_benchmarks.core.explainer import SavedMaps
from attribution_benchmarks.core.random_weights import RANDOM_WEIGHTS, has_variables, networks
from attribution_benchmarks.core.scores import InputScores, Scores
from svea import baseline, mnist1d, notes, scoring
from svea.methods import CANDIDATES, CONTROLS, COSTLY
from svea.scoring import NetworkScores
from svea.settings import Settings


class SveaEvaluation(Evaluation):
    """One or several networks, and MNIST-1D."""

    settings: Settings

    def __init__(self, run: Run, models: Mapping[str, Any], data: mnist1d.Mnist1D):
        super().__init__(run, models)
        self.data = data

    @classmethod
    def load(cls, run: Run) -> SveaEvaluation:
        """Load the networks and MNIST-1D."""
        settings: Any = run.settings
        models = {shown_model(path): scoring.load_network(path) for path in settings.paths()}
        for model in models.values():
            if any(getattr(method, "library", None) for method, _ in run.methods.values()):
                model.live_network()  # raises for another architecture
            if settings.layer:
                model.layer(settings.layer)  # raises for an unknown layer
        return cls(run, models, mnist1d.load(settings.data_seed))

    def describe_models(self) -> list[str]:
        """Return each network's accuracy and the layer of class activation maps."""
        return [self._fit(name, model) for name, model in self.models.items()]

    def measurements(self) -> list[list[Evaluator]]:
        """Return one evaluator of all 5,000 signals for each network."""
        return [[self.measurement(name) for name in self.models]]

    def measurement(self, name: str) -> Evaluator:
        """Return the evaluator of one network."""
        run, model = self.run, self.models[name]
        # A network without variables has no weights to draw.
        count = self.settings.random_networks if has_variables(model.path) else 0
        controls = (*networks([RANDOM_WEIGHTS] if count else [], count), *CONTROLS)
        explainer = self.explainer(
            model, controls, [each for each in run.methods if each not in (*COSTLY, *CANDIDATES)]
        )
        if isinstance(explainer, SavedMaps):
            explainer.check([scoring.file_of(row) for row in range(scoring.SIGNALS)], "signal")
        measures = [scoring.of_test_signals(metric.measure) for metric in run.shared_metrics.values()]
        settings = {each: repr(overrides) for each, (_, overrides) in run.methods.items()}
        return scoring.evaluator(
            explainer, model, self.data, [scoring.REGION, *measures], run.store,
            maps_directory=self.maps_directory(model=model.fingerprint, settings=settings),
            inputs=Inputs(
                name, range(scoring.SIGNALS), self.settings.batch_size,
                lambda rows, size: scoring.batches(self.data, size, rows),
            ),
        )  # fmt: skip

    @functools.cached_property
    def scored(self) -> list[NetworkScores]:
        """The scores of each network."""
        run, found = self.run, []
        for number, (name, model) in enumerate(self.models.items(), start=1):
            if len(self.models) > 1:
                print_line(f"network {number} of {len(self.models)}: {name}", file=sys.stderr)
            numbers = self.computed(self.measurement(name), "signal", "signals explained")
            found.append(
                scoring.score_network(
                    model,
                    self.data,
                    numbers,
                    run.shared_metrics,
                    self.settings.batch_size,
                    run.store,
                    with_roe="roe_test" in run.metrics,
                )
            )
        return found

    def groups(self) -> Iterator[InputScores]:
        """Yield each test signal's value by each metric, on each network."""
        return groups_of(self.scored, self.run.metrics)

    def heading(self) -> list[str]:
        """Return a line for each network."""
        return [
            f"{name}: accuracy {network.accuracy(self.data):.1f} % on {mnist1d.TEST_SIGNALS:,} test signals "
            f"(paper's network: {baseline.PAPER_ACCURACY} %)"
            for name, network in zip(self.models, self.scored, strict=True)
        ]

    def notes(self, scores: Scores) -> list[str]:
        """Compare the scores with the paper's."""
        return notes.notes(scores, len(self.models), self.settings.seed)

    def data_fingerprints(self) -> dict[str, str]:
        """Return the fingerprint of MNIST-1D."""
        return {"mnist1d": self.data.fingerprint}

    def _fit(self, name: str, model: Any) -> str:
        test = self.data.test
        accuracy = 100 * (model.predict(test.signals[..., None], 1000) == test.labels).mean()
        try:
            layer = f"class activation maps of the layer {model.layer(self.settings.layer or None)}"
        except BadInput as error:
            layer = f"no class activation maps ({error})"
        return (
            f"{name} fits SVEA: signals (batch, {mnist1d.LENGTH}, 1) to {mnist1d.CLASSES} classes, {accuracy:.1f} % of "
            f"the test signals right; {layer}"
        )


def groups_of(networks: Sequence[NetworkScores], metrics: Iterable[str]) -> Iterator[InputScores]:
    """Yield each test signal's value by each metric, (1000,), or (1000, K) of K networks."""
    inputs = [f"test signal {row}" for row in range(mnist1d.TEST_SIGNALS)]
    for metric in metrics:
        sources = [source for source, found in networks[0].sources.items() if metric in found.values]
        each = {source: [network.sources[source] for network in networks] for source in sources}
        yield InputScores(
            {"metric": metric},
            inputs,
            {
                source.name: np.stack([one.values[metric] for one in found], 1).squeeze()
                for source, found in each.items()
            },
            sources=sources,
            facts={
                source.name: {"zero_maps": 100 * np.mean([one.zero_maps for one in found]) / scoring.SIGNALS}
                for source, found in each.items()
                if metric == "roe_test" and not source.control
            },
            curves={
                source.name: np.mean([one.curves[metric] for one in found], axis=0)
                for source, found in each.items()
                if metric in found[0].curves and not (source.method and source.control)
            },
        )
