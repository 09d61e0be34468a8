"""Measure the size and the structure of this code base, and hold what was reached.

python tools/measure.py             # prints the table
python tools/measure.py --modules   # adds the number of modules that two commands load (a minute)
python tools/measure.py --walk      # adds the number of files whose functions two commands call (a minute)
python tools/measure.py --types     # adds the number of missing annotations (20 seconds)
python tools/measure.py --check     # exit code 1 where a measure exceeds its limit in LIMITS
"""

from __future__ import annotations

import argparse
import ast
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import layers  # tools/layers.py
from radon.complexity import cc_visit
from radon.visitors import Class

TOP = pathlib.Path(__file__).resolve().parent.parent
OURS = ("attribution", "attribution_benchmarks", "bim", "clevr_xai", "svea")  # installed packages

# What was reached. Lower a limit when a measure falls; never raise one without a reason in the commit.
LIMITS = {
    "lines outside tests": 74_915,
    "files outside tests": 332,
    "lines of tests": 46_725,  # with the stand-in for TensorFlow Serving
    "functions of complexity > 10": 100,
    "highest complexity": 20,
    "public names": 1_032,
    "imports of attribution_benchmarks by attribution": 0,
    "circles of imports": 0,
    "imports of a higher layer": 0,
    "library modules with a command line": 0,
    "modules loaded by attribution.explain": 54,  # of --modules
    "modules loaded by bim.metrics": 107,
    "missing types": 685,  # outside attribution, core, metrics and stats, which mypy checks strictly
}
# Run in a process of its own: a module as a command; then the number of modules that it has loaded, and the files whose
# functions it has called. Calls while a module is imported do not count.
_PROBE = """
import runpy, sys, threading
top, *sys.argv[1:] = sys.argv[1:]
ours = {ours!r}
entered, importing = set(), threading.local()

def profile(frame, event, argument):
    code = frame.f_code
    if event not in ("call", "return") or not code.co_filename.startswith(top):
        return
    if code.co_name == "<module>":
        if frame.f_globals.get("__name__") != "__main__":
            importing.depth = getattr(importing, "depth", 0) + (1 if event == "call" else -1)
    elif event == "call" and not getattr(importing, "depth", 0):
        path = code.co_filename[len(top) + 1:]
        if path.split("/")[0] in ours:
            entered.add(path)

module, *sys.argv[1:] = sys.argv[1:]
sys.argv[0] = module
if {walk!r}:
    import keras, sklearn.svm  # slow under a profile
    threading.setprofile(profile)
    sys.setprofile(profile)
try:
    runpy.run_module(module, run_name="__main__", alter_sys=True)
except SystemExit as error:
    ended = error.code
sys.setprofile(None)
print("\\nloaded", sum(name.split(".")[0] in ours for name in sys.modules))
print("entered", len(entered))
print(*sorted(entered), sep="\\n", file=sys.stderr)
sys.exit(ended)
"""


def python_files() -> tuple[list[pathlib.Path], list[pathlib.Path]]:
    """Return the Python files that git tracks, outside tests and in tests."""
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=TOP, capture_output=True, text=True, check=True)
    files = [TOP / name for name in listed.stdout.splitlines() if (TOP / name).is_file()]
    tests = [file for file in files if file.is_relative_to(TOP / "tests")]
    return [file for file in files if file not in set(tests)], tests


def complexities(files: list[pathlib.Path]) -> list[int]:
    """Return the cyclomatic complexity of every function and method, as radon counts it."""
    blocks = [block for file in files for block in cc_visit(file.read_text())]
    return [block.complexity for block in blocks if not isinstance(block, Class)]


def public_names(files: list[pathlib.Path]) -> int:
    """Return the number of public functions and classes at the top of public modules of the installed packages.

    The overloads of a function are one name.
    """
    names = set()
    for file in files:
        parts = file.relative_to(TOP).parts
        if parts[0] in OURS and not any(part.startswith("_") and part != "__init__.py" for part in parts):
            for node in ast.parse(file.read_text()).body:
                if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                    names.add((file, node.name))
    return len(names)


def imports(package: str, of: str) -> int:
    """Return how many import statements of one package name another."""
    count = 0
    for file in sorted((TOP / package).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            named += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            count += any(name.split(".")[0] == of for name in named)
    return count


def run_probe(walk: bool, cache: str, module: str, *arguments: str) -> dict[str, int]:
    """Run a command; return how many modules of this project it loads and, if ``walk``, of how many it calls functions.

    With ``walk``, the names of the latter files go to standard error.
    """
    probe = _PROBE.replace("{ours!r}", repr(OURS)).replace("{walk!r}", repr(walk))
    result = subprocess.run(
        [sys.executable, "-c", probe, str(TOP), module, *arguments],
        cwd=TOP,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(TOP), "ATTRIBUTION_BENCHMARKS_CACHE": cache},
    )
    found = dict(re.findall(r"^(loaded|entered) (\d+)$", result.stdout, re.MULTILINE))
    if result.returncode or len(found) < 2:
        raise RuntimeError(f"{module} ended with an error: {result.stderr[-500:]}")
    if walk:
        files = [line for line in result.stderr.splitlines() if re.fullmatch(r"[\w/]+\.py", line)]
        print(f"{module} calls functions of: {' '.join(files)}", file=sys.stderr)
    return {name: int(number) for name, number in found.items()}


def measure_commands(walk: bool) -> dict[str, int]:
    """Return how many modules two commands load and, if ``walk``, how many files they enter."""
    picture = next((TOP / "clevr_xai" / "embedded" / "images").glob("*.png"))
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        explain = (
            "attribution.explain",
            "--model=saved_models/bim/obj",
            f"--image={picture}",
            f"--output={folder}/a.png",
        )
        metrics = ("bim.metrics", "--metrics=MCS", "--methods=gradient", "--num_imgs=2")
        if walk:
            run_probe(False, folder, *metrics, f"--scores_dir={folder}/first")  # draws the images, once for all runs
        for command in (explain, metrics):
            counts = run_probe(walk, folder, *command)
            found[f"modules loaded by {command[0]}"] = counts["loaded"]
            if walk:
                found[f"files entered by {command[0]}"] = counts["entered"]
    return found


def missing_types() -> int:
    """Return the number of missing annotations that ``mypy --strict`` finds in the installed packages.

    Its other errors depend on the types of the installed libraries as well.
    """
    command = [sys.executable, "-m", "mypy", "--strict", "--disable-error-code=unused-ignore", *OURS]
    result = subprocess.run(command, cwd=TOP, capture_output=True, text=True)
    if not re.search(r"^(Found|Success)", result.stdout, re.MULTILINE):
        raise RuntimeError(f"mypy failed: {result.stdout}{result.stderr}")
    return len(re.findall(r"\[(?:no-untyped-def|type-arg)]$", result.stdout, re.MULTILINE))


def measures(arguments: argparse.Namespace) -> dict[str, int]:
    """Return the measures by name."""
    code, tests = python_files()
    lines, lines_of_tests = (sum(len(file.read_text().splitlines()) for file in files) for files in (code, tests))
    complexity = complexities(code)
    trees = layers.read([*layers.LAYERS, *layers.NOT_INSTALLED])
    found = {
        "lines outside tests": lines,
        "files outside tests": len(code),
        "lines of tests": lines_of_tests,
        "functions of complexity > 10": sum(value > 10 for value in complexity),
        "highest complexity": max(complexity),
        "public names": public_names(code),
        "imports of attribution_benchmarks by attribution": imports("attribution", "attribution_benchmarks"),
        "circles of imports": len(layers.circles(trees)),
        "imports of a higher layer": len(layers.arrows_up(trees)),
        "library modules with a command line": len(layers.with_command_line(trees)),
    }
    if arguments.modules or arguments.walk:
        found |= measure_commands(arguments.walk)
    if arguments.types:
        found["missing types"] = missing_types()
    return found


def main() -> int:
    """Print the table and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, text in (
        ("modules", "count the modules that two commands load"),
        ("walk", "count the files whose functions two commands call"),
        ("types", "count the missing annotations"),
        ("check", "exit with 1 where a measure exceeds its limit"),
    ):
        parser.add_argument(f"--{name}", action="store_true", help=text)
    arguments = parser.parse_args()
    found = measures(arguments)
    too_large = [name for name, value in found.items() if value > LIMITS.get(name, value)]
    for name, value in found.items():
        print(f"{name:50} {value:>7,}{'  limit ' + format(LIMITS[name], ',') if name in LIMITS else ''}")
    if arguments.check and too_large:
        print(f"above the limit: {', '.join(too_large)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
