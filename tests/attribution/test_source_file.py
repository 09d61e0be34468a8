"""A file taken apart: which names its parts read from outside themselves, and what is done on import."""

import textwrap

import pytest

from attribution.source_file import SourceFile


def taken_apart(tmp_path, text, name="package.module"):
    path = tmp_path / "module.py"
    path.write_text(textwrap.dedent(text))
    return SourceFile(name, path)


def uses(tmp_path, text, name="f"):
    file = taken_apart(tmp_path, text)
    return {str(use) for use in file.uses(file.definitions[name])[0]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f(x): return g(x)", {"g"}),
        ("def f(g): return g(1)", set()),
        ("def f(x=g): return x", {"g"}),
        ("def f(x):\n g = x\n return g", set()),
        ("def f(x): return a.b.c(x)", {"a.b.c"}),
        ("def f(x): return (a + b).c", {"a", "b"}),
        ("def f(x): return [g for g in x if g]", set()),
        ("def f(x): return [y for y in x], g", {"g"}),
        ("def f(x): return [g for g in g]", {"g"}),
        ("def f(x): return {g: h for h in x}", {"g"}),
        ("def f(x): return lambda g: g + h", {"h"}),
        ("def f(x):\n def g(y): return y + h\n return g(x)", {"h"}),
        ("def f(x):\n from .near import g as h\n return h(x)", {"package.near.g"}),
        ("def f(x):\n import far.away\n return far.away.g(x)", {"far.away.g"}),
        ("def f(x):\n import far\n return x", {"far"}),
        ("def f(x):\n global g\n g = x", {"g"}),
        ("def f(x):\n try: return x\n except Error as g: return g", {"Error"}),
        ("def f(x):\n match x:\n  case {'a': g, **h}: return g, h\n  case Shape(): return k", {"Shape", "k"}),
        ("def f(x):\n with g() as h: return h", {"g"}),
        ("@g(h)\ndef f(x): return x", {"g", "h"}),
        ("class f(g, metaclass=h):\n k = 1\n m = k\n def n(self): return k", {"g", "h", "k"}),
        ("f = g + h", {"f", "g", "h"}),
        ("def f(x): return import_module('far.away').g", {"import_module", "far.away"}),
        ("def f(x): return globals()[x]", {"globals", "package.module"}),
    ],
)
def test_the_names_that_code_reads_from_outside(text, expected, tmp_path):
    assert uses(tmp_path, text) == expected


def test_types_of_arguments_are_told_apart_from_code(tmp_path):
    file = taken_apart(tmp_path, "def f(x: Shape, y: 'Size') -> Result: return Kind(x)")
    code, types = file.uses(file.definitions["f"])
    assert {str(use) for use in code} == {"Kind"}
    assert {str(use) for use in types} == {"Shape", "Size", "Result"}


@pytest.mark.parametrize(
    ("statement", "acts"),
    [
        ("X = 1", False),
        ("X: int = 1", False),
        ("'a text'", False),
        ("def f(): pass", False),
        ("class C: pass", False),
        ("@functools.cache\ndef f(): pass", False),
        ("@dataclasses.dataclass(frozen=True)\nclass C: pass", False),
        ("if __name__ == '__main__':\n print(1)", False),
        ("if TYPE_CHECKING:\n import far", False),
        ("import functools", False),
        ("print(1)", True),
        ("X['a'] = 1", True),
        ("far.setting = 1", True),
        ("@registry.entered\ndef f(): pass", True),
        ("for x in y: print(x)", True),
        ("import never_named", True),
    ],
)
def test_what_a_file_does_on_import(statement, acts, tmp_path):
    file = taken_apart(tmp_path, f"import dataclasses, functools, registry, far\nfrom typing import TYPE_CHECKING\n"
                       f"NAMED = (dataclasses, functools, registry, far, TYPE_CHECKING)\n{statement}\n")  # fmt: skip
    assert bool(file.effects) == acts


def test_names_that_a_condition_gives_are_defined_by_all_of_it(tmp_path):
    file = taken_apart(tmp_path, "try:\n import far as x\nexcept ImportError:\n x = None\n")
    assert str(file.imports["x"]) == "far"
    assert "x = None" in file.text(file.definitions["x"])


def test_the_text_leaves_out_what_changes_no_result_and_is_put_back(tmp_path):
    file = taken_apart(tmp_path, 'def f(x: int) -> int:\n    """Say."""  # so\n    return (x)\n')
    assert file.text(file.definitions["f"]) == "def f(x):\n    return x"
    assert {str(use) for use in file.uses(file.definitions["f"])[1]} == {"int"}


def test_types_that_choose_a_function_stay(tmp_path):
    file = taken_apart(tmp_path, "@shown.register\ndef f(x: int): return x")
    assert "x: int" in file.text(file.definitions["f"])
