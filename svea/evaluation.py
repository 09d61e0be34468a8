"""SVEA's networks on MNIST-1D: explained, measured and laid out."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from attribution.errors import BadInput, print_line
from attribution_benchmarks.core.bundled_models import shown_model
from attribution_benchmarks.core.evaluation import Run, Section, TableEvaluation
from attribution_benchmarks.core.evaluator import ShardedRun
from attribution_benchmarks.core.explainer import SavedMaps, with_all_maps
from attribution_benchmarks.core.input_scores import InputScores
from attribution_benchmarks.core.random_weights import RANDOM_WEIGHTS, has_variables, networks
from svea import baseline, mnist1d, scoring, table
from svea.methods import CANDIDATES, CONTROLS, COSTLY
from svea.scoring import NetworkScores
from svea.settings import Settings


class SveaEvaluation(TableEvaluation):
    """One or several networks, and MNIST-1D; its results are a list of ``NetworkScores``."""

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
        return cls(run, models, mnist1d.load())

    def describe_models(self) -> list[str]:
        """Return each network's accuracy and the layer of class activation maps."""
        return [self._fit(name, model) for name, model in self.models.items()]

    def sharded_runs(self) -> list[list[ShardedRun]]:
        """Return one run through all 5,000 signals for each network."""
        return [[self.sharded_run(name) for name in self.models]]

    def sharded_run(self, name: str) -> ShardedRun:
        """Return the run of one network."""
        run, model = self.run, self.models[name]
        # A network without variables has no weights to draw.
        count = self.settings.random_networks if has_variables(model.path) else 0
        controls = (*networks([RANDOM_WEIGHTS] if count else [], count), *CONTROLS)
        explainer = self.explainer(
            model, controls, [each for each in run.methods if each not in (*COSTLY, *CANDIDATES)]
        )
        if isinstance(explainer, SavedMaps):
            _check_saved_maps(self.settings.precomputed_maps, explainer.folders)
        measures = [scoring.of_test_signals(metric.measure) for metric in run.shared_metrics.values()]
        settings = {each: repr(overrides) for each, (_, overrides) in run.methods.items()}
        evaluator = scoring.evaluator(
            explainer, model, [scoring.REGION, *measures], run.store,
            maps_directory=self.maps_directory(model=model.fingerprint, settings=settings),
        )  # fmt: skip
        return ShardedRun(
            name, evaluator, range(scoring.SIGNALS), self.settings.batch_size,
            lambda rows, size: scoring.batches(self.data, size, rows),
        )  # fmt: skip

    def evaluate(self) -> list[NetworkScores]:
        """Return the scores of each network."""
        run, found = self.run, []
        for number, (name, model) in enumerate(self.models.items(), start=1):
            if len(self.models) > 1:
                print_line(f"network {number} of {len(self.models)}: {name}", file=sys.stderr)
            results = self.computed(self.sharded_run(name), "signal", "signals explained")
            found.append(
                scoring.score_network(
                    model, self.data, results, run.shared_metrics, self.settings.batch_size, run.store
                )
            )
        return found

    def input_scores(self, results: Sequence[NetworkScores]) -> list[InputScores]:
        """Return each test signal's value by each metric, averaged over the networks."""
        return table.input_scores(results, self.run.metrics)

    def rows(self, results: Sequence[NetworkScores], scores: Sequence[InputScores]) -> list[dict[str, Any]]:
        """Return the rows of the table, with the paper's figures."""
        return table.long_rows(results, self.run.metrics)

    def heading(self, results: Sequence[NetworkScores]) -> list[str]:
        """Return a line for each network."""
        return [
            f"{name}: accuracy {network.accuracy(self.data):.1f} % on {mnist1d.TEST_SIGNALS:,} test signals "
            f"(paper's network: {baseline.PAPER_ACCURACY} %)"
            for name, network in zip(self.models, results, strict=True)
        ]

    def table(self, results: Any, rows: Sequence[Mapping[str, Any]], markdown: bool) -> str:
        """Lay out all rows but those of methods under random networks, which ``notes`` reports."""
        return super().table(results, [row for row in rows if "of" not in row], markdown)

    def titles(self, results: Sequence[Sequence[NetworkScores]]) -> dict[str, str]:
        """Return the titles of methods and controls by name."""
        return self.run.benchmark.row_titles(results[0][0].sources)

    def notes(
        self, results: Sequence[NetworkScores], scores: Sequence[InputScores], rows: Sequence[Mapping[str, Any]]
    ) -> list[str]:
        """Compare the scores with the paper's."""
        return table.findings(results, rows, self.titles([results]), self.settings.seed, list(self.models))

    def data_fingerprints(self, results: Sequence[Any]) -> dict[str, str]:
        """Return the fingerprint of MNIST-1D."""
        return {"mnist1d": mnist1d.FINGERPRINT}

    def write_figures(self, section: Section, directory: str, formats: Sequence[str]) -> None:
        """Write the figures, and test signals for a report."""
        from svea import _figures

        _figures.write(self, section, directory, formats)

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


def _check_saved_maps(directory: str, folders: Mapping[str, pathlib.Path]) -> None:
    names = [scoring.file_of(row) for row in range(scoring.SIGNALS)]
    missing = with_all_maps(names, folders).count(False)
    if missing:
        raise BadInput(
            f"{missing:,} of the {len(names):,} signals have no map of every method in {directory}; "
            f"expected METHOD/{names[0]}.npy to METHOD/{names[-1]}.npy"
        )
