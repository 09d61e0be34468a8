"""The scripts of ``findings/`` have what a reader needs, and the program that runs them distinguishes how they end."""

import os
import re
import subprocess

import pytest

from tools import findings

LINES = 60
NEEDED = {
    "a bash script that ends at its first error": r"\A#!/usr/bin/env bash\n(?:#.*\n)+set -euo pipefail\n",
    "the guess in its head": r"^# Guess: \S",
    "a temporary folder": r"^(\w+)=\$\(mktemp -d\)$(?=[^`]*^trap 'rm -rf \"\$\1\"' EXIT$)",
    "an assertion": r"^ *(?:assert |np\.testing\.assert_)",
}
OURS = r"^ *(?:import|from) +(?:attribution|attribution_benchmarks|bim|clevr_xai|svea|research|tools)\b"


def pinned(text):
    """Return the packages that a script installs, each a pair of its name and its version, empty where it has none."""
    installed = re.findall(r"pip\"? install ((?:[^\n]|(?<=\\)\n)*)", text)
    words = [word for line in installed for word in line.replace("\\\n", " ").split() if not word.startswith("-")]
    return [word.strip("'\"").partition("==")[::2] for word in words]


def problems(text):
    """Return what a script lacks, in words."""
    found = [f"has not {what}" for what, pattern in NEEDED.items() if not re.search(pattern, text, re.MULTILINE)]
    if re.search(OURS, text, re.MULTILINE):
        found.append("imports this project")
    packages = pinned(text)
    found += [f"pins no version of {name}" for name, version in packages if not version]
    if not packages:
        found.append("installs nothing")
    if len(text.splitlines()) > LINES:
        found.append(f"is longer than {LINES} lines")
    return found


GOOD = """#!/usr/bin/env bash
# Guess: one and one are two.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$folder/venv/bin/pip" install --quiet one==1.0 \\
  two==2.0
"$folder/venv/bin/python" - <<'PYTHON'
import one
assert one + one == 2
PYTHON
"""


def test_a_script_with_everything_has_no_problem():
    assert problems(GOOD) == []
    assert pinned(GOOD) == [("one", "1.0"), ("two", "2.0")]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("#!/usr/bin/env bash\n", "", "has not a bash script that ends at its first error"),
        ("set -euo pipefail\n", "", "has not a bash script that ends at its first error"),
        ("# Guess: ", "# ", "has not the guess in its head"),
        ("$(mktemp -d)", "/tmp/one", "has not a temporary folder"),
        ("trap 'rm -rf \"$folder\"' EXIT\n", "", "has not a temporary folder"),
        ("assert ", "print", "has not an assertion"),
        ("two==2.0", "two", "pins no version of two"),
        ("two==2.0", "'two>=2.0'", "pins no version of two>=2.0"),
        ("import one", "from attribution.model import load_model", "imports this project"),
        ("import one", "import svea", "imports this project"),
        ("import one\n", "import one\n" * LINES, "is longer than 60 lines"),
    ],
)
def test_what_a_script_lacks_is_found(old, new, problem):
    assert old in GOOD
    assert problems(GOOD.replace(old, new)) == [problem]


@pytest.mark.parametrize("script", sorted(findings.FINDINGS.glob("*.sh")), ids=lambda script: script.stem)
def test_every_script_has_what_a_reader_needs_and_a_row(script):
    text = script.read_text("utf-8")
    assert problems(text) == []
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", script], check=True)
    (row,) = re.findall(
        rf"^\| \[{script.name}\]\({script.name}\) \|.*$", (script.parent / "README.md").read_text(), re.M
    )
    assert any(version in row for _, version in pinned(text)), row


def test_every_row_has_a_script():
    listed = re.findall(r"\]\((.+\.sh)\)", (findings.FINDINGS / "README.md").read_text("utf-8"))
    assert sorted(listed) == sorted(script.name for script in findings.FINDINGS.glob("*.sh"))


def test_passed_changed_and_could_not_run_are_told_apart(tmp_path, capsys):
    python = "python3 - <<'PYTHON'\n{}\nPYTHON\n"
    for name, text in {
        "changed": python.format("assert 1 == 2, 'one is two'"),
        "elsewhere": python.format("raise SystemExit('not checked: seen on another processor')"),
        "silent": "exit 3\n",
        "same": python.format("print(1)"),
    }.items():
        (tmp_path / f"{name}.sh").write_text(text)
    assert findings.main([], tmp_path) == 1
    assert capsys.readouterr().out.splitlines() == [
        "changed: changed (AssertionError: one is two)",
        "elsewhere: could not run (not checked: seen on another processor)",
        "same: passed",
        "silent: could not run (exit code 3)",
    ]
    assert findings.main(["findings/same.sh", "silent"], tmp_path) == 0
    assert capsys.readouterr().out.splitlines() == ["same: passed", "silent: could not run (exit code 3)"]
    with pytest.raises(SystemExit, match="2"):
        findings.main(["other"], tmp_path)
    assert "no such script: other" in capsys.readouterr().err
