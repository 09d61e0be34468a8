"""The evaluation loop of every benchmark: check, load, explain, measure, print, save.

How a benchmark plugs into the runner
-------------------------------------
A benchmark is an instance of ``core.definition.Benchmark``. One with a network, ``examples`` and metrics of maps needs
nothing else: ``attribution-benchmarks score --benchmark=my_file.py:MINE`` evaluates it. Any other benchmark
is a subclass that overrides hooks, and a command module of a few lines::

    COMMAND = runner.Command("my_package.command", MINE)
    FLAGS, main, works = COMMAND.flags, COMMAND.main, COMMAND.works  # workers of Beam import FLAGS and works

    if __name__ == "__main__":
        cli.run(main, FLAGS, __doc__)

``Command.main`` calls the hooks in this order. All take the ``Run``, which holds the state of the command.

1. ``define_flags(flag_values)``, at import: the benchmark's own flags, and other defaults of the shared flags, which
   ``_define_flags`` below defines for all benchmarks. A new shared flag is one line there. Do not import TensorFlow.
2. ``select_metrics(names)`` -> ``run.metrics``; ``check(run)``; ``select_methods(run)`` -> ``run.methods``. Nothing is
   loaded yet; with ``--precomputed_maps`` there are no methods to select.
3. ``load(run)`` sets ``run.models`` and ``run.data``. ``describe_models(run)`` prints ``--check_model`` and ends there.
4. ``sharded_runs(run)``: everything that is explained, as ``ShardedRun`` objects, each an ``Evaluator`` and its inputs.
   With ``--runner=beam``, workers compute them first, group by group, and ``drop(run, failed)`` handles failures.
   A worker calls ``sharded_run(run, name)`` after ``load``.
5. ``sections(run)`` yields rows and text, which are printed at once. The default calls ``evaluate(run)`` ->
   ``run.results``, ``input_scores(run)`` -> ``run.input_scores``, ``rows``, ``heading``, ``table`` and ``notes``.
   A benchmark that compares models evaluates several sharded runs there and combines their results; one that prints
   a table for each metric overrides ``sections`` and yields one section for each.
6. ``data_fingerprints(run)`` for the manifest of ``--output``; ``write_figures(run, rows)`` for ``--plot_dir``.

Helpers for hooks: ``run.explainer(model, controls, controlled)`` makes maps, or reads them with
``--precomputed_maps``; ``run.maps_directory(...)`` saves them with ``--save_maps``; ``run.evaluate(sharded_run)`` shows
progress; ``run.store`` keeps numbers in ``--scores_dir``, or in ``default_scores_dir(run)`` of the benchmark.

Several models are several sharded runs, one for each. Several numbers a map, such as ten poolings, are one
``PerSampleMetric`` of that width. A prediction filter and further measures are arguments of ``Evaluator``. Random
networks are controls of the explainer.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from absl import flags

from attribution import cli
from attribution.errors import BadInput, listed, print_line, print_text
from attribution.files import check_directory, find_saved_model
from attribution_benchmarks.beam.precompute import check_precompute_flags, define_precompute_flags
from attribution_benchmarks.cli.figures import FORMATS
from attribution_benchmarks.core import input_scores, manifest, tables
from attribution_benchmarks.core.controls import Control
from attribution_benchmarks.core.definition import Benchmark, Section
from attribution_benchmarks.core.random_weights import MOST
from attribution_benchmarks.core.store import ScoreStore


def _define_flags(benchmark: Benchmark, networks: int = 0) -> flags.FlagValues:
    """Return the flags of a benchmark's command: the shared ones, then its own.

    ``networks`` is the default of ``--random_networks``.
    """
    flag_values = flags.FlagValues()
    cli.define_common_flags(
        flag_values, methods=list(benchmark.methods), batch_size=32, seed=0, output="", layer="", check_model=False
    )

    def text(name: str, about: str, alias: str = "") -> None:
        flags.DEFINE_string(name, "", about, flag_values=flag_values)
        if alias:
            flags.DEFINE_alias(alias, name, flag_values=flag_values)

    flags.DEFINE_list(
        "metrics", [metric.name for metric in benchmark.metrics],
        "metrics by name: the benchmark's own, those of all benchmarks (docs/metrics.md), or file.py:NAME of yours",
        flag_values=flag_values,
    )  # fmt: skip
    flags.DEFINE_integer(
        "random_networks", networks, "networks of shuffled weights, a control of methods; none when 0",
        0, MOST, flag_values=flag_values,
    )  # fmt: skip
    text("save_maps", "directory to save maps in, as METHOD/INPUT.npy", "maps_dir")
    text("precomputed_maps", "directory of maps to score instead of computing them, as METHOD/INPUT.npy", "from_maps")
    text("scores_dir", "directory to store scores in, so that none is computed twice")
    text("input_scores", "file to write the scores of every input to; .json")
    if type(benchmark).write_figures is not Benchmark.write_figures:
        text("plot_dir", "directory to write figures to")
        flags.DEFINE_list("plot_format", ["png"], "formats of the figures: png, pdf, svg", flag_values=flag_values)
    define_precompute_flags(flag_values)
    benchmark.define_flags(flag_values)
    return flag_values


class Run:
    """The state of one command.

    Attributes
    ----------
    benchmark, flags, in_worker
        The benchmark, the parsed flags, and whether a worker of Beam computes.
    metrics, methods
        Name -> metric, name -> (method, overrides); set before anything is loaded.
    models, data
        Set by the benchmark's ``load``: name -> model, and whatever its hooks read as data.
    results, input_scores
        Set by the benchmark's ``sections``.
    store : ScoreStore
        Where numbers are stored; in memory without a directory, and in workers.
    in_worker : bool
        Whether it computes blocks of another process. All flags are present there, those with defaults too.
    """

    def __init__(self, benchmark: Benchmark, flag_values: flags.FlagValues, in_worker: bool = False):
        self.benchmark, self.flags, self.in_worker = benchmark, flag_values, in_worker
        self.metrics = benchmark.select_metrics(flag_values.metrics)
        self.models: Mapping[str, Any] = {}
        self.data: Any = None
        self.results: Any = None
        self.input_scores: Sequence[input_scores.InputScores] = ()
        benchmark.check(self)
        if "model" in flag_values and flag_values.model:
            find_saved_model(flag_values.model)  # before TensorFlow is imported, which takes seconds
        self.methods = {} if flag_values.precomputed_maps else benchmark.select_methods(self)
        self.scores_dir = flag_values.scores_dir or benchmark.default_scores_dir(self)
        self.store = ScoreStore(self.scores_dir if self.scores_dir and not in_worker else None)

    @property
    def shared_metrics(self) -> dict[str, Any]:
        """Metrics of the run that are not the benchmark's own, by name."""
        return {name: metric for name, metric in self.metrics.items() if metric not in self.benchmark.metrics}

    @property
    def method_names(self) -> list[str]:
        """Names of ``--methods``; with ``--precomputed_maps`` those given, if any, since there all maps are scored."""
        given = self.flags["methods"].present or not self.flags.precomputed_maps
        return self.flags.methods if given else []

    def explainer(
        self,
        model: Any,
        controls: Sequence[Control] = (),
        controlled: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
        methods: Mapping[str, tuple[Any, ...]] | None = None,
    ) -> Any:
        """Return what makes a model's maps, or reads them with ``--precomputed_maps``.

        ``controls`` and ``controlled`` are as of ``Explainer``; precomputed maps have model-independent controls only,
        and need no model. ``methods`` are those of the run where None.
        """
        if self.flags.precomputed_maps:
            from attribution_benchmarks.core.explainer import SavedMaps, saved_methods

            folders = saved_methods(self.flags.precomputed_maps, self.method_names)
            scores = functools.partial(model.scores, batch_size=self.flags.batch_size) if model else None
            return SavedMaps(folders, controls, self.flags.seed, scores)
        from attribution_benchmarks.core.explainer import Explainer

        chosen = self.methods if methods is None else methods
        return Explainer(model, chosen, controls, controlled, self.flags.seed, self.flags.batch_size)

    def maps_directory(self, reduce: Callable[..., Any] | None = None, **origin: Any) -> Any:
        """Return where maps are saved; None without ``--save_maps``.

        ``reduce`` is applied to a map before it is saved; None saves it whole. ``origin`` is what the maps depend on
        besides benchmark and seed; a directory holds maps of one origin.
        """
        if not self.flags.save_maps:
            return None
        from attribution_benchmarks.core.explainer import MapsDirectory

        described = {"benchmark": self.benchmark.name, **origin, "seed": self.flags.seed}
        return MapsDirectory(self.flags.save_maps, described, reduce)

    def evaluate(self, sharded_run: Any, unit: str = "input", title: str = "") -> Any:
        """Explain and measure a sharded run in this process, with a progress bar; return its ``Results``."""
        import tqdm

        with tqdm.tqdm(total=len(sharded_run.items), desc=title or self.benchmark.title, unit=unit) as bar:
            return sharded_run.evaluate(bar.update)


class Command:
    """The command of a benchmark.

    ``module`` has ``FLAGS`` and ``works``. ``benchmark`` is None for the one of the flag ``--benchmark``.
    ``random_networks`` is the default of that flag.
    """

    def __init__(self, module: str, benchmark: Benchmark | None = None, random_networks: int = 0):
        self.module, self.benchmark = module, benchmark
        self.flags = _define_flags(benchmark or Benchmark("", ""), random_networks)

    def main(self, flag_values: flags.FlagValues) -> None:
        """Evaluate the benchmark; print and write its results."""
        _check_files(flag_values)
        run = Run(self.select_benchmark(flag_values), flag_values)
        with contextlib.closing(run.store):
            self._evaluate(run)

    def _evaluate(self, run: Run) -> None:
        benchmark, flag_values = run.benchmark, run.flags
        precompute = self._precompute(run)
        benchmark.load(run)
        if flag_values.check_model:
            for line in benchmark.describe_models(run):
                print_line(line)
            return
        if precompute:
            for group in benchmark.sharded_runs(run):
                if failed := precompute(group):
                    benchmark.drop(run, failed)
        whole = Section([], "")
        for section in benchmark.sections(run):
            print_text(section.text, flush=True)
            whole += section
        self._write(run, whole)

    def _precompute(self, run: Run) -> Callable[..., Any] | None:
        """Return what computes groups of sharded runs in workers; None with ``--runner=local``."""
        if not check_precompute_flags(run.flags):
            return None
        from attribution_benchmarks.beam.precompute import precompute_from_flags

        return precompute_from_flags(run.flags, self.module, run.scores_dir)

    def _write(self, run: Run, whole: Section) -> None:
        """Write the files of the flags."""
        if run.flags.output:
            tables.save(run.flags.output, whole.rows, self._manifest(run), whole.text, whole.markdown or None)
        if run.flags.input_scores:
            input_scores.save(run.flags.input_scores, run.benchmark.name, run.input_scores)
        if "plot_dir" in run.flags and run.flags.plot_dir:
            run.benchmark.write_figures(run, whole.rows)
        if run.store.directory and not run.flags.scores_dir:
            print_line(f"scores kept in {run.store.directory}", file=sys.stderr)

    def works(self, flag_values: flags.FlagValues) -> Callable[[str], Any]:
        """Return a function from a sharded run's name to the sharded run, for workers."""
        run = Run(self.select_benchmark(flag_values), flag_values, in_worker=True)
        run.benchmark.load(run)
        return functools.cache(functools.partial(run.benchmark.sharded_run, run))

    def select_benchmark(self, flag_values: flags.FlagValues) -> Benchmark:
        """Return the benchmark: the command's own, or the one of ``--benchmark``."""
        if self.benchmark:
            return self.benchmark
        from attribution_benchmarks.core.registry import benchmark_named

        if not flag_values.benchmark:
            raise BadInput("--benchmark is missing; name a definition, such as --benchmark=my_file.py:MINE")
        benchmark = benchmark_named(flag_values.benchmark, "--benchmark")
        if benchmark.examples is None:
            raise BadInput(
                f"--benchmark={flag_values.benchmark}: {benchmark.title} has its own command: attribution-benchmarks "
                f"{benchmark.name.replace('_', '-')}"
            )
        return benchmark

    def _manifest(self, run: Run) -> dict[str, Any]:
        return manifest.describe_run(
            run.benchmark.name,
            models={name: model.fingerprint for name, model in run.models.items()},
            data=run.benchmark.data_fingerprints(run),
            seed=run.flags.seed,
            command=manifest.command_of(f"python -m {self.module}", run.flags),
        )


def _check_files(flag_values: flags.FlagValues) -> None:
    """Refuse files and directories that cannot be written, before any work."""
    tables.check_output(flag_values.output)
    if flag_values.input_scores:
        tables.check_output(flag_values.input_scores, suffixes=(".json",), flag="input_scores")
    if "plot_dir" in flag_values:
        check_directory("plot_dir", flag_values.plot_dir)
        for name in flag_values.plot_format or ["nothing"]:
            if name not in FORMATS:
                raise BadInput(f"--plot_format has '{name}'; expected {listed(FORMATS)}")
    for name in ("scores_dir", "save_maps"):
        check_directory(name, flag_values[name].value)
    if flag_values.precomputed_maps and flag_values.save_maps:
        raise BadInput("--precomputed_maps makes no maps that could be saved; leave out --save_maps")
