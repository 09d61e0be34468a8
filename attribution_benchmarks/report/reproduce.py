"""Write every table of the benchmarks, one matrix of all, and a report to read them in.

    attribution-benchmarks report --output_dir=report
    attribution-benchmarks report --output_dir=report --methods=my_method.py:my_function
    attribution-benchmarks report --output_dir=report --recompute
    attribution-benchmarks report --output_dir=report --quick
    attribution-benchmarks report --output_dir=report --benchmarks=my_file.py:MINE

The scores are the published ones of each benchmark that has them, and there only custom methods are computed.
--recompute computes everything from the SavedModels and data of the project; so do all flags that change inputs,
networks or metrics. Missing data are generated. A stopped run resumes from its stored scores. Open report/index.html;
the tables are in report/tables.

Custom methods are scored next to all others in every benchmark they fit, custom metrics in every benchmark.
--model=DIRECTORY replaces the network of every benchmark that accepts its inputs.

Cost: seconds; three CPU minutes for a method of one gradient; an hour with --recompute, 4 CPU minutes with --quick.
Evaluations run in parallel, one on each core (--jobs).
"""

from __future__ import annotations

import dataclasses
import pathlib
import shlex
import sys
from collections.abc import Mapping, Sequence

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
from attribution_benchmarks.core.random_weights import MOST, networks
from attribution_benchmarks.core.registry import REPORTED, benchmark_named
from attribution_benchmarks.core.scores import Scores
from attribution_benchmarks.metrics import registry
from attribution_benchmarks.report import placement, presets, publish, published
from attribution_benchmarks.report.formatting import shown_path
from attribution_benchmarks.report.results import ReportData, Result
from attribution_benchmarks.report.tasks import Answer, only_run, run

FLAGS = flags.FlagValues()
cli.define_common_flags(FLAGS, methods=[], model="", seed=0, cache_dir="")
FLAGS[
    "methods"
].help = "methods to score besides those of the benchmarks: registered names, module:function or file.py:function"
FLAGS["model"].help = "SavedModel, or .keras or .h5 file, to score in the benchmarks that accept its inputs"
flags.DEFINE_string("output_dir", "report", "directory of the report; created if missing", flag_values=FLAGS)
flags.DEFINE_bool("quick", False, "fewer networks, inputs, samples and masks: about 4 CPU minutes", flag_values=FLAGS)
flags.DEFINE_bool("recompute", False, "compute the published scores again", flag_values=FLAGS)
flags.DEFINE_list(
    "benchmarks", list(REPORTED), f"of {', '.join(BENCHMARKS)}, and custom ones as file.py:NAME", flag_values=FLAGS
)
flags.DEFINE_list(
    "metrics", [], "further metrics for all benchmarks: of docs/metrics.md, such as roc_auc, or custom as file.py:NAME",
    flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_integer(
    "networks", 0,
    "trained networks of each benchmark that has as many; 0: all, or 1 with --quick or --model", 0,
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
    """Check all input, read or evaluate the tasks, and write the report."""
    request = _checked(flag_values)
    changed = ("quick", "recompute", "model", "metrics", "seed", "networks")
    stored = [] if any(flag_values[name].value for name in changed) else published.sets(request.benchmarks)
    known = {one.task: one for one in stored}
    complete = {one.definition.name for one in stored}
    tasks = [one for one in _tasks(request, flag_values) if one.series in known or one.benchmark not in complete]
    with only_run(request.directory):
        found = Found(request, known)
        for task, answer in run(
            list(filter(None, map(found.to_compute, tasks))), list(request.methods), request.model, request.directory,
            flag_values.jobs,
        ):  # fmt: skip
            found.take(task, answer)
        results = [found.result(task) for task in tasks if not task.network]
        for result in results:
            for suffix in ("txt", "json", "csv", "md") if not result.failed else ():
                result.scores.save(request.directory / "tables" / f"{result.task.name}.{suffix}")
            print_text(f"{result.task.title}\n{result.task.note}\n\n{result.scores.text or result.failed}\n\n")
        print_text(_publish(results, found, request, flag_values) + "\n")
    print_line(f"open {request.directory / 'index.html'}", file=sys.stderr, flush=True)
    failed = [result for result in results if result.failed]
    if failed:
        raise BadInput(f"{listed(result.task.title for result in failed)} could not be computed: {failed[0].failed}")
    if request.model and not found.fits:
        raise BadInput(f"{_fits_none(request)} {' '.join(found.notes)}")


class Found:
    """What the tasks of a run gave.

    Attributes
    ----------
    reasons
        (method, benchmark) -> why a method has no scores there.
    notes
        What does not fit, in sentences.
    fits
        Whether the user's model was scored in any task.
    """

    def __init__(self, request: _Request, known: Mapping[str, published.PublishedSet]):
        self._request, self._known = request, known
        self._answers: dict[str, Answer] = {}
        self.reasons: dict[tuple[str, str], str] = {}
        self.notes: list[str] = []
        self.fits = False

    def to_compute(self, task: ReportTask) -> ReportTask | None:
        """Return a task with the methods to compute besides custom ones; None if all its scores are published."""
        if task.series not in self._known:
            return task
        sources = self._known[task.series].scores.sources
        alone = dataclasses.replace(task, methods=())
        return alone if {*self._request.methods} - {source.method for source in sources} else None

    def take(self, task: ReportTask, answer: Answer) -> None:
        """Keep an answer, and note what does not fit."""
        if answer.failed and task.series in self._known:
            answer = Answer(methods=dict.fromkeys(self._request.methods, f"failed: {answer.failed}"))
        self._answers[task.name] = answer
        model = shown_path(self._request.model)
        if self._request.model and task.own_model and not answer.model:
            self.fits = self.fits or not answer.failed
        notes = [f"{shown_path(name)} under {task.title} {why}" for name, why in answer.methods.items()]
        if answer.model:
            notes.append(f"{model} does not fit {task.title}, whose own network is scored instead: {answer.model}")
        self.reasons |= {(name, task.benchmark): why for name, why in answer.methods.items()}
        for note in notes if not task.network else ():
            print_line(note, file=sys.stderr, flush=True)
            self.notes.append(note)

    def result(self, task: ReportTask) -> Result:
        """Return the result of a task over all its networks."""
        names = [task.name, *(f"{task.name}_network{number}" for number in range(1, len(task.networks) + 1))]
        answers = {number: self._answers[name] for number, name in enumerate(names) if name in self._answers}
        if task.name in self._known:
            scored = {number: answer.scores for number, answer in answers.items() if answer.scores.groups}
            found = placement.with_methods(self._known[task.name], scored)
            return Result(task, published.with_rows(found, self._known[task.name].tasks[0]))
        failed = [one.failed for one in answers.values() if one.failed]
        if failed:
            return Result(task, failed=failed[0])
        own, *further = (one.scores for one in answers.values())
        if self._request.model and task.own_model and not answers[0].model:
            note = f"{task.note} The network is your own, {shown_path(self._request.model)}."
            task = dataclasses.replace(task, note=note)
        return Result(task, _over_networks(task, [own, *further]) if further else own)


def _over_networks(task: ReportTask, parts: Sequence[Scores]) -> Scores:
    """Return the scores over networks; curves, other rows and a second table are of the benchmark's own network."""
    own = parts[0]
    found = published.with_rows(Scores(groups=published.over_networks(parts), titles=own.titles), task)
    keys = ("method", "metric", "questions", "ground_truth", "pooling", "subset", "of", "removed")
    known = {tuple(map(row.get, keys)) for row in found.rows}
    rows = [row for row in own.rows if tuple(map(row.get, keys)) not in known]
    return dataclasses.replace(
        own, rows=[*found.rows, *rows], groups=found.groups, text=f"{found.text}\n{own.text}",
        markdown=f"{found.markdown}\n{own.markdown}",
    )  # fmt: skip


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


def _tasks(request: _Request, flag_values: flags.FlagValues) -> list[ReportTask]:
    """Return the tasks of a quick or a full report."""
    trained = flag_values.networks or (1 if flag_values.quick or request.model else presets.MOST_TRAINED)
    quick, seed, metrics = (flag_values[name].value for name in ("quick", "seed", "metrics"))
    return [
        task
        for place, definition in request.benchmarks.items()
        for task in presets.tasks_of(definition, place, quick, seed, metrics, trained)
    ]


def _publish(results: Sequence[Result], found: Found, request: _Request, flag_values: flags.FlagValues) -> str:
    """Write matrix, manifest and page; return their text."""
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
        command=" ".join(["python scripts/reproduce_tables.py", *map(shlex.quote, given)]),
        lead=_lead(request, flag_values, found),
        reasons=reasons | found.reasons,
        custom=request.custom,
        notes=found.notes,
        seed=flag_values.seed,
        families=families(definitions, request.methods),
    )
    return publish.publish(request.directory, data)


def _lead(request: _Request, flag_values: flags.FlagValues, found: Found) -> str:
    """Return the sentences below the report's heading."""
    sentences = ["Attribution maps compared with known ground truth."]
    if flag_values.quick:
        sentences.append("A quick run, with fewer networks, inputs, samples and masks than a full run.")
    if custom := request.custom:
        functions = ", ".join(name.rpartition(":")[2] for name in custom)
        number = "a method" if len(custom) == 1 else f"{len(custom)} methods"
        sentences.append(f"With {number} of your own: {functions}.")
    if request.model and found.fits:
        sentences.append(f"With your own network {shown_path(request.model)}.")
    elif request.model:
        sentences.append(_fits_none(request))
    return " ".join(sentences)


def _fits_none(request: _Request) -> str:
    return f"{shown_path(request.model)} fits none of these benchmarks, so that their own networks were scored."


if __name__ == "__main__":
    command()
