"""Run bad inputs in this process, one after the other, and say of each whether it ended as it must.

Reads a list of (name, command, place, arguments, word) from standard input; called by ``test_bad_inputs.py``.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import io
import os
import pathlib
import signal
import sys

SECONDS = 60  # for one case
ALWAYS = {  # unless the case says something else
    "exact": ["--benchmark=exact"],
    "explain": ["--preprocessing=0..1", "--method=gradient", "--explain_input=image"],
}
MODULES = {
    "svea": "svea.benchmark", "bim": "bim.metrics", "clevr_xai": "clevr_xai.evaluate", "tcav": "bim.run_tcav",
    "construct": "scripts.construct_bim_dataset", "generate": "scripts.generate_clevr_xai",
    "export": "attribution.export.command", "baseline": "svea.baseline",
    "exact": "attribution_benchmarks.core.evaluate", "networks": "research.clevr_xai.compare_networks",
    "card": "research.clevr_xai.data_card",
    "report": "attribution_benchmarks.report.reproduce", "explain": "attribution.explain.command",
}  # fmt: skip


def verdict(module, place: str, arguments: list[str], word: str) -> str:
    """Run a command with bad input and return "" or what is wrong with how it ended."""
    from attribution import cli

    os.chdir(place)
    before = listing(place)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.execute(module.main, module.FLAGS, module.__doc__, ["command", *arguments])
    lines = [line for line in err.getvalue().replace("\r", "\n").splitlines() if line.strip()]
    if code != 2:
        return f"exit code {code}: {out.getvalue()[:200]!r}"
    if not lines or not lines[-1].startswith("error: ") or not lines[-1].isprintable():
        return f"the last line is {lines[-1:]!r}"
    if word not in lines[-1]:
        return f"{word!r} is not in {lines[-1]!r}"
    if left := listing(place) - before:
        return f"left {sorted(left)[:3]}"
    return ""


def load_once() -> None:
    """Load each of the project's own models once for all cases: what is bad in most of them comes after the loading."""
    import attribution

    own = pathlib.Path(__file__).resolve().parents[2] / "saved_models"
    load = attribution.load_model
    once = functools.lru_cache(maxsize=None)(load)

    def load_model(path, **options):
        known = pathlib.Path(path).resolve().is_relative_to(own) and not options.keys() - {"score"}
        return (once if known else load)(path, **options)

    attribution.load_model = load_model


def listing(place: str) -> set[str]:
    """Return the files below a place."""
    return {str(path) for path in pathlib.Path(place).rglob("*") if not path.is_dir() or path.is_symlink()}


def main() -> None:
    """Run the cases; the name of the one at work goes to standard error first."""
    jobs = ast.literal_eval(sys.stdin.read())
    load_once()

    def late(*_):
        raise TimeoutError("no end in time")

    signal.signal(signal.SIGALRM, late)
    for name, command, place, arguments, word in jobs:
        module = importlib.import_module(MODULES[command])
        print(name, file=sys.stderr, flush=True)
        signal.alarm(SECONDS)
        try:
            wrong = verdict(module, place, [*ALWAYS.get(command, ()), *arguments], word)
        except BaseException as error:
            wrong = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        signal.alarm(0)
        print(f"right {name!r}" if not wrong else f"WRONG {name!r}: {wrong}".replace("\n", " "), flush=True)


if __name__ == "__main__":
    main()
