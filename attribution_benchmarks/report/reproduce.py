"""Compute every table of the benchmarks, one matrix of all, and a report to read them in.

    attribution-benchmarks report --output_dir=report
    attribution-benchmarks report --output_dir=report --quick
    attribution-benchmarks report --output_dir=report --methods=my_method.py:my_function
    attribution-benchmarks report --output_dir=report --benchmarks=my_file.py:MINE

Everything is computed from the SavedModels and data of the project; missing data are generated. The quick tables come
first, then the full ones, and the page is written after each. A stopped run leaves a complete page, goes on from its
stored scores, and ends with the same bytes. Open report/index.html; the tables are in report/tables.

Custom methods are scored next to all others in every benchmark they fit, custom metrics in every benchmark.
--model=DIRECTORY replaces the network of every benchmark that accepts its inputs; the page of a benchmark with several
networks says which one is replaced.

In benchmarks with a map error Integrated Gradients takes as many points as this estimated error of its maps needs, with
--exhaustive all.

Cost: 36 CPU minutes, 4 with --quick; 44 with --exhaustive without parts and sequences. Evaluations run in parallel, one
on each core (--jobs).
"""

from __future__ import annotations

import dataclasses
import pathlib
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence

from absl import flags

import attribution
from attribution import cli
from attribution.errors import BadInput, listed, print_line, print_text
from attribution.files import check_directory
from attribution.methods.registry import known_method
from attribution.savedmodel.paths import find_saved_model
from attribution_benchmarks.core.definition import Benchmark, ReportTask
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.places import BENCHMARKS
from attribution_benchmarks.core.random_weights import MOST, NETWORKS, networks
from attribution_benchmarks.core.registry import REPORTED, benchmark_named
from attribution_benchmarks.metrics import registry
from attribution_benchmarks.report import presets, publish
from attribution_benchmarks.report.formatting import enumeration, shown_path
from attribution_benchmarks.report.results import ReportData
from attribution_benchmarks.report.tasks import Tasks, only_run

FLAGS = flags.FlagValues()
cli.define_common_flags(FLAGS, methods=[], model="", seed=0, cache_dir="")
FLAGS[
    "methods"
].help = "methods to score besides those of the benchmarks: registered names, module:function or file.py:function"
FLAGS["model"].help = "SavedModel, or .keras or .h5 file, to score in the benchmarks that accept its inputs"
flags.DEFINE_string("output_dir", "report", "directory of the report; created if missing", flag_values=FLAGS)
flags.DEFINE_bool("quick", False, "fewer networks, inputs, samples and masks: about 4 CPU minutes", flag_values=FLAGS)
flags.DEFINE_bool(
    "exhaustive", False,
    "all points of Integrated Gradients' paths; else some benchmarks take as many as an estimated error of a map needs",
    flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_list(
    "benchmarks", list(REPORTED), f"of {', '.join(BENCHMARKS)}, and custom ones as file.py:NAME", flag_values=FLAGS
)
flags.DEFINE_list(
    "metrics", [], "further metrics for all benchmarks: of docs/metrics.md, such as roc_auc, or custom as file.py:NAME",
    flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_integer(
    "random_networks", 0,
    f"networks of random weights for each trained network, in benchmarks with this control; 0: {NETWORKS}, or "
    f"{presets.QUICK_NETWORKS} with --quick",
    0, MOST, flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_integer(
    "networks", 0,
    f"trained networks of each benchmark that has as many; 0: {presets.TRAINED}, or 1 with --quick or --model", 0,
    presets.MOST_TRAINED, flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_integer(
    "jobs", 0, "evaluations at a time, one on each core; 0: as many as cores and memory allow; the output is the same",
    0, flag_values=FLAGS,
)  # fmt: skip


def command() -> None:
    """Run as a program."""
    cli.run(main, FLAGS, __doc__)


def titles(definitions: Sequence[Benchmark], added: Sequence[str] = ()) -> dict[str, str]:
    """Return the printed name of every method and control; ``added`` are names of methods that the user added."""
    return {
        **_custom_titles([name for name in added if ":" in name]),
        **{name: method.title for name in added if (method := known_method(name))},
        **{name: title for definition in definitions for name, title in definition.method_titles.items()},
        **{name: method.title for name, method in attribution.METHODS.items()},
        **{
            control.name: control.title
            for definition in definitions
            for control in (*definition.controls, *networks(definition.controls, MOST))
        },
    }


def _custom_titles(names: Sequence[str]) -> dict[str, str]:
    """Return the function's name of each custom method, with its file where functions have the same name."""
    functions = [name.rpartition(":")[2] for name in names]
    files = [shown_path(name) for name in names]
    return {
        name: function
        if functions.count(function) == 1
        else f"{function} ({(file if files.count(file) == 1 else name).rpartition(':')[0]})"
        for name, function, file in zip(names, functions, files, strict=True)
    }


def families(definitions: Sequence[Benchmark], custom: Mapping[str, attribution.Method]) -> dict[str, str]:
    """Return the family of every method that has one: registered, of a benchmark, or custom."""
    methods = {**attribution.METHODS, **custom}
    return {
        **{name: method.family for name, method in methods.items() if method.family},
        **{name: family for definition in definitions for name, family in definition.method_families.items()},
    }


def main(flag_values: flags.FlagValues) -> None:
    """Check all input, evaluate the tasks, and write the report after each table."""
    request = _checked(flag_values)
    full = _tasks(request, flag_values, flag_values.quick)
    with only_run(request.directory):
        tasks = Tasks(
            request.directory, full if flag_values.quick else _tasks(request, flag_values, True), full,
            list(request.methods), request.model,
        )  # fmt: skip
        tasks.run(flag_values.jobs, lambda *news: _publish(tasks, request, flag_values, *news))
        print_text(_publish(tasks, request, flag_values) + "\n")
    print_line(f"open {request.directory / 'index.html'}", file=sys.stderr, flush=True)
    failed = [result for result in tasks.results if result.failed]
    if failed:
        raise BadInput(f"{listed(result.task.title for result in failed)} could not be computed: {failed[0].failed}")
    if request.model and not tasks.fits:
        raise BadInput(f"{_fits_none(request)} {' '.join(tasks.notes)}")


@dataclasses.dataclass(frozen=True)
class _Request:
    """Checked input.

    Attributes
    ----------
    directory
        Output directory.
    benchmarks
        Name or ``file.py:NAME`` -> definition.
    methods, metrics
        Those that the user added, by name as given.
    model
        Directory of the user's SavedModel; empty for none.
    """

    directory: pathlib.Path
    benchmarks: Mapping[str, Benchmark]
    methods: Mapping[str, attribution.Method]
    metrics: Mapping[str, Metric]
    model: str

    @property
    def custom(self) -> list[str]:
        """Return the names of the custom methods."""
        return [name for name in self.methods if ":" in name]


def _checked(flag_values: flags.FlagValues) -> _Request:
    """Return the input that the flags describe.

    Raises
    ------
    BadInput
        If anything in it is missing or invalid.
    """
    if not flag_values.benchmarks:
        raise BadInput(f"--benchmarks is empty; choose of {listed(BENCHMARKS)}, or name your own as file.py:NAME")
    benchmarks = {place: benchmark_named(place) for place in dict.fromkeys(flag_values.benchmarks)}
    names = [definition.name for definition in benchmarks.values()]
    if len(set(names)) < len(names):
        raise BadInput(f"--benchmarks has two benchmarks of one name, {listed(names)}; rename yours")
    methods = {name: attribution.resolve_method(name) for name in dict.fromkeys(flag_values.methods)}
    metrics = registry.select_metrics(flag_values.metrics, {}) if flag_values.metrics else {}
    if flag_values.model:
        find_saved_model(flag_values.model)
    if not flag_values.output_dir:
        raise BadInput("--output_dir is empty; name a directory")
    directory = pathlib.Path(flag_values.output_dir)
    check_directory("output_dir", directory)
    return _Request(directory, benchmarks, methods, metrics, flag_values.model)


def _tasks(request: _Request, flag_values: flags.FlagValues, quick: bool) -> list[ReportTask]:
    """Return the tasks of a quick or a full report; further networks are left to the last tables."""
    trained = flag_values.networks or (1 if quick or request.model else presets.TRAINED)
    trained = 1 if quick and not flag_values.quick else trained
    return [
        task
        for place, definition in request.benchmarks.items()
        for task in presets.tasks_of(
            definition,
            place,
            quick,
            flag_values.seed,
            flag_values.metrics,
            flag_values.random_networks,
            trained,
            flag_values.exhaustive,
        )
    ]


def _publish(
    tasks: Tasks, request: _Request, flag_values: flags.FlagValues, to_come: str = "", goes_on: bool = False
) -> str:
    """Write matrix, manifest and page; return their text.

    ``to_come`` says what is still to come; the page shows it, and only benchmarks that have a table. It reloads itself
    while the run goes on.
    """
    results = tasks.results
    if to_come and not any(result.scores for result in results):
        return ""  # the matrix would be empty
    scored = {result.task.benchmark for result in results}
    definitions = [one for one in request.benchmarks.values() if one.name in scored]
    metrics = list(request.metrics.values())
    reasons = {(method, one.name): reason for one in definitions for method, reason in one.report.reasons.items()}
    given = [
        flag_values[name].serialize()
        for name in flag_values
        if flag_values[name].present and name not in ("output_dir", "jobs")
    ]
    data = ReportData(
        results=results,
        definitions=definitions,
        columns=[column for one in definitions for column in presets.columns_of(one, metrics)],
        titles=titles(definitions, list(request.methods)),
        command=_line(given),
        full_command=_line(flag for flag in given if flag != "--quick") if flag_values.quick else "",
        lead=_lead(request, flag_values, tasks, to_come),
        reasons=reasons | tasks.reasons,
        custom=request.custom,
        notes=tasks.notes,
        seed=flag_values.seed,
        families=families(definitions, request.methods),
        to_come=to_come,
        goes_on=goes_on,
    )
    return publish.publish(request.directory, data)


def _line(given: Iterable[str]) -> str:
    """Return the command of a report with some flags."""
    return " ".join(["python scripts/reproduce_tables.py", *map(shlex.quote, given)])


def _lead(request: _Request, flag_values: flags.FlagValues, tasks: Tasks, to_come: str) -> str:
    """Return the sentences below the report's heading."""
    sentences = ["Attribution maps compared with known ground truth."]
    if flag_values.quick:
        sentences.append("A quick run, with fewer networks, inputs, samples and masks than a full run.")
    thrifty = [] if flag_values.exhaustive else [one for one in request.benchmarks.values() if one.map_error]
    if thrifty:
        error = 100 * max(one.map_error for one in thrifty)
        sentences.append(
            f"In {enumeration(one.title for one in thrifty)} each map of Integrated Gradients has as many points as an "
            f"estimated error of {error:.0f} % needs; --exhaustive takes all."
        )
    if custom := request.custom:
        functions = ", ".join(name.rpartition(":")[2] for name in custom)
        number = "a method" if len(custom) == 1 else f"{len(custom)} methods"
        sentences.append(f"With {number} of your own: {functions}.")
    if request.model and tasks.fits:
        sentences.append(f"With your own network {shown_path(request.model)}.")
    elif request.model and not to_come:
        sentences.append(_fits_none(request))
    return " ".join(sentences)


def _fits_none(request: _Request) -> str:
    return f"{shown_path(request.model)} fits none of these benchmarks, so that their own networks were scored."


if __name__ == "__main__":
    command()
