"""The benchmarks by name, and custom ones by file."""

from __future__ import annotations

import importlib.util
import pathlib

from attribution.errors import BadInput, listed
from attribution.plugins import loaded_object
from attribution_benchmarks.core.definition import Benchmark
from attribution_benchmarks.core.places import BENCHMARKS

REPORTED = ("svea", "bim", "clevr_xai", "parts", "sequences")  # the default of a report
_HERE = pathlib.Path(__file__).resolve().parents[2]  # where our packages are, in a checkout or in an installation


def benchmark_named(name: str, flag: str = "--benchmarks") -> Benchmark:
    """Return a benchmark of ``BENCHMARKS``, or a custom one, ``module:NAME`` or ``file.py:NAME``.

    Raises ``BadInput``, with the ``flag`` that names it, if it does not exist, or another package has the name of the
    benchmark's.
    """
    if name not in BENCHMARKS and ":" not in name:
        raise BadInput(
            f"{flag} has no benchmark '{name}'; choose of {listed(BENCHMARKS)}, or name your own as file.py:NAME"
        )
    if name in BENCHMARKS:
        _check_package(BENCHMARKS[name].split(".")[0])
    return loaded_object(BENCHMARKS.get(name, name), Benchmark, flag)


def _check_package(package: str) -> None:
    """Raise ``BadInput`` if Python finds another package of this name, such as the one of a benchmark's authors."""
    found = importlib.util.find_spec(package)
    place = pathlib.Path(found.origin).resolve().parent if found and found.origin else None
    if place != _HERE / package:
        raise BadInput(
            f"'import {package}' finds {place or 'nothing'}, not this project's {_HERE / package}; another package of "
            f"that name comes first: pip uninstall {package}, or correct PYTHONPATH"
        )
