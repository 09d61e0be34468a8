"""The notebooks of docs/tutorials are complete, and what they use of this project exists.

They need packages with weights, so they are not run here.
"""

import ast
import importlib
import pathlib
import re

import nbformat
import pytest

import attribution

ROOT = pathlib.Path(__file__).resolve().parents[2]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))


def texts(cell):
    """Return what a cell prints and shows as text; consecutive pieces of a stream are one."""
    printed = "".join(output.text for output in cell.get("outputs", []) if output.output_type == "stream")
    shown = [output.data["text/plain"] for output in cell.outputs if "data" in output] if "outputs" in cell else []
    return [printed, *(text for text in shown if "<Figure" not in text and "Drawing" not in text)]


def pictures(cell):
    return [one for one in cell.get("outputs", []) if {"image/png", "image/jpeg"} & one.get("data", {}).keys()]


def only_results(kept):
    """Check that no warning of a library and no path of the machine that ran it is stored."""
    outputs = [output for cell in kept.cells for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"]
    assert sum(len(pictures(cell)) for cell in kept.cells) >= 1
    for cell in kept.cells:
        assert not re.search(r"/tmp/|/home/|/root/", "".join(texts(cell)) if cell.cell_type == "code" else "")


def code_of(notebook):
    sources = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return [ast.parse(source) for source in sources if not source.startswith("%pip ")]


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
