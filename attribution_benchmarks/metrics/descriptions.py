"""How to read metrics, as data: title, direction, text, bounds and cost, in TOML files beside their functions."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Mapping
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read_toml(path: pathlib.Path) -> dict[str, Any]:
    """Return the content of a TOML file."""
    return tomllib.loads(path.read_text("utf-8"))


def read_descriptions(path: pathlib.Path) -> Mapping[str, dict[str, Any]]:
    """Return name of a metric -> arguments of ``core.metric.Metric``, from a file with a table for each metric."""
    found = read_toml(path)
    return {name: {**each, "bounds": tuple(each["bounds"])} if "bounds" in each else each
            for name, each in found.items()}  # fmt: skip


DESCRIPTIONS = read_descriptions(pathlib.Path(__file__).with_name("metrics.toml"))  # of the metrics of all benchmarks
