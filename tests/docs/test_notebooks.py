"""The notebooks run from the first cell to the last, and the outputs kept in them are what they compute.

The one that trains a network runs with ``-m exhaustive``; tests/docs/test_own_models.py has the page on the same.
docs/tutorials needs packages with weights: of its notebooks only the calls of this project are checked.
"""

import ast
import importlib
import importlib.util
import pathlib
import re

import nbformat
import numpy as np
import pytest

import attribution

ROOT = pathlib.Path(__file__).resolve().parents[2]
NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[-+]?\d+)?")
# Absolute; what is printed is rounded. A network that is trained on another processor is another one, by a little.
TOLERANCE = {"first_steps": 0.11, "own_model": 4.0}
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))


def run_notebooks():
    specification = importlib.util.spec_from_file_location("notebooks", ROOT / "tools" / "docs" / "notebooks.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(params=sorted(TOLERANCE))
def kept(request):
    return nbformat.read(ROOT / "docs" / f"{request.param}.ipynb", as_version=4)


def texts(cell):
    """Return what a cell prints and shows as text; consecutive pieces of a stream are one."""
    printed = "".join(output.text for output in cell.get("outputs", []) if output.output_type == "stream")
    shown = [output.data["text/plain"] for output in cell.outputs if "data" in output] if "outputs" in cell else []
    return [printed, *(text for text in shown if "<Figure" not in text and "Drawing" not in text)]


def pictures(cell):
    return [one for one in cell.get("outputs", []) if {"image/png", "image/jpeg"} & one.get("data", {}).keys()]


@pytest.mark.parametrize("name", ["first_steps", "own_model"])
def test_what_is_kept_is_what_is_computed(name):
    path = ROOT / "docs" / f"{name}.ipynb"
    kept, computed = nbformat.read(path, as_version=4), run_notebooks().executed(path)
    nbformat.validate(kept)
    for before, after in zip(kept.cells, computed.cells, strict=True):
        assert before.source == after.source
        assert len(pictures(before)) == len(pictures(after))
        assert len(texts(before)) == len(texts(after))
        for old, new in zip(texts(before), texts(after), strict=True):
            assert NUMBER.sub("#", old).split() == NUMBER.sub("#", new).split()
            np.testing.assert_allclose(
                [float(number) for number in NUMBER.findall(new)],
                [float(number) for number in NUMBER.findall(old)],
                atol=TOLERANCE[name],
            )


def test_nothing_but_results_is_kept(kept):
    """No warnings of libraries, no path of the machine that ran it."""
    only_results(kept)


def only_results(kept):
    outputs = [output for cell in kept.cells for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"]
    assert sum(len(pictures(cell)) for cell in kept.cells) >= 1
    for cell in kept.cells:
        assert not re.search(r"/tmp/|/home/|/root/", "".join(texts(cell)) if cell.cell_type == "code" else "")


def test_the_methods_scored_are_all_in_the_table(kept):
    printed = "\n".join(texts(cell)[0] for cell in kept.cells if cell.cell_type == "code")
    for title in ("Vanilla Gradient", "sharpened", "True template position"):
        assert sum(line.startswith(title + " ") for line in printed.splitlines()) == 1


def code_of(notebook):
    return [ast.parse(cell.source) for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_tutorials_are_complete(path):
    """Every cell has been run in order, without error; the file is small enough for a repository."""
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    only_results(notebook)
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))
    assert path.stat().st_size < 1_500_000


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_what_tutorials_use_exists(path):
    """Names of this project's modules, and methods with their parameters in ``{"label": ("method", {...})}``."""
    found = set()
    for tree in code_of(nbformat.read(path, as_version=4)):
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "attribution":
                module = importlib.import_module(node.module)
                assert all(hasattr(module, name.name) for name in node.names), ast.unparse(node)
            if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "attribution":
                assert node.attr in attribution.__all__, node.attr
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
                found |= methods_in(node.value)
    assert {"integrated_gradients", "grad_cam"} <= found


def methods_in(dictionary):
    """Return the names of methods among a dictionary's values; they must have the parameters given."""
    names = set()
    for value in dictionary.values:
        name, options = value.elts if isinstance(value, ast.Tuple) and len(value.elts) == 2 else (value, None)
        if isinstance(name, ast.Constant) and name.value in attribution.METHODS:
            keys = {key.value for key in options.keys} if options else set()
            assert keys <= set(attribution.METHODS[name.value].defaults), ast.unparse(value)
            names.add(name.value)
        else:
            assert options is None or not isinstance(options, ast.Dict), f"no method {ast.unparse(value)}"
    return names
