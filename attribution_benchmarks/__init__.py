"""Benchmarks of attribution methods: commands, statistics and tables, the report, served models.

Examples
--------
>>> results = attribution_benchmarks.score("my_method.py:my_function", benchmarks=["svea"])
>>> print(results.table())
>>> print(results.compare("gradient_x_input"))
>>> results.plot().savefig("scores.png")
>>> import svea
>>> attribution_benchmarks.evaluate(svea.BENCHMARK, ["lrp_epsilon", my_function], svea.Settings(seed=1))
"""

from typing import Any

from attribution import __version__

__all__ = ["Results", "Table", "__version__", "choose", "evaluate", "score"]


def __getattr__(name: str) -> Any:
    """Import the Python interface when it is first used: commands that print ``--help`` do without it."""
    if name not in ("Results", "Table", "choose", "evaluate", "score"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from attribution_benchmarks import api

    return getattr(api, name)


def __dir__() -> list[str]:
    """Return the public names, those that are imported later among them."""
    return __all__
