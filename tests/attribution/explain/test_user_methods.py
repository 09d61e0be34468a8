"""What a method of one's own raises is told in one line, with the line of its file; a mistake of the project is not."""

import dataclasses
import functools
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


def ends(passes):
    raise SystemExit("bye")


class Unprintable(Exception):
    def __str__(self):
        raise self


def unprintable(passes):
    raise Unprintable


def recursive(passes):
    return recursive(passes)


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
        ("ends", 11, "SystemExit: bye"),
        ("unprintable", 20, "Unprintable: its message cannot be printed"),
        ("recursive", 24, "RecursionError: maximum recursion depth"),
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
