"""Rules that .importlinter and ruff cannot express, read from the files."""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = ("attribution", "attribution_benchmarks", "bim", "clevr_xai", "svea")


def test_no_module_has_a_vague_name():
    vague = {"utils", "util", "helpers", "helper", "misc", "common"}
    assert not [path for package in PACKAGES for path in (ROOT / package).rglob("*.py") if path.stem in vague]


def test_a_rest_client_imports_only_numpy():
    """Only the stubs of gRPC import TensorFlow, inside functions."""
    for path in (ROOT / "attribution_benchmarks" / "serving").glob("*.py"):
        for node in ast.parse(path.read_text()).body:  # not inside functions
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            assert not {name.split(".")[0] for name in names} & {"tensorflow", "keras", "google"}, path


def test_shared_packages_name_no_benchmark():
    """A fourth benchmark is a line of core/places.py and a folder."""
    named = re.compile(r"\b(svea|bim|clevr_xai)\b|CLEVR|\bSVEA\b|\bBIM\b")
    for package in ("stats", "report", "beam", "core", "metrics"):
        for path in (ROOT / "attribution_benchmarks" / package).rglob("*.*"):
            if path.suffix in (".py", ".jinja") and path.name not in ("places.py", "registry.py"):
                assert not named.search(path.read_text()), path


def test_package_changelog_and_citation_have_one_version():
    (version,) = re.findall('^__version__ = "(.+)"', (ROOT / "attribution/__init__.py").read_text(), re.MULTILINE)
    changelog = (ROOT / "CHANGELOG.md").read_text().replace("## Unreleased\n", "", 1)
    headings = re.findall(r"^## (\S+)(?: \((\S+)\))?$", changelog, re.MULTILINE)
    citation = (ROOT / "CITATION.cff").read_text()
    assert headings[0][0] == version
    assert f"\nversion: {version}\n" in citation
    assert f'\ndate-released: "{headings[0][1]}"\n' in citation


@pytest.mark.parametrize("listed", ["slow", "exhaustive"])
def test_listed_tests_exist(listed):
    first, *names = (ROOT / f"tests/{listed}.txt").read_text().splitlines()
    assert first.startswith("#") and len(set(names)) == len(names) > 5
    for name in names:
        file, _, function = name.partition("[")[0].partition("::")
        assert f"def {function}(" in (ROOT / file).read_text() or not function, name
