import subprocess
import sys

import pytest

import attribution_benchmarks
from attribution_benchmarks.__main__ import COMMANDS, command


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "attribution_benchmarks", *arguments], capture_output=True, text=True, timeout=120
    )


def test_help_lists_every_command(capsys):
    command([])
    without = capsys.readouterr().out
    command(["--help"])
    assert capsys.readouterr().out == without
    assert all(f"    {name} " in without for name in COMMANDS)


def test_version(capsys):
    command(["--version"])
    assert capsys.readouterr().out == f"{attribution_benchmarks.__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_dispatches_to_its_module(name):
    module, _ = COMMANDS[name]
    direct = subprocess.run([sys.executable, "-m", module, "--help"], capture_output=True, text=True, timeout=120)
    assert direct.returncode == 0
    assert run(name, "--help").stdout == direct.stdout != ""


def test_errors_keep_exit_code_2():
    done = run("explain", "--no_such_flag=1")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1


def test_unknown_command_suggests_a_known_one(capsys):
    with pytest.raises(SystemExit) as raised:
        command(["sveaa"])
    assert raised.value.code == 2
    assert capsys.readouterr().err == "error: unknown command 'sveaa'; did you mean 'svea'?\n"


def test_flags_without_a_command_run_the_report():
    done = run("--no_such_flag=1")
    assert done.returncode == 2
    assert "no_such_flag" in done.stderr and "unknown command" not in done.stderr
