"""The benchmarks by name, and those of the user's own by file: the only place that knows which there are."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from attribution.errors import BadInput, listed
from attribution.plugins import refuse_file_alone
from attribution_benchmarks.core.definition import Benchmark
from attribution_benchmarks.core.package_conflicts import check_own
from attribution_benchmarks.core.plugins import loaded

BENCHMARKS: Mapping[str, str] = MappingProxyType(
    {
        "svea": "svea.definition:BENCHMARK",
        "bim": "bim.definition:BENCHMARK",
        "clevr_xai": "clevr_xai.definition:BENCHMARK",
        "exact": "attribution_benchmarks.exact.definition:BENCHMARK",
    }
)
# A report has these unasked. Methods of layers have nothing to say of vectors: with exact truth among the columns, no
# class activation map would be common to all, and rankings would be compared without them.
REPORTED = ("svea", "bim", "clevr_xai")


def benchmark_named(name: str) -> Benchmark:
    """Return a benchmark.

    Parameters
    ----------
    name
        Of ``BENCHMARKS``; or ``module:NAME`` or ``file.py:NAME`` of the user's own.

    Raises
    ------
    BadInput
        If there is none.
    """
    refuse_file_alone(name, "--benchmarks", functions=False)
    if name not in BENCHMARKS and ":" not in name:
        raise BadInput(f"no benchmark '{name}'; choose of {listed(BENCHMARKS)}, or name your own as file.py:NAME")
    if name in BENCHMARKS:
        check_own(BENCHMARKS[name].split(".")[0])
    return loaded(BENCHMARKS.get(name, name), Benchmark, "--benchmarks")
