"""Benchmarks by name; another package of the same name gives one line."""

import importlib
import pathlib
import sys

import pytest

from attribution.errors import BadInput
from attribution_benchmarks.core.registry import BENCHMARKS, benchmark_named

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", BENCHMARKS)
def test_benchmarks_are_found_by_name(name):
    assert benchmark_named(name).name == name


@pytest.fixture
def authors_package(tmp_path, monkeypatch):
    """Put another package called bim before ours, as PYTHONPATH may."""
    (tmp_path / "bim").mkdir()
    (tmp_path / "bim" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.split(".")[0] == "bim"]:
        monkeypatch.delitem(sys.modules, name)
    importlib.invalidate_caches()
    return tmp_path


def test_another_package_before_ours_raises(authors_package):
    with pytest.raises(BadInput, match=r"'import bim' finds .*; another package of that name comes first"):
        benchmark_named("bim")
