import importlib
import runpy
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


def test_a_command_runs_its_module_with_its_arguments(monkeypatch):
    started = []
    monkeypatch.setattr(runpy, "run_module", lambda module, **_: started.append((module, *sys.argv[1:])))
    monkeypatch.setattr(sys, "argv", ["attribution-benchmarks"])
    for name, (module, _) in COMMANDS.items():
        command([name, "--help"])
        assert started.pop() == (module, "--help")
        assert importlib.util.find_spec(module)


def test_exit_codes_and_output_are_those_of_the_module():
    done = run("explain", "--no_such_flag=1")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    direct = subprocess.run([sys.executable, "-m", "svea.benchmark", "--help"], capture_output=True, text=True)
    assert run("svea", "--help").stdout == direct.stdout != ""


def test_unknown_command_suggests_a_known_one(capsys):
    with pytest.raises(SystemExit) as raised:
        command(["sveaa"])
    assert raised.value.code == 2
    assert capsys.readouterr().err == "error: unknown command 'sveaa'; did you mean 'svea'?\n"


def test_any_benchmark_is_a_command(toy, capsys):
    with pytest.raises(SystemExit) as raised:
        command([f"{toy}:TOY", "--methods=gradient"])
    assert raised.value.code in (0, None) and "Vanilla Gradient" in capsys.readouterr().out
    with pytest.raises(SystemExit) as raised:
        command(["nowhere.py:MINE"])
    assert raised.value.code == 2 and "nowhere.py" in capsys.readouterr().err


def test_methods_and_metrics_are_listed(capsys):
    command(["methods"])
    assert "integrated_gradients " in capsys.readouterr().out
    command(["metrics"])
    listed = capsys.readouterr().out
    assert "roc_auc " in listed and "svea roe_test " in listed and "ROE test %, more is better" in listed
