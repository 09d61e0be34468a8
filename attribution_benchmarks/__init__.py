"""Benchmarks of attribution methods: commands, statistics and tables, the report, served models.

Examples
--------
>>> scores = attribution_benchmarks.score(["my_method.py:my_function", "gradient"], benchmarks=["svea"])
>>> print(scores)
>>> scores.frame  # pandas: a row for each input, method, control, metric and network
>>> scores.compare("my_method.py:my_function", "gradient")
>>> import svea
>>> attribution_benchmarks.evaluate(svea.BENCHMARK, ["lrp_epsilon", my_function], svea.Settings(seed=1))
"""

from typing import Any

from attribution import __version__

__all__ = ["Scores", "__version__", "choose", "evaluate", "score"]


def __getattr__(name: str) -> Any:
    """Import the Python interface when it is first used: commands that print ``--help`` do without it."""
    if name not in ("Scores", "choose", "evaluate", "score"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from attribution_benchmarks import api

    return getattr(api, name)


def __dir__() -> list[str]:
    """Return the public names, those that are imported later among them."""
    return __all__
