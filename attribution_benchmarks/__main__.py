"""Attribution methods for SavedModels, and benchmarks that judge them against known truth.

    attribution-benchmarks COMMAND --flag=value ...
    attribution-benchmarks COMMAND --help

A benchmark is a command, too: attribution-benchmarks sequences, attribution-benchmarks my_file.py:MINE.
"""

from __future__ import annotations

import difflib
import runpy
import sys
from collections.abc import Mapping
from types import MappingProxyType

from attribution.errors import BadInput, listed, print_line, print_text
from attribution_benchmarks import __version__
from attribution_benchmarks.core.places import BENCHMARKS

# Name of a command -> the module that it runs, and what it does.
COMMANDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "explain": ("attribution.explain", "explain the predictions of a SavedModel"),
        "inspect": ("attribution.inspect", "show the inputs, outputs and layers of a SavedModel"),
        "check": ("attribution.check_method", "check that a custom method fulfils its contract"),
        "check-metric": ("attribution_benchmarks.check_metric", "check a custom metric, and print what it cannot see"),
        "export": ("attribution.export", "add explanations to a SavedModel, for TensorFlow Serving"),
        "choose": ("attribution_benchmarks.choosing", "say which method to use for a model and inputs of yours"),
        "report": ("attribution_benchmarks.report.reproduce", "run the benchmarks and write a report"),
        "serve": ("attribution_benchmarks.serving.serve", "serve models with explanations by TensorFlow Serving"),
        "svea": ("svea.benchmark", "score methods on SVEA (MNIST-1D)"),
        "bim": ("bim.metrics", "score methods on BIM (objects on scenes)"),
        "tcav": ("bim.run_tcav", "test concepts of BIM with TCAV"),
        "clevr-xai": ("clevr_xai.evaluate", "score methods on CLEVR-XAI (visual questions)"),
        "export-torch": ("attribution_benchmarks.torch.export", "write networks and inputs for PyTorch alone"),
        "score": ("attribution_benchmarks.score_methods", "score methods, and rank them among the published ones"),
        "submit": ("attribution_benchmarks.submissions", "write the scores of a method for the leaderboard"),
        "check-submission": ("attribution_benchmarks.submissions", "check a submission to the leaderboard"),
    }
)

_LISTS = {"methods": "list the methods", "metrics": "list the metrics of each benchmark, and those of all"}


def command(arguments: list[str] | None = None) -> None:
    """Run the command that the first argument names, with the remaining arguments, and exit with its code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    name = arguments[0] if arguments else "--help"
    if name == "--version":
        print_line(__version__)
    elif name in ("--help", "-h", "help"):
        width = max(map(len, COMMANDS))
        lines = [f"    {each:{width}}  {text}" for each, (_, text) in COMMANDS.items()]
        lines += [f"    {each:{width}}  {text}" for each, text in _LISTS.items()]
        others = listed(name for name in BENCHMARKS if name.replace("_", "-") not in COMMANDS)
        print_text("\n".join([__doc__ + "\nCommands:", *lines, f"Further benchmarks: {others}."]) + "\n")
    elif name in _LISTS:
        print_text("\n".join(_methods() if name == "methods" else _metrics()) + "\n")
    elif name in COMMANDS:
        module, _ = COMMANDS[name]
        flag = {"score": "methods", "submit": "methods", "check-submission": "check"}.get(name, "")
        sys.argv[1:] = _with_flag(flag, arguments[1:])
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    elif name in BENCHMARKS or ":" in name:
        _run_benchmark(name, arguments[1:])
    else:
        close = difflib.get_close_matches(name, COMMANDS, 1)
        hint = f"did you mean '{close[0]}'?" if close else f"expected one of {listed(COMMANDS)}"
        print_line(f"error: unknown command '{name}'; {hint}", file=sys.stderr)
        sys.exit(2)


def _with_flag(flag: str, arguments: list[str]) -> list[str]:
    """Return arguments with the first one, unless it is a flag, as that of ``flag``; as they are without one."""
    is_first = flag and arguments and arguments[0][:1] != "-"
    return [f"--{flag}={arguments[0]}", *arguments[1:]] if is_first else arguments


def _run_benchmark(place: str, arguments: list[str]) -> None:
    """Run the command of a benchmark, ``sequences`` or ``file.py:NAME``."""
    from attribution import cli
    from attribution_benchmarks.cli.benchmark_command import Command
    from attribution_benchmarks.core.registry import benchmark_named

    try:
        benchmark = benchmark_named(place, "the command")
    except BadInput as error:
        print_line(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    sys.argv = [f"{sys.argv[0]} {place}", *arguments]
    command_of = Command(benchmark, place)
    cli.run(command_of.main, command_of.flags, f"{benchmark.title}. {benchmark.report.about}")


def _methods() -> list[str]:
    from attribution import METHODS

    return [f"{name:{max(map(len, METHODS))}}  {method.title} ({method.family})" for name, method in METHODS.items()]


def _metrics() -> list[str]:
    from attribution_benchmarks.core.registry import benchmark_named
    from attribution_benchmarks.metrics.registry import METRIC_REGISTRY

    found = {f"{place} {metric.name}": metric for place in BENCHMARKS for metric in benchmark_named(place).metrics}
    found = {**METRIC_REGISTRY, **found}
    return [f"{name:{max(map(len, found))}}  {one.title}, {one.better} is better" for name, one in found.items()]


if __name__ == "__main__":
    command()
