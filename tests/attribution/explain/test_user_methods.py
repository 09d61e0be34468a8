"""What a method of one's own raises is told in one line, with the line of its file; a mistake of the project is not."""

import dataclasses
import functools
import gc
import os
import pathlib
import subprocess
import sys
import warnings

import numpy as np
import pytest

import attribution
from attribution.errors import BadInput
from attribution.methods.registry import METHODS

OWN = """
def divided(passes):
    return inner(passes.inputs) / 0


def inner(values):
    raise ZeroDivisionError(f"of\\n{values.ndim} axes")


def from_a_library(passes):
    import json

    return json.loads("{")


def silent(passes):
    assert False


def ends(passes):
    raise SystemExit("bye")


def ends_well(passes):
    raise SystemExit(0)


def ends_at_once(passes):
    import os; os._exit(0)


def stops(passes):
    raise BaseException("stop")


class Unprintable(Exception):
    def __str__(self):
        raise self


class Ends(Exception):
    def __str__(self):
        raise SystemExit(3)


def unprintable(passes):
    raise Unprintable


def ends_when_printed(passes):
    raise Ends


def surrogate(passes):
    raise ValueError("\\udcff")


def group(passes):
    raise ExceptionGroup("several", [Unprintable(), ValueError()])


def recursive(passes):
    return recursive(passes)


class Instance:
    def __call__(self, passes):
        raise Unprintable


instance = Instance()


def refuses(passes):
    from attribution.errors import BadInput

    raise BadInput("not for signals")
"""


@pytest.fixture
def own(tmp_path):
    file = tmp_path / "own.py"
    file.write_text(OWN)
    return file


@pytest.mark.parametrize(
    ("name", "line", "words"),
    [
        ("divided", 7, "ZeroDivisionError: of 3 axes"),
        ("from_a_library", 13, "JSONDecodeError: Expecting property name"),
        ("silent", 17, "AssertionError"),
        ("ends", 21, "SystemExit: bye"),
        ("ends_well", 25, "SystemExit: 0"),
        ("ends_at_once", 29, "SystemExit: os._exit(0) was called"),
        ("stops", 33, "BaseException: stop"),
        ("unprintable", 47, "Unprintable: its message cannot be printed"),
        ("ends_when_printed", 51, "Ends: its message cannot be printed"),
        ("surrogate", 55, r"ValueError: \udcff"),
        ("group", 59, "ExceptionGroup: several"),
        ("recursive", 63, "RecursionError: maximum recursion depth"),
        ("instance", 68, "Unprintable: its message"),
    ],
)
def test_the_line_of_the_users_file_is_named(own, models, inputs, name, line, words):
    with pytest.raises(BadInput) as caught:
        attribution.explain(f"{own}:{name}", models["signal"], inputs["signal"])
    assert str(caught.value).startswith(f"method '{own}:{name}' failed at {own}, line {line}: {words}")
    assert "\n" not in str(caught.value) and caught.value.__cause__ is not None


def test_a_file_whose_exception_cannot_be_printed_is_one_line(tmp_path, models, inputs):
    (tmp_path / "own.py").write_text("class E(Exception):\n    def __str__(self):\n        return 3\nraise E\n")
    with pytest.raises(BadInput, match="its message cannot be printed"):
        attribution.explain(f"{tmp_path}/own.py:f", models["signal"], inputs["signal"])


async def asynchronous(queries):
    return queries.inputs


def generator(queries):
    yield queries.inputs


async def asynchronous_generator(queries):
    yield queries.inputs


class Asynchronous:
    async def __call__(self, queries):
        return queries.inputs


class Exits:
    def __array__(self, *_, **__):
        raise SystemExit(3)


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (asynchronous, "is written with 'async' or 'yield'; return an array of maps"),
        (generator, "is written with 'async' or 'yield'"),
        (asynchronous_generator, "is written with 'async' or 'yield'"),
        (Asynchronous(), "is written with 'async' or 'yield'"),
        (lambda queries: None, "returned a NoneType; numbers of shape"),
        (lambda queries: {"maps": queries.inputs}, "returned a dict; numbers of shape"),
        (lambda queries: map(abs, queries.inputs), "returned a map; numbers of shape"),
        (lambda queries: Exits(), "returned a Exits that is no array"),
    ],
)
def test_what_is_no_array_is_refused_by_its_kind_without_another_warning(method, words, models, inputs):
    with warnings.catch_warnings(record=True) as seen:
        with pytest.raises(BadInput, match=words):
            attribution.explain(method, models["signal"], inputs["signal"])
        gc.collect()
    assert not [str(warning.message) for warning in seen]  # such as of a coroutine that was never awaited


@pytest.mark.parametrize("closing", ["sys.stdout = None", "del sys.stdout", "sys.stdout.close()", "os.close(1)"])
def test_a_method_that_takes_standard_output_away_causes_no_traceback(
    closing, exported, inputs, tmp_path, quick_python
):
    (tmp_path / "own.py").write_text(f"import os, sys\ndef f(queries):\n    {closing}\n    return queries.inputs\n")
    np.save(tmp_path / "x.npy", inputs["signal"][:1])
    done = subprocess.run(
        [quick_python, "-m", "attribution.explain", f"--model={exported['signal']}", "--image=x.npy",
         "--methods=own.py:f"],
        capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.stderr.count("\n") <= 1 and "Traceback" not in done.stderr
    assert done.returncode == 0 if "close" not in closing else done.returncode == 2 and "error: " in done.stderr


def test_a_refusal_stays_as_it_is(own, models, inputs):
    with pytest.raises(BadInput, match=r"^not for signals$"):
        attribution.explain(f"{own}:refuses", models["signal"], inputs["signal"])


def test_what_the_project_itself_does_wrong_is_not_hidden(models, inputs, monkeypatch):
    method = METHODS["gradient_x_input"]
    broken = dataclasses.replace(method, function=functools.wraps(method.function)(lambda passes: passes.no_such_thing))
    with pytest.raises(AttributeError):
        attribution.explain(broken, models["signal"], inputs["signal"])


def test_the_working_directory_stays(tmp_path, monkeypatch, models, inputs):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "moves.py").write_text(
        "import os\nos.chdir('elsewhere')\n\n"
        "def moves(passes):\n    os.chdir('elsewhere')\n    return passes.inputs\n\n"
        "def fails(passes):\n    os.chdir('elsewhere')\n    raise ValueError\n"
    )
    monkeypatch.chdir(tmp_path)
    attribution.explain("moves.py:moves", models["signal"], inputs["signal"])
    assert pathlib.Path.cwd() == tmp_path
    with pytest.raises(BadInput):
        attribution.explain("moves.py:fails", models["signal"], inputs["signal"])
    assert pathlib.Path.cwd() == tmp_path


def test_processes_and_threads_of_users_code_end_as_they_like(tmp_path, models, inputs):
    (tmp_path / "forks.py").write_text(
        "import os\n\ndef forks(passes):\n"
        "    child = os.fork()\n    if not child:\n        os._exit(7)\n"
        "    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7\n    return passes.inputs\n"
    )
    end = os._exit
    attribution.explain(f"{tmp_path}/forks.py:forks", models["signal"], inputs["signal"])
    assert os._exit is end
