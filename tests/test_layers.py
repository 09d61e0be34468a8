"""No circle of imports, no arrow up, and no command line in a library module; the layers are in tools/layers.py."""

import functools

import pytest

from tools.layers import LAYERS, NOT_INSTALLED, arrows_up, circles, layer_of, read, with_command_line


@functools.cache
def project():
    return read([*LAYERS, *NOT_INSTALLED])


def test_no_modules_import_each_other():
    assert circles(project()) == []


def test_no_module_imports_one_of_a_higher_layer():
    assert arrows_up(project()) == []


def test_library_modules_do_not_import_the_command_line():
    assert with_command_line(project()) == []


@pytest.fixture
def made_up(tmp_path):
    """Return a function from the contents of a package's files, by name without suffix, to their syntax trees."""

    def written(**files):
        for name, content in files.items():
            file = tmp_path / "bim" / f"{name}.py"
            file.parent.mkdir(exist_ok=True, parents=True)
            file.write_text(content)
        return read(["bim"], tmp_path)

    return written


INSIDE = "def later():\n    from bim import second\n"
FOR_TYPES = "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from bim.second import Name\n"


@pytest.mark.parametrize("first", [INSIDE, "import bim.second\n", "from bim.second import Name\n"])
def test_a_circle_is_found_through_others_and_inside_functions(first, made_up):
    third = "class Other:\n    def method(self):\n        from bim.first import later\n"
    trees = made_up(first=first, second="from bim import third\n", third=third, fourth="import bim.first\n")
    assert circles(trees) == [["bim.first", "bim.second", "bim.third"]]


def test_an_import_for_types_closes_no_circle_but_is_an_arrow(made_up):
    trees = made_up(first=FOR_TYPES, second="from bim.first import Name\n")
    assert circles(trees) == []
    assert arrows_up(trees, {"bim": (("first",), ("second",))}) == [("bim.first", "bim.second")]
    assert arrows_up(trees, {"bim": (("first", "second"),)}) == []


def test_a_module_without_a_layer_and_a_relative_import_are_refused(made_up):
    with pytest.raises(ValueError, match=r"module bim\.second is in no layer"):
        arrows_up(made_up(first="", second=""), {"bim": (("first",),)})
    with pytest.raises(ValueError, match=r"'from \. import first' is relative"):
        circles(made_up(second="from . import first\n"))


def test_the_longest_name_decides_on_a_layer():
    layers = (("__init__", "core.batch"), ("core",), ("core.__init__", "core.batch.part"))
    names = ("bim", "bim.core.batch", "bim.core.batch.other", "bim.core.table", "bim.core", "bim.core.batch.part")
    assert [layer_of(name, layers) for name in names] == [0, 0, 0, 1, 2, 2]
    assert layer_of("bim.other", layers) is None


@pytest.mark.parametrize("line", ["import absl.flags", "from absl import flags", "from attribution import cli"])
def test_only_what_can_be_run_may_import_the_command_line(line, made_up):
    command = f'{line}\n\nif __name__ == "__main__":\n    pass\n'
    trees = made_up(library=f"def main():\n    {line}\n", command=command, **{"part/__main__": line})
    assert with_command_line(trees) == ["bim.library"]
