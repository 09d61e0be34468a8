"""The command of a benchmark: flags in, printed tables and files out.

It is a module of a few lines::

    COMMAND = Command(MINE)
    FLAGS, main = COMMAND.flags, COMMAND.main

    if __name__ == "__main__":
        cli.run(main, FLAGS, __doc__)
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import sys

from absl import flags

from attribution import cli
from attribution.errors import print_line, print_text
from attribution.files import check_directory, origin
from attribution_benchmarks.beam.precompute import Precompute
from attribution_benchmarks.cli.beam_flags import (
    check_precompute_flags,
    define_precompute_flags,
    precompute_from_flags,
)
from attribution_benchmarks.cli.settings_flags import define_settings, settings_of
from attribution_benchmarks.core.definition import Benchmark
from attribution_benchmarks.core.evaluation import Evaluation, Run, default_store, evaluated, load, prepare
from attribution_benchmarks.core.explainer import Inapplicable
from attribution_benchmarks.core.figures import write_figures
from attribution_benchmarks.core.progress import Bars
from attribution_benchmarks.core.scores import Scores, check_output
from attribution_benchmarks.core.settings import MapSettings
from attribution_benchmarks.core.store import ScoreStore
from attribution_benchmarks.core.worker import EvaluationFactory


class Command:
    """The command of a benchmark; ``place`` is where a custom one is defined, ``file.py:NAME``."""

    def __init__(self, benchmark: Benchmark, place: str = ""):
        self.benchmark, self.place = benchmark, place
        self.flags = _define_flags(benchmark)

    def main(self, flag_values: flags.FlagValues) -> None:
        """Evaluate the benchmark; print and write its results."""
        _check_files(flag_values)
        on_beam = "runner" in flag_values and check_precompute_flags(flag_values)
        run = self.run(flag_values)
        precompute = None
        if on_beam:
            precompute = precompute_from_flags(flag_values, EvaluationFactory.of(run), run.store.directory or "")
        with contextlib.closing(run.store), Bars() as bars:
            evaluation = load(dataclasses.replace(run, progress=bars, only_describes=flag_values.check_model))
            if flag_values.check_model:
                for line in evaluation.describe_models():
                    print_line(line)
                return
            evaluation, found = _evaluated(evaluation, bars, precompute)
            if flag_values.output:
                found.save(flag_values.output)
            if getattr(flag_values, "plot_dir", ""):
                write_figures(evaluation, flag_values.plot_dir)
        if run.store.directory and not flag_values.scores_dir:
            print_line(f"scores kept in {run.store.directory}", file=sys.stderr)

    def run(self, flag_values: flags.FlagValues) -> Run:
        """Return what the flags ask for, checked."""
        settings = settings_of(flag_values, self.benchmark.settings)
        folder = flag_values.scores_dir if isinstance(settings, MapSettings) else ""
        store = ScoreStore(folder) if folder else default_store(self.benchmark, settings)
        if not isinstance(settings, MapSettings):
            return prepare(self.benchmark, settings=settings, store=store)
        asked = flag_values["methods"].present or not settings.precomputed_maps
        return prepare(
            self.benchmark,
            flag_values.methods if asked else None,
            settings,
            metrics=flag_values.metrics,
            store=store,
            place=self.place,
        )


def _evaluated(
    evaluation: Evaluation, bars: Bars, precompute: Precompute | None, printed: int = 0
) -> tuple[Evaluation, Scores]:
    """Evaluate, on Beam first if it precomputes; skip methods that cannot explain the network, and say why.

    Each table is printed once, as soon as it is known; ``printed`` are already.
    """

    def show(number: int, text: str) -> None:
        nonlocal printed
        if number == printed:
            print_text(text, flush=True)
            printed += 1

    try:
        if precompute:
            groups = list(evaluation.measurements())
            for one in itertools.chain(*groups):
                one.check_methods()
            for group in groups:
                precompute(group)
        return evaluation, evaluated(evaluation, show)
    except Inapplicable as error:
        left = evaluation.run.without(error.refused)
        if not left.methods:
            raise
        bars.close()
        for name, reason in error.refused.items():
            print_line(f"note: '{name}' is skipped: {reason}", file=sys.stderr)
        model = next(iter(evaluation.models.values()))
        print_line(f"note: {cli.inspect_hint(origin(model.path))}", file=sys.stderr)
        if precompute:
            precompute = dataclasses.replace(precompute, factory=EvaluationFactory.of(left))
        return _evaluated(load(left), bars, precompute, printed)


def _define_flags(benchmark: Benchmark) -> flags.FlagValues:
    """Return the flags of a benchmark's command."""
    flag_values = flags.FlagValues()
    cli.define_common_flags(flag_values, output="", check_model=False, trust_model=False, cache_dir="")
    define_settings(flag_values, benchmark.settings)
    if issubclass(benchmark.settings, MapSettings):
        cli.define_common_flags(flag_values, methods=list(benchmark.methods))
        flags.DEFINE_list(
            "metrics", list(benchmark.default_metrics),
            "metrics by name: the benchmark's own, those of all benchmarks (docs/metrics.md), or file.py:NAME of yours",
            flag_values=flag_values,
        )  # fmt: skip
        _define_text(flag_values, "plot_dir", "directory to write figures of some inputs and their maps to")
        _define_text(flag_values, "scores_dir", "directory to store scores in, so that none is computed twice")
        define_precompute_flags(flag_values)
    return flag_values


def _define_text(flag_values: flags.FlagValues, name: str, about: str) -> None:
    flags.DEFINE_string(name, "", about, flag_values=flag_values)


def _check_files(flag_values: flags.FlagValues) -> None:
    """Refuse files and directories that cannot be written, before any work."""
    check_output(flag_values.output)
    for name in ("plot_dir", "scores_dir"):
        if name in flag_values:
            check_directory(name, flag_values[name].value)
