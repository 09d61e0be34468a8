"""What a method of one's own raises is told in one line, with the line of its file; a mistake of the project is not."""

import dataclasses
import functools
import os
import pathlib

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
    ],
)
def test_the_line_of_the_users_file_is_named(own, models, inputs, name, line, words):
    with pytest.raises(BadInput) as caught:
        attribution.explain(f"{own}:{name}", models["signal"], inputs["signal"])
    assert str(caught.value).startswith(f"method '{own}:{name}' failed at {own}, line {line}: {words}")
    assert "\n" not in str(caught.value) and caught.value.__cause__ is not None


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
