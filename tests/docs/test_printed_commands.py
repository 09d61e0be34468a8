"""Every command that a page or a command's own help prints is one that the program takes: module, flags and values.

What the commands do is asserted by the tests of each; here none is run, so that all can be looked at.
"""

import importlib
import pathlib
import re
import runpy
import shlex
import types

import pytest
from absl.testing import flagsaver

from attribution_benchmarks.__main__ import COMMANDS as CONSOLE
from attribution_benchmarks.cli.benchmark_command import Command
from attribution_benchmarks.core.registry import benchmark_named

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    + list((ROOT / "saved_models").rglob("*.md"))
    + [
        path
        for room in ("attribution", "attribution_benchmarks", "bim", "svea", "clevr_xai", "docs", "tools")
        for path in (ROOT / room).rglob("*.py")
        if "FLAGS = flags.FlagValues()" in path.read_text("utf-8")
    ]
    + [path for path in (ROOT / "scripts").iterdir() if path.suffix in (".py", ".sh")]
)
# Commands of the changelog were those of their day.
PAGES.remove(ROOT / "CHANGELOG.md")
REPORT = "attribution_benchmarks.report.reproduce"
NAMED = {
    "attribution.check_method": "method", "attribution_benchmarks.check_metric": "metric",
    "attribution_benchmarks.score_methods": "methods", "attribution_benchmarks.submissions": "methods",
}  # fmt: skip
OTHERS = ("venv", "pip", "pytest", "playwright")  # modules that are not ours


def printed(text):
    """Yield the commands of Python in a page's blocks, in its sentences and in a module's first docstring."""
    docstring = re.match(r'\s*r?"""(.*?)"""', text, re.DOTALL) or re.match(r"#!.*\n((?:#.*\n)*)", text)
    if docstring:
        text = re.sub(r"\s*\\\n\s*", " ", re.sub("^# ?", "", docstring[1], flags=re.MULTILINE))
        candidates = re.findall(r"^ *((?:python|attribution-benchmarks) .*)$", text, re.MULTILINE)
    else:
        blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        candidates = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
        plain = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
        candidates += [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", plain)]
    for candidate in candidates:
        for command in candidate.split(" && "):
            if console := re.match(r"attribution-benchmarks ([a-z][a-z-]*)(.*)", command.strip()):
                module = CONSOLE[console[1]][0] if console[1] in CONSOLE else f"attribution_benchmarks {console[1]}"
                yield f"python -m {module}{console[2]}"
            elif re.match(r"(\.venv/bin/)?python3? (-m |\S+\.py)", command.strip()):
                yield command.strip()


COMMANDS = sorted({(command, path.relative_to(ROOT)) for path in PAGES for command in printed(path.read_text("utf-8"))})


def flags_of(called):
    """Return the flags of a module or a script of ours, ``None`` for one that reads its arguments by itself."""
    if called.endswith(".py") and "absl" not in (ROOT / called).read_text("utf-8"):
        return None if "reproduce" not in called else importlib.import_module(REPORT).FLAGS
    if called.endswith(".py"):
        names = runpy.run_path(str(ROOT / called), run_name="looked_at")
    else:
        module = importlib.import_module(called)
        if hasattr(module, "__path__"):
            module = importlib.import_module(f"{called}.__main__")
        names = vars(module)
    if "FLAGS" in names:
        return names["FLAGS"]
    inside = [value for value in names.values() if isinstance(value, types.ModuleType) and hasattr(value, "FLAGS")]
    return inside[0].FLAGS if inside else None


def text_of(called):
    """Return the text of a script or of the files of a module."""
    path = ROOT / called if called.endswith(".py") else ROOT / called.replace(".", "/")
    return "".join(file.read_text("utf-8") for file in ([path] if path.is_file() else path.glob("*.py")))


def test_the_commands_are_found():
    found = [command for command, _ in COMMANDS]
    assert len(found) > 60
    for start in (
        "python -m bim.metrics --metrics=MCS",
        "python -m svea.benchmark",
        ".venv/bin/python scripts/generate",
    ):
        assert any(command.startswith(start) for command in found)


@pytest.mark.parametrize(("command", "page"), COMMANDS, ids=lambda value: str(value))
def test_a_printed_command_is_taken(command, page):
    words = shlex.split(command, comments=True)[1:]
    called, arguments = (words[1], words[2:]) if words[0] == "-m" else (words[0], words[1:])
    arguments = arguments[: arguments.index("--")] if "--" in arguments else arguments  # what follows is Beam's
    if words[0] == "-m" and called in OTHERS:
        return
    if not (ROOT / called).exists() and called.endswith(".py"):
        assert not called.startswith(("scripts/", "tools/", "docs/", "tests/"))  # a file of the reader's own
        return
    if called in NAMED:  # methods and metrics may be written without their flag
        arguments = [word if word.startswith("-") else f"--{NAMED[called]}={word}" for word in arguments]
    if called == "attribution_benchmarks" and arguments[:1]:
        name, *arguments = arguments
        if ":" in name or name in ("methods", "metrics"):  # a benchmark of the reader's own; commands without flags
            return
        values = Command(benchmark_named(name)).flags
    else:
        values = flags_of(called)
    if values is None:
        text = text_of(called)
        for argument in arguments:
            name = argument.split("=")[0].removeprefix("--")
            assert not argument.startswith("--") or re.search(rf'"(--)?{name}"', text), argument
        return
    kept = flagsaver.save_flag_values(values)
    try:
        values.unparse_flags()
        assert not [word for word in values([called, *arguments])[1:] if word not in ("...", "…")]
    finally:
        flagsaver.restore_flag_values(kept, values)
