"""Attribution methods for SavedModels, and benchmarks that judge them against known truth.

    attribution-benchmarks COMMAND --flag=value ...
    attribution-benchmarks COMMAND --help

Every command is also a module: `attribution-benchmarks svea` is `python -m svea.benchmark`.
"""

from __future__ import annotations

import difflib
import runpy
import sys
from collections.abc import Mapping
from types import MappingProxyType

from attribution.errors import listed, print_line, print_text
from attribution_benchmarks import __version__

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
        "exact": ("attribution_benchmarks.exact.evaluate", "score methods on networks with known attributions"),
        "score": ("attribution_benchmarks.core.evaluate", "score methods on a custom benchmark"),
    }
)


def command(arguments: list[str] | None = None) -> None:
    """Run the command that the first argument names, with the remaining arguments, and exit with its code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    name = arguments[0] if arguments else "--help"
    if name == "--version":
        print_line(__version__)
    elif name in ("--help", "-h", "help"):
        width = max(map(len, COMMANDS))
        lines = [f"    {each:{width}}  {text}" for each, (_, text) in COMMANDS.items()]
        print_text("\n".join([__doc__ + "\nCommands:", *lines]) + "\n")
    elif name in COMMANDS:
        module, _ = COMMANDS[name]
        sys.argv[1:] = arguments[1:]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        close = difflib.get_close_matches(name, COMMANDS, 1)
        hint = f"did you mean '{close[0]}'?" if close else f"expected one of {listed(COMMANDS)}"
        print_line(f"error: unknown command '{name}'; {hint}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    command()
