"""--help describes a command, its cost and its flags."""

import ast
import copy
import importlib
import os
import pathlib
import re
import subprocess
import sys

import pytest
from absl import flags

from attribution.cli import FLAGS_OF_A_SCREEN, define_common_flags, help_text

ROOT = pathlib.Path(__file__).resolve().parents[3]
FOLDERS = ("attribution", "attribution_benchmarks", "bim", "svea", "clevr_xai", "docs", "scripts", "tools")
COMMANDS = [
    path
    for folder in FOLDERS
    for path in sorted((ROOT / folder).rglob("*.py"))
    if any(
        line in path.read_text(encoding="utf-8") for line in ("\nFLAGS = flags.FlagValues()", "\nCOMMAND = Command(")
    )
]


def test_all_commands_are_looked_at():
    assert {"metrics.py", "evaluate.py", "benchmark.py", "__main__.py", "reproduce.py"} <= {
        path.name for path in COMMANDS
    }


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_description_ends_with_the_cost(path):
    last = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))).split("\n\n")[-1]
    if "performance" not in path.parts:  # these measure costs themselves
        assert last.startswith("Cost: ") and re.search(r"\d|second|minute|hour", last)


def test_description_own_flags_and_shared_flags_in_this_order():
    values = flags.FlagValues()
    define_common_flags(values, seed=3)
    flags.DEFINE_list("image", ["a", "b"], "word " * 40, flag_values=values)
    shown = help_text(values, "What it does.\n\nCost: nothing.\n", __name__)
    assert [line for line in shown.splitlines() if line and line[0] != " "] == [
        "What it does.", "Cost: nothing.", f"{__name__}:", "attribution.cli:",
    ]  # fmt: skip
    assert "(default: 'a,b')" in shown and "(default: '3')" in shown


def test_the_first_screen_has_twelve_flags_and_says_how_many_more_there_are():
    assert FLAGS_OF_A_SCREEN == 12
    for name in ("svea.benchmark", "bim.metrics", "clevr_xai.evaluate", "attribution.explain.__main__"):
        values = copy.deepcopy(importlib.import_module(name).FLAGS)
        count = len(list(values))
        text = help_text(values, "", name, full=False)
        shown = [line for line in text.splitlines() if line.startswith("  --")]
        assert 5 < len(shown) <= 12 < count and any("--methods" in line for line in shown)
        assert text.endswith(f"--helpfull shows {count - len(shown)} more flags.")


def test_help_of_scripts_that_are_no_python():
    for script in ("serve.sh", "download_datasets.sh", "download_models.sh"):
        done = subprocess.run(["bash", ROOT / "scripts" / script, "--help"], capture_output=True, text=True)
        assert done.returncode == 0 and f"scripts/{script}" in done.stdout and "Cost: " in done.stdout, script
        command, env = ["bash", ROOT / "scripts" / script, "--nonsense"], {**os.environ, "PYTHON": sys.executable}
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        assert done.returncode == 2 and done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
