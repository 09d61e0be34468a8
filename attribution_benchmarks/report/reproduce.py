"""Compute every table of the benchmarks, one matrix of all, and a report to read them in.

    attribution-benchmarks report --output_dir=report
    attribution-benchmarks report --output_dir=report --quick
    attribution-benchmarks report --output_dir=report --methods=my_method.py:my_function
    attribution-benchmarks report --output_dir=report --benchmarks=my_file.py:MINE

Everything is computed from the SavedModels and data of the project; missing data are generated. The run goes in rounds
of more and more inputs and writes the page after each table. A stopped run leaves a complete page, resumes, and ends
with the same bytes. Open report/index.html; the tables are in report/tables.

Custom methods are scored next to all others in every benchmark they fit, custom metrics in every benchmark.
--model=DIRECTORY replaces the network of every benchmark that accepts its inputs; the page of a benchmark with several
networks says which one is replaced.

In benchmarks with a map error Integrated Gradients takes as many points as this estimated error of its maps needs, with
--exhaustive all.

Cost: 33 CPU minutes, 4 with --quick; 41 with --exhaustive without parts and sequences. Evaluations run in parallel, one
on each core (--jobs).
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import resource
import secrets
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from absl import flags

import attribution
from attribution import cli
from attribution.errors import BadInput, listed, print_line, print_text
from attribution.files import check_directory
from attribution.methods.registry import known_method
from attribution.savedmodel.paths import find_saved_model
from attribution_benchmarks.core import input_scores
from attribution_benchmarks.core.definition import Benchmark, ReportTask
from attribution_benchmarks.core.fingerprint import Unidentified, code_fingerprint
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.places import BENCHMARKS
from attribution_benchmarks.core.random_weights import MOST, NETWORKS, networks
from attribution_benchmarks.core.registry import REPORTED, benchmark_named
from attribution_benchmarks.metrics import registry
from attribution_benchmarks.report import presets, publish
from attribution_benchmarks.report.formatting import enumeration, shown_path
from attribution_benchmarks.report.results import ReportData
from attribution_benchmarks.report.rounds import Outcome, Rounds
from attribution_benchmarks.report.task_runner import TaskRunner, only_run

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
    """Check all input, evaluate what is missing or outdated, and write the report after each table."""
    request = _checked(flag_values)
    shares = presets.ROUNDS[-1:] if flag_values.quick else presets.ROUNDS
    with only_run(request.directory) as lock:
        runner = TaskRunner(request.directory, lock, request.fingerprints)
        rounds = Rounds(
            runner,
            [_tasks(request, flag_values, share, flag_values.quick) for share in shares],
            list(request.methods),
            request.model,
        )
        with contextlib.closing(runner.processes):
            rounds.run(flag_values.jobs, lambda *news: _publish(runner, rounds.outcomes, request, flag_values, *news))
        print_text(_publish(runner, rounds.outcomes, request, flag_values) + "\n")
    used = resource.getrusage(resource.RUSAGE_SELF)
    _say(f"{used.ru_utime + used.ru_stime + runner.processes.cpu_seconds:.0f} CPU seconds")
    _say(f"open {request.directory / 'index.html'}")
    failed = [outcome.result for outcome in rounds.outcomes if outcome.result.failed]
    if failed:
        raise BadInput(f"{listed(result.title for result in failed)} could not be computed: {failed[0].failed}")
    if request.model and not _fits(rounds.outcomes):
        raise BadInput(f"{_fits_none(request)} {' '.join(_notes(rounds.outcomes))}")


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
    fingerprints
        Of everything custom, by name as given.
    """

    directory: pathlib.Path
    benchmarks: Mapping[str, Benchmark]
    methods: Mapping[str, attribution.Method]
    metrics: Mapping[str, Metric]
    model: str
    fingerprints: Mapping[str, str]

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
    benchmarks = _checked_benchmarks(flag_values.benchmarks)
    methods = {name: attribution.resolve_method(name) for name in dict.fromkeys(flag_values.methods)}
    metrics = registry.select_metrics(flag_values.metrics, {}) if flag_values.metrics else {}
    model, directory = flag_values.model, pathlib.Path(flag_values.output_dir)
    if model:
        find_saved_model(model)
    if not flag_values.output_dir:
        raise BadInput("--output_dir is empty; name a directory")
    check_directory("output_dir", directory)
    fingerprints = _fingerprints(benchmarks, methods, metrics, model)
    return _Request(directory, benchmarks, methods, metrics, model, fingerprints)


def _checked_benchmarks(places: Sequence[str]) -> dict[str, Benchmark]:
    if not places:
        raise BadInput(f"--benchmarks is empty; choose of {listed(BENCHMARKS)}, or name your own as file.py:NAME")
    benchmarks = {place: benchmark_named(place) for place in dict.fromkeys(places)}
    names = [definition.name for definition in benchmarks.values()]
    if len(set(names)) < len(names):
        raise BadInput(f"--benchmarks has two benchmarks of one name, {listed(names)}; rename yours")
    return benchmarks


def _fingerprints(benchmarks, methods, metrics, model: str) -> dict[str, str]:
    """Return the fingerprints of everything custom."""
    found = {name: _fingerprint(method) for name, method in methods.items() if ":" in name}
    found |= {name: _fingerprint(metric) for name, metric in metrics.items()}
    for place, definition in benchmarks.items():
        if definition.examples or ":" in place:
            files = [pathlib.Path(definition.network)] if definition.network else []
            found[place] = _fingerprint(definition, *files)
    if model:
        found[model] = code_fingerprint(files=[pathlib.Path(model)])
    return found


def _fingerprint(value: Any, *files: pathlib.Path) -> str:
    """Return the fingerprint of custom code; where there is none, a text that no other report has."""
    try:
        return code_fingerprint(value, files=files)
    except (Unidentified, OSError):
        return secrets.token_hex(16)


def _tasks(request: _Request, flag_values: flags.FlagValues, share: float, quick: bool) -> list[ReportTask]:
    """Return the tasks of a round."""
    one_network = quick or request.model
    networks = flag_values.networks or (1 if one_network else presets.TRAINED)
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
            share,
            networks,
            flag_values.exhaustive,
        )
    ]


def _publish(
    runner: TaskRunner,
    outcomes: Sequence[Outcome],
    request: _Request,
    flag_values: flags.FlagValues,
    to_come: str = "",
    goes_on: bool = False,
) -> str:
    """Write matrix, agreement, manifest and page; return their text.

    ``to_come`` says what is still to come; the page shows it, and only benchmarks that have a table. It reloads itself
    while the run goes on.
    """
    scores, replicates = _input_scores(runner, outcomes)
    if to_come and not any(scores.values()):
        return ""  # the matrix would be empty
    definitions = [one for one in request.benchmarks.values() if one.name in scores]
    metrics = list(request.metrics.values())
    data = ReportData(
        results=[outcome.result for outcome in outcomes if not outcome.task.network],
        scores=scores,
        definitions=definitions,
        columns=[column for one in definitions for column in presets.columns_of(one, metrics)],
        titles=titles(definitions, list(request.methods)),
        settings=_settings(flag_values, request, outcomes),
        reasons=_reasons(definitions, outcomes),
        custom=request.custom,
        notes=_notes(outcomes),
        seed=flag_values.seed,
        families=families(definitions, request.methods),
        parents={name: method.parents for name, method in request.methods.items()},
        replicates=replicates,
        to_come=to_come,
        goes_on=goes_on,
    )
    return publish.publish(request.directory, data)


def _settings(flag_values: flags.FlagValues, request: _Request, outcomes: Sequence[Outcome]) -> dict[str, str]:
    """Return the texts of the page about the run: the command, that of the full report, lead and footer."""
    given = _given(flag_values)
    full = [flag for flag in given if flag != "--quick"]
    fewer = presets.fewer(*(_tasks(request, flag_values, 1.0, quick) for quick in (flag_values.quick, False)))
    return {
        "command": _line(given),
        "next": _line(full) if fewer else "",
        "more": enumeration(fewer),
        "lead": _lead(flag_values, request, outcomes, fewer),
        "footer": "Made by scripts/reproduce_tables.py; every figure on this page was computed by it.",
    }


def _input_scores(runner: TaskRunner, outcomes: Sequence[Outcome]) -> tuple[dict[str, list], dict[str, list[list]]]:
    """Return benchmark -> scores of its inputs, on its own network and on each further one."""
    scores: dict[str, list] = {outcome.task.benchmark: [] for outcome in outcomes}
    further: dict[str, dict[int, list]] = {name: {} for name in scores}
    for outcome in outcomes:
        task = outcome.task
        if task.input_scores and outcome.result.document:
            found = input_scores.load(runner.values_file(task))
            (further[task.benchmark].setdefault(task.network, []) if task.network else scores[task.benchmark]).extend(
                found
            )
    return scores, {name: list(each.values()) for name, each in further.items()}


def _reasons(definitions: Sequence[Benchmark], outcomes: Sequence[Outcome]) -> dict[tuple[str, str], str]:
    """Return (method, benchmark) -> why it has no scores there."""
    reasons = {(method, one.name): reason for one in definitions for method, reason in one.report.reasons.items()}
    for outcome in outcomes:
        reasons.update(outcome.reasons)
    return reasons


def _notes(outcomes: Sequence[Outcome]) -> list[str]:
    """Return a sentence for each model and method that does not fit."""
    unfit: dict[tuple[str, str], list[str]] = {}  # several tasks may refuse a model for one reason
    for outcome in outcomes:
        if outcome.model_refused:
            unfit.setdefault(outcome.model_refused, []).append(outcome.result.title)
    of_methods = dict.fromkeys(note for outcome in outcomes for note in outcome.notes)
    return [*(f"{start} {' and '.join(where)}, {end}" for (start, end), where in unfit.items()), *of_methods]


def _lead(
    flag_values: flags.FlagValues,
    request: _Request,
    outcomes: Sequence[Outcome],
    fewer: Mapping[str, Sequence[str]],
) -> str:
    """Return the sentences below the report's heading; ``fewer`` as of ``presets.fewer``."""
    sentences = ["Attribution maps compared with known ground truth."]
    if fewer:
        sentences.append(f"A quick run, with fewer {enumeration(fewer)} than a full run.")
    if few_inputs := fewer.get("inputs"):
        names = {definition.name: definition.title for definition in request.benchmarks.values()}
        sentences.append(f"Few inputs make wide intervals on {enumeration(names[name] for name in few_inputs)}.")
    if not flag_values.exhaustive:
        sentences += _thrifty(request.benchmarks.values())
    return " ".join([*sentences, *_own(request, outcomes)])


def _thrifty(definitions: Iterable[Benchmark]) -> list[str]:
    """Return a sentence on the points of Integrated Gradients, if some benchmarks take fewer."""
    thrifty = [one for one in definitions if one.map_error]
    if not thrifty:
        return []
    error = 100 * max(one.map_error for one in thrifty)
    return [
        f"In {enumeration(one.title for one in thrifty)} each map of Integrated Gradients has as many points as an "
        f"estimated error of {error:.0f} % needs; --exhaustive takes all."
    ]


def _own(request: _Request, outcomes: Sequence[Outcome]) -> list[str]:
    """Return a sentence on the user's methods and one on the user's network, if there are any."""
    sentences = []
    if custom := request.custom:
        functions = ", ".join(name.rpartition(":")[2] for name in custom)
        number = "a method" if len(custom) == 1 else f"{len(custom)} methods"
        sentences.append(f"With {number} of your own: {functions}.")
    if request.model:
        fits = f"With your own network {shown_path(request.model)}."
        sentences.append(fits if _fits(outcomes) else _fits_none(request))
    return sentences


def _fits(outcomes: Sequence[Outcome]) -> bool:
    """Return whether the user's model was scored in any task."""
    return any(outcome.task.own_model and not outcome.model_refused for outcome in outcomes)


def _fits_none(request: _Request) -> str:
    return f"{shown_path(request.model)} fits none of these benchmarks, so that their own networks were scored."


def _given(flag_values: flags.FlagValues) -> list[str]:
    """Return the given flags that change what is computed."""
    without = ("output_dir", "jobs")
    return [flag_values[name].serialize() for name in flag_values if flag_values[name].present and name not in without]


def _line(given: Sequence[str]) -> str:
    """Return the command of a report with some flags."""
    return " ".join(["python scripts/reproduce_tables.py", *map(shlex.quote, given)])


def _say(text: str) -> None:
    print_line(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    command()
