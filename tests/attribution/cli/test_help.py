"""Every command says what it costs, and groups its flags."""

import ast
import pathlib
import re
import subprocess

import pytest
from absl import flags

from attribution.cli.help import GROUPS, help_text

ROOT = pathlib.Path(__file__).resolve().parents[3]
ROOMS = ("attribution", "attribution_benchmarks", "bim", "svea", "clevr_xai", "research", "scripts", "tools")
COMMANDS = [
    path
    for room in ROOMS
    for path in sorted((ROOT / room).rglob("*.py"))
    if "FLAGS = flags.FlagValues()" in path.read_text(encoding="utf-8")
]
GROUPED = [name for names in GROUPS.values() for name in names]


def flag_names(path):
    """Return the names of the flags that a file defines, read and not run."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called == "define_common_flags":
                yield from (keyword.arg for keyword in node.keywords)
            elif called.startswith("DEFINE_") and called != "DEFINE_alias" and isinstance(node.args[0], ast.Constant):
                yield node.args[0].value


def test_all_commands_are_looked_at():
    assert {"metrics.py", "evaluate.py", "benchmark.py", "command.py", "reproduce.py"} <= {
        path.name for path in COMMANDS
    }


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_command_says_what_it_costs_last_and_its_flags_have_a_group(path):
    last = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))).split("\n\n")[-1]
    if "performance" not in path.relative_to(ROOT).parts:  # these measure costs themselves
        assert last.startswith("Cost: ") and re.search(r"\d|second|minute|hour", last)
    ungrouped = set(flag_names(path)) - set(GROUPED)
    assert not ungrouped, "name the group of a flag in cli/help.py"


def test_flags_that_rooms_share_have_a_group_too():
    shared = {name for room in ROOMS for path in (ROOT / room).rglob("*flags.py") for name in flag_names(path)}
    assert "keras_model" in shared and "trust_model" in shared and shared <= set(GROUPED)


def test_no_flag_is_in_two_groups():
    assert len(GROUPED) == len(set(GROUPED))


def test_description_groups_and_what_no_group_knows_in_this_order():
    values = flags.FlagValues()
    flags.DEFINE_string("odd", "", "of one command", flag_values=values)
    flags.DEFINE_integer("seed", 3, "of what is drawn", flag_values=values)
    flags.DEFINE_list("image", ["a", "b"], "word " * 40, flag_values=values)
    flags.DEFINE_alias("images", "image", flag_values=values)
    shown = help_text(values, "What it does.\n\nCost: nothing.\n")
    assert [line for line in shown.splitlines() if line and line[0] != " "] == [
        "What it does.", "Cost: nothing.", "Data:", "Run:", "Others:",
    ]  # fmt: skip
    assert "      (default: a,b)" in shown.splitlines() and "--images" not in shown
    assert max(map(len, shown.splitlines())) <= 100


def test_help_of_scripts_that_are_no_python():
    for script in ("serve.sh", "download_datasets.sh", "download_models.sh"):
        done = subprocess.run(["bash", ROOT / "scripts" / script, "--help"], capture_output=True, text=True)
        assert done.returncode == 0 and f"scripts/{script}" in done.stdout and "Cost: " in done.stdout, script
        done = subprocess.run(["bash", ROOT / "scripts" / script, "--nonsense"], capture_output=True, text=True)
        assert done.returncode == 2 and done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
