"""A run as workers of Beam create it, in other processes and on other machines."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable
from typing import Any

from attribution.files import CACHE_VARIABLE
from attribution.savedmodel.op_allowlist import is_trusted, trusted
from attribution_benchmarks.core.evaluation import Run, load, prepare
from attribution_benchmarks.core.registry import benchmark_named
from attribution_benchmarks.core.work import Work


@dataclasses.dataclass(frozen=True)
class EvaluationFactory:
    """A ``core.work.WorkFactory`` of the evaluators of an evaluation; methods and metrics are those with a name."""

    place: str
    values: tuple[tuple[str, Any], ...]  # of the settings, whose class a worker may be unable to import
    methods: tuple[str, ...]
    metrics: tuple[str, ...]
    cache: str | None  # of the command; None for the default
    trusted: bool

    @classmethod
    def of(cls, run: Run) -> EvaluationFactory:
        """Return the factory of a run whose benchmark, methods and metrics have names."""
        return cls(
            run.place or run.benchmark.name,
            tuple(vars(run.settings).items()),
            run.names,
            run.metric_places,
            os.environ.get(CACHE_VARIABLE),
            is_trusted(),
        )

    @property
    def name(self) -> str:
        """Name of the benchmark."""
        return self.place

    def __call__(self) -> Callable[[str], Work]:
        """Load the models here, and return a function from an evaluator's name to the evaluator."""
        if self.cache is not None:
            os.environ[CACHE_VARIABLE] = self.cache
        benchmark = benchmark_named(self.place)
        settings = benchmark.settings(**dict(self.values))
        run = prepare(benchmark, self.methods, settings, metrics=self.metrics, in_worker=True, place=self.place)
        with trusted(self.trusted):
            loaded = load(run)

        @functools.cache
        def evaluator(name: str) -> Work:
            with trusted(self.trusted):
                return loaded.measurement(name)

        return evaluator
