"""Compute every table of the benchmarks, one matrix of all, and a report to read them in.

    attribution-benchmarks --output_dir=report
    attribution-benchmarks --output_dir=report --quick
    attribution-benchmarks --output_dir=report --methods=my_method.py:my_function
    attribution-benchmarks --output_dir=report --benchmarks=my_file.py:MINE
    attribution-benchmarks --output_dir=report --compare=other_report

Everything comes from the SavedModels and data of the project; what data are not shipped are made. A run that
was stopped, by whatever, goes on where it stood and ends with the same bytes. Open report/index.html; the tables are
in report/tables.

Methods of your own are scored beside all others in every benchmark they fit, metrics of your own in every benchmark.
--model=DIRECTORY puts a SavedModel of your own in place of the network of every benchmark whose inputs it takes; where
a benchmark has several networks, its page says which.

Cost: 38 CPU minutes on one machine and 63 on another; with --quick 3 to 4. Commands run side by side, one a core
(--jobs).
"""

from __future__ import annotations

import contextlib
import pathlib
import resource
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence

from absl import flags

import attribution
from attribution import cli
from attribution.errors import BadInput, listed, print_line, print_text
from attribution_benchmarks.core import input_scores
from attribution_benchmarks.core.definition import Benchmark, ReportTask
from attribution_benchmarks.core.fingerprint import code_fingerprint, method_fingerprint
from attribution_benchmarks.core.random_weights import MOST, NETWORKS, networks
from attribution_benchmarks.core.registry import BENCHMARKS, REPORTED, benchmark_named
from attribution_benchmarks.core.report_examples import FILE
from attribution_benchmarks.metrics import registry
from attribution_benchmarks.report import presets, publish, scheduler
from attribution_benchmarks.report.matrix_table import counted
from attribution_benchmarks.report.page import Result
from attribution_benchmarks.report.progress import Progress
from attribution_benchmarks.report.report_diff import Other
from attribution_benchmarks.report.sections import shown_path
from attribution_benchmarks.report.task_runner import Refused, Runner, only_run

FLAGS = flags.FlagValues()
cli.define_common_flags(FLAGS, methods=[], model="", seed=0, cache_dir="")
FLAGS[
    "methods"
].help = "methods to score besides the benchmarks' own: names of the registry, module:function or file.py:function"
FLAGS["model"].help = "SavedModel of your own, scored in the benchmarks whose inputs it takes"
flags.DEFINE_string("output_dir", "report", "directory of the report; made if missing", flag_values=FLAGS)
flags.DEFINE_bool("quick", False, "fewer inputs, samples and masks: a look in 3 to 4 CPU minutes", flag_values=FLAGS)
flags.DEFINE_list(
    "benchmarks", list(REPORTED), f"of {', '.join(BENCHMARKS)}, and your own as file.py:NAME", flag_values=FLAGS
)
flags.DEFINE_list(
    "metrics",
    [],
    "further metrics for all benchmarks: of docs/metrics.md, such as roc_auc, or file.py:NAME of your own",
    flag_values=FLAGS,
)
flags.DEFINE_integer(
    "random_networks", 0,
    f"networks of random weights that methods are held against, where a benchmark has this control; {NETWORKS}, or "
    f"{presets.QUICK_NETWORKS} with --quick, when 0", 0, MOST, flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_integer(
    "jobs", 0, "commands at a time, each on one core; as many as cores and memory allow when 0; same bytes", 0,
    flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_string("compare", "", "another report, to say what changed since: its --output_dir", flag_values=FLAGS)


def command() -> None:
    """Run as a program."""
    cli.run(main, FLAGS, __doc__)


def titles(definitions: Iterable[Benchmark], own: Sequence[str] = ()) -> dict[str, str]:
    """Return the name to print of every method and control; of one's own the function's, where no other has it."""
    definitions = list(definitions)
    functions = [name.rpartition(":")[2] for name in own]
    files = [shown_path(name) for name in own]
    return {
        **{
            name: function
            if functions.count(function) == 1
            else f"{function} ({(file if files.count(file) == 1 else name).rpartition(':')[0]})"
            for name, function, file in zip(own, functions, files, strict=True)
        },
        **{name: title for definition in definitions for name, title in definition.method_titles.items()},
        **{name: method.title for name, method in attribution.METHODS.items()},
        **{
            control.name: control.title
            for definition in definitions
            for control in (*definition.controls, *networks(definition.controls, MOST))
        },
    }


def families(definitions: Iterable[Benchmark], own: Mapping[str, attribution.Method]) -> dict[str, str]:
    """Return the family of every method that has one: of the registry, of the benchmarks, of the user's own."""
    methods = {**attribution.METHODS, **own}
    return {
        **{name: method.family for name, method in methods.items() if method.family},
        **{name: family for definition in definitions for name, family in definition.method_families.items()},
    }


def main(flag_values: flags.FlagValues) -> None:
    """Check everything the user gave, run what is not there yet, and write the report."""
    if not flag_values.benchmarks:
        raise BadInput(f"--benchmarks is empty; choose of {listed(BENCHMARKS)}, or name your own as file.py:NAME")
    definitions = {place: benchmark_named(place) for place in dict.fromkeys(flag_values.benchmarks)}
    names = [definition.name for definition in definitions.values()]
    if len(set(names)) < len(names):
        raise BadInput(f"--benchmarks has two benchmarks of one name, {listed(names)}; give yours another")
    added = list(dict.fromkeys(flag_values.methods))
    methods = {name: attribution.resolve_method(name) for name in added}
    own = [name for name in added if ":" in name]
    metrics = registry.select_metrics(flag_values.metrics, {}) if flag_values.metrics else {}
    depends = {
        **{name: method_fingerprint(methods[name]) for name in own},
        **{name: code_fingerprint(metric.measure.function) for name, metric in metrics.items()},
        **{
            place: code_fingerprint(definition.examples, *(one.measure.function for one in definition.metrics),
                                    files=[pathlib.Path(definition.network)])
            for place, definition in definitions.items() if definition.examples
        },
    }  # fmt: skip
    if flag_values.model:
        if not pathlib.Path(flag_values.model).is_dir():
            raise BadInput(f"--model={flag_values.model}: there is no such directory; name a SavedModel")
        depends[flag_values.model] = code_fingerprint(files=[pathlib.Path(flag_values.model)])
    other = Other(pathlib.Path(flag_values.compare)) if flag_values.compare else None
    directory = pathlib.Path(flag_values.output_dir)
    if directory.exists() and not directory.is_dir():
        raise BadInput(f"--output_dir={directory} is a file; name a directory")
    chosen = [
        task
        for place, definition in definitions.items()
        for task in presets.tasks_of(
            definition, place, flag_values.quick, flag_values.seed, flag_values.metrics, flag_values.random_networks
        )
    ]
    reasons = {
        (method, definition.name): reason
        for definition in definitions.values()
        for method, reason in definition.reasons.items()
    }
    jobs = flag_values.jobs or scheduler.usable(len(chosen))
    progress = Progress(len(chosen), jobs)
    with only_run(directory) as lock:
        runner, results = Runner(directory, lock, depends, progress.hear), []
        notes: dict[str, None] = {}
        unfit: dict[tuple[str, str], list[str]] = {}  # several tasks may refuse a model for one reason

        def work(numbered: tuple[int, ReportTask]) -> Ran:
            number, task = numbered
            progress.begin(number, task.name, task.title)
            ran = run(runner, task, added, flag_values.model)
            progress.end(number, task.name, task.title, ran.how)
            return ran

        with contextlib.closing(runner.commands):
            for ran in scheduler.in_order(
                work, list(enumerate(chosen, start=1)), [task.cost for task in chosen], jobs, runner.commands.close
            ):
                result = ran.result
                results.append(result)
                reasons.update(ran.reasons)
                notes.update(dict.fromkeys(ran.notes))
                if ran.model_refused:
                    unfit.setdefault(ran.model_refused, []).append(result.title)
                print_text(f"{result.title}\n{result.note}\n\n{result.printed or result.failed}\n\n", flush=True)
        said_of_model = [f"{begins} {' and '.join(where)}, {ends}" for (begins, ends), where in unfit.items()]
        scores = {
            name: [
                group
                for task, result in zip(chosen, results, strict=True)
                if task.benchmark == name and task.input_scores and result.document
                for group in input_scores.load(runner.values_file(task))
            ]
            for name in names
        }
        settings = {
            "command": " ".join(["python scripts/reproduce_tables.py", *map(shlex.quote, _given(flag_values))]),
            "lead": lead(flag_values.quick, own, flag_values.model, len(definitions)),
            "footer": "Made by scripts/reproduce_tables.py; every figure on this page was computed by it.",
        }
        print_text(
            publish.publish(
                directory, results, scores, list(definitions.values()),
                [column for one in definitions.values() for column in presets.columns_of(one, list(metrics.values()))],
                titles(definitions.values(), own), settings, reasons, own, [*said_of_model, *notes], flag_values.seed,
                other, families(definitions.values(), methods),
            ) + "\n"
        )  # fmt: skip
    used = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    say(f"{sum(part.ru_utime + part.ru_stime for part in used):.0f} CPU seconds")
    say(f"open {directory / 'index.html'}")
    failed = [result for result in results if result.failed]
    if failed:
        raise BadInput(f"{listed(result.title for result in failed)} could not be computed: {failed[0].failed}")


class Ran:
    """What came of a task.

    Attributes
    ----------
    result
        For the page.
    notes
        What did not fit, in sentences.
    reasons
        (method, benchmark) -> why a method has no scores there.
    model_refused
        How a note begins and ends that says why the user's own model is not scored; its task's title goes between.
    how
        In a word for who waits: "done", "is there already" or "failed".
    """

    def __init__(self) -> None:
        self.result: Result
        self.notes: list[str] = []
        self.reasons: dict[tuple[str, str], str] = {}
        self.model_refused: tuple[str, str] | None = None
        self.how = "done"


def run(runner: Runner, task: ReportTask, added: Sequence[str], model: str) -> Ran:
    """Run a task with what the user added to it, as far as the benchmark takes it."""
    ran = Ran()
    new = [name for name in added if name not in task.methods] if task.methods else []
    fitting = [name for name in new if not runner.known_refusal(task, [name])]
    if fitting and not model:
        # All at once: a process of each one's own would load and check everything once more. Which of them does not fit
        # is asked only where that fails.
        with contextlib.suppress(Refused):
            _finish(ran, runner, task, task.with_methods([*task.methods, *fitting]))
            _note(ran, runner, task, [name for name in new if name not in fitting])
            return ran
    accepted = _note(ran, runner, task, new)
    wanted = task.with_methods([*task.methods, *accepted])
    if model and task.model_flag:
        try:
            _finish(ran, runner, task, wanted.with_model(model), f" The network is your own, {shown_path(model)}.")
            return ran
        except Refused as error:
            why = "crashed under" if error.crashed else "does not fit"
            ran.model_refused = f"{shown_path(model)} {why}", f"whose own network is scored instead: {error}"
    try:
        _finish(ran, runner, task, wanted)
    except Refused as error:
        ran.how = "failed"
        ran.result = Result(task.name, task.benchmark, task.title, task.note, None, failed=str(error))
    return ran


def _note(ran: Ran, runner: Runner, task: ReportTask, names: Sequence[str]) -> list[str]:
    """Try methods one by one, note why some do not fit, and return those that do."""
    accepted = []
    for name in names:
        refused = runner.attempt(task, [name])
        if refused is None:
            accepted.append(name)
        else:
            ran.reasons[name, task.benchmark] = refused
            ran.notes.append(f"{shown_path(name)} under {task.title} {refused}")
    return accepted


def _finish(ran: Ran, runner: Runner, task: ReportTask, wanted: ReportTask, note: str = "") -> None:
    """Give a task's table and take up what the page needs of it."""
    if not runner.run(wanted):
        ran.how = "is there already"
    pictures = runner.directory / "pictures" / task.name
    shown = pictures / FILE
    ran.result = Result(
        task.name,
        task.benchmark,
        task.title,
        task.note + note,
        runner.document(task),
        (runner.directory / "tables" / f"{task.name}.txt").read_text(encoding="utf-8"),
        sorted(pictures.glob("*.png")) if task.pictures else (),
        shown=shown if task.pictures and shown.exists() else None,
    )


def lead(quick: bool, own: Sequence[str], model: str, benchmarks: int) -> str:
    """Return the sentence below the report's heading."""
    text = f"Attribution maps compared with known ground truth, on {counted(benchmarks, 'benchmark')}."
    if quick:
        text += " A quick run, with few inputs: its intervals are wide."
    if own:
        functions = ", ".join(name.rpartition(":")[2] for name in own)
        text += f" With {'a method' if len(own) == 1 else f'{len(own)} methods'} of your own: {functions}."
    return text + (f" With your own network {shown_path(model)}." if model else "")


def _given(flag_values) -> list[str]:
    """Return the flags that were given and say what to compute."""
    without = ("output_dir", "compare", "jobs")
    return [flag_values[name].serialize() for name in flag_values if flag_values[name].present and name not in without]


def say(text: str) -> None:
    """Tell the user where the run stands."""
    print_line(text, file=sys.stderr, flush=True)
