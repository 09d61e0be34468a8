"""Another package of the same name is told in one line, not by a traceback from the middle of it."""

import importlib
import sys

import pytest

from attribution.errors import BadInput
from attribution_benchmarks.core import package_conflicts
from attribution_benchmarks.core.registry import BENCHMARKS, benchmark_named


@pytest.mark.parametrize("name", BENCHMARKS)
def test_ours_are_ours(name):
    package_conflicts.check_own(BENCHMARKS[name].split(".")[0])


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


def test_another_before_ours_is_refused(authors_package):
    with pytest.raises(BadInput, match=r"'import bim' finds .*; another package of that name stands before it"):
        benchmark_named("bim")


def test_another_installed_over_ours_is_refused(tmp_path, monkeypatch):
    information = tmp_path / "bim-0.4.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: bim\nVersion: 0.4\n")
    (tmp_path / "bim").symlink_to(package_conflicts.HERE / "bim")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(BadInput, match=r"'bim' 0.4 is installed over"):
        package_conflicts.check_own("bim")
