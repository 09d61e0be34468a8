"""A run as workers of Beam create it, in other processes and on other machines."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable
from typing import Any

from attribution.files import CACHE_VARIABLE
from attribution.model.op_allowlist import TRUST_VARIABLE
from attribution_benchmarks.beam.work import Work
from attribution_benchmarks.core.evaluation import Run, load, prepare
from attribution_benchmarks.core.registry import benchmark_named

_ENVIRONMENT = (CACHE_VARIABLE, TRUST_VARIABLE)  # of a command, for its workers


@dataclasses.dataclass(frozen=True)
class EvaluationFactory:
    """A ``beam.work.WorkFactory`` of the sharded runs of an evaluation; methods and metrics are those with a name."""

    place: str
    values: tuple[tuple[str, Any], ...]  # of the settings, whose class a worker may be unable to import
    methods: tuple[str, ...]
    metrics: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, run: Run) -> EvaluationFactory:
        """Return the factory of a run whose benchmark, methods and metrics have names, in this environment."""
        environment = tuple((name, os.environ[name]) for name in _ENVIRONMENT if name in os.environ)
        return cls(
            run.place or run.benchmark.name,
            tuple(vars(run.settings).items()),
            run.names,
            run.metric_places,
            environment,
        )

    @property
    def name(self) -> str:
        """Name of the benchmark."""
        return self.place

    def __call__(self) -> Callable[[str], Work]:
        """Load the models here, and return a function from a sharded run's name to the sharded run."""
        os.environ.update(self.environment)
        benchmark = benchmark_named(self.place)
        settings = benchmark.settings(**dict(self.values))
        run = prepare(benchmark, self.methods, settings, metrics=self.metrics, in_worker=True, place=self.place)
        return functools.cache(load(run).sharded_run)
