"""Commands answer bad input in one line with exit code 2, and help without work."""

import errno
import os
import shlex
import signal
import subprocess
import sys

import pytest
from absl import flags

from attribution import cli
from attribution.errors import BadInput


def command(main=lambda flag_values: None):
    values = flags.FlagValues()
    cli.define_common_flags(values, methods=["gradient"], num_imgs=10, seed=0, output="")
    return lambda *arguments: cli.execute(main, values, "What it does.", ["prog", *arguments])


def test_values_reach_the_command():
    seen = {}
    run = command(lambda values: seen.update(methods=values.methods, num_imgs=values.num_imgs, seed=values.seed))
    assert run("--methods=a,b", "--num_imgs=all", "--seed=3") == 0
    assert seen == {"methods": ["a", "b"], "num_imgs": "all", "seed": 3}


def test_a_second_run_forgets_the_flags_of_the_first():
    seen = []
    run = command(lambda values: seen.append(values.seed))
    run("--seed=3")
    run()
    assert seen == [3, 0]


@pytest.mark.parametrize(
    "argument",
    ["--num_imgs=some", "--seed=-1", "--no_such_flag=1", "leftover", "--output=gs://bucket/table.json"],
)
def test_bad_flags_are_one_line_and_exit_code_2(argument, capsys):
    assert command()(argument) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ") and captured.err.count("\n") == 1


@pytest.mark.parametrize("argument", ["--noshow=3", "--show=maybe"])
def test_values_that_a_switch_does_not_take_are_one_line(argument, tmp_path, capsys):
    values = flags.FlagValues()
    flags.DEFINE_boolean("show", True, "", flag_values=values)
    flags.DEFINE_integer("seed", 0, "", flag_values=values)
    (tmp_path / "flags").write_text(argument + "\n")
    (tmp_path / "bytes").write_bytes(b"--show\xff\n")
    for given in (argument, f"--flagfile={tmp_path / 'flags'}", f"--flagfile={tmp_path / 'bytes'}"):
        assert cli.execute(lambda _: pytest.fail("it ran"), values, "", ["prog", given]) == 2
        said = capsys.readouterr()
        assert said.out == "" and said.err.startswith("error: ") and said.err.count("\n") == 1


@pytest.mark.parametrize("number", ["nan", "inf"])
def test_numbers_that_are_none_are_refused(number, capsys):
    values = flags.FlagValues()
    flags.DEFINE_float("level", 0.05, "", 0.0, 1.0, flag_values=values)
    flags.DEFINE_float("deadline", 60, "", flag_values=values)
    for name in ("level", "deadline"):
        code = cli.execute(lambda _: pytest.fail("it ran"), values, "", ["prog", f"--{name}={number}"])
        said = capsys.readouterr().err
        assert code == 2 and f"--{name}" in said.replace("flag ", "") and said.count("\n") == 1


def test_bad_input_is_one_line_and_other_errors_are_not_hidden(capsys):
    def refuse(values):
        raise BadInput("no such thing;\n  these exist: a")

    def break_down(values):
        raise RuntimeError("a bug")

    assert command(refuse)() == 2
    assert capsys.readouterr().err == "error: no such thing; these exist: a\n"
    with pytest.raises(RuntimeError):
        command(break_down)()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_errors_of_the_file_system_are_one_line(number, capsys):
    def fail(values):
        raise OSError(number, os.strerror(number), "a\x1b[2J.json")

    assert command(fail)() == 2
    remedy = "make room, or name a place that can be used"
    assert capsys.readouterr().err == f"error: a\\x1b[2J.json: {os.strerror(number)}; {remedy}\n"


@pytest.mark.parametrize("argument", ["--seed=\x1b[2J", "--num_imgs=\u202e"])
def test_control_characters_of_arguments_are_escaped(argument, capsys):
    assert command()(argument) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.removesuffix("\n").isprintable()


def test_help_shows_description_flags_and_defaults(capsys):
    assert command(lambda values: pytest.fail("help must not run the command"))("--help") == 0
    shown = capsys.readouterr().out
    assert shown.startswith("What it does.")
    assert "--methods" in shown and "(default: 'gradient')" in shown


def test_a_reader_that_has_read_enough_ends_a_command_quietly():
    code = (
        "from attribution import cli; from absl import flags; values = flags.FlagValues();"
        "cli.run(lambda _: print('x' * 10**6), values, 'What it does.')"
    )
    piped = f"{shlex.quote(sys.executable)} -c {shlex.quote(code)} | head -c 1"
    assert subprocess.run(piped, shell=True, capture_output=True, text=True, check=False).stderr == ""


def run_by_shell(redirection, tmp_path):
    """Run a command that prints a line and writes a file, by a shell with a redirection; return it completed."""
    (tmp_path / "main.py").write_text(
        "import pathlib\nfrom absl import flags\nfrom attribution import cli\n\n"
        "def main(values):\n    print('a line')\n    pathlib.Path('written').write_text('x')\n\n"
        "cli.run(main, flags.FlagValues(), 'What it does.')\n"
    )
    line = f"{shlex.quote(sys.executable)} main.py {redirection}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": ""}
    return subprocess.run(line, shell=True, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)


def test_closed_standard_output_is_refused_before_any_work(tmp_path):
    done = run_by_shell(">&-", tmp_path)
    assert (done.returncode, done.stdout) == (2, "") and not (tmp_path / "written").exists()
    assert done.stderr == "error: standard output is closed; redirect it, for example to /dev/null\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full, to simulate a full disk")
def test_standard_output_that_cannot_be_written_is_one_line(tmp_path):
    done = run_by_shell("> /dev/full", tmp_path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: cannot write to standard output: No space left on device")


@pytest.mark.parametrize("said", ["bye", 0])
def test_code_that_ends_the_program_is_one_line(said, capsys):
    def end(values):
        raise SystemExit(said)

    assert command(end)() == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {__file__}, line ") and "called sys.exit" in error and error.count("\n") == 1


def test_an_interruption_ends_with_130(interruptible, capsys):
    assert command(lambda values: os.kill(os.getpid(), signal.SIGINT))() == 130
    assert capsys.readouterr().err == "interrupted\n"
