"""Unit tests of behavior after XAI-Units (Lee et al., FAccT 2025): hand-set networks, each with one known difficulty.

They complement the problems of ``exact.definition`` with gates, Boolean functions, shattered gradients, and irrelevant
features that are correlated with relevant ones; ``problems.toml`` has them.
"""

from __future__ import annotations

import pathlib

from attribution_benchmarks.core.report_text import ReportText
from attribution_benchmarks.exact.definition import define, read_problems

PROBLEMS = read_problems("xai_units")
BENCHMARK = define(
    "xai_units",
    "XAI-Units",
    ReportText.load(pathlib.Path(__file__).with_name("xai_units_report.toml")),
    "exact/units",
    PROBLEMS,
)
