"""The report as two HTML pages: results and methods. Style, script and charts are inside; they load nothing.

The templates read the matrix, the tests of its columns and the results themselves.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Sequence
from typing import Any

from attribution.methods.registry import known_method
from attribution_benchmarks.core.definition import ORACLE, TRIVIAL_MAX, Benchmark, Column
from attribution_benchmarks.metrics.cards import Card, card_of
from attribution_benchmarks.report import charts, formatting, summary
from attribution_benchmarks.report.formatting import enumeration, templates
from attribution_benchmarks.report.matrix import Matrix
from attribution_benchmarks.report.results import ReportData, Result
from attribution_benchmarks.report.significance import MARGIN, baseline_record

PAGES = {"index": "Results", "methods": "Methods"}
_TEMPLATES = pathlib.Path(__file__).parent / "templates"


def pages(data: ReportData) -> dict[str, str]:
    """Return the pages, file name -> HTML; deterministic."""
    environment = templates(_TEMPLATES)
    matrix, tests, names = data.matrix, data.tests, data.names
    environment.globals.update(
        {name: getattr(formatting, name) for name in (
            "anchor", "cell_interval", "cell_score", "count_range", "known", "number", "rank",
            "score", "shown_path",
        )},
        names=names,
        of_score=lambda name, column: summary.of_score(name, column, matrix, tests.get(column.key), names),
        of_method=lambda name: summary.of_method(name, tests, names),
        card_of=_card, known_method=known_method, scale_of=charts.scale_of,
    )  # fmt: skip
    environment.filters["named"] = names
    kinds = sorted({one.kind for each in tests.values() for one in each.baselines if one.own})
    records = {name: baseline_record(name, tests.values()) for name in matrix.methods}
    values = {
        "pages": PAGES, "data": data, "matrix": matrix, "tests": tests,
        "columns": matrix.columns, "records": records, "margin": round(100 * MARGIN), "limit": MARGIN,
        "asides": {ORACLE: "an oracle", TRIVIAL_MAX: "a trivial maximum"},
        "by_marks": sorted(matrix.methods, key=lambda one: (not records[one].compared, -len(records[one].passed))),
        "own_first": sorted(matrix.methods, key=lambda name: not names.is_custom(name)),
        "kept": [
            (name, kind) for name in matrix.methods for kind in (*kinds, "")
            if any(one.strongest(name, kind) for one in tests.values())
        ],
        "files_of": {path.name: path.read_text(encoding="utf-8") for path in _TEMPLATES.glob("*.[cj]s*")},
        "heading": f"Attribution methods on {enumeration(matrix.groups() or (one.title for one in data.definitions))}",
        "settings_differ": ", ".join(one.report.method_note for one in data.definitions if one.report.method_note),
        "notes": [*data.notes, *(f"{one.task.title} is missing: {one.failed}" for one in data.results if one.failed)],
        "blanks": _blanks(matrix),
        "sections": [_section(one, data) for one in data.definitions],
        **_said(data),
        **_provenance(data.results),
    }  # fmt: skip
    return {f"{name}.html": environment.get_template(f"{name}.html.jinja").render(values, page=name) for name in PAGES}


def _said(data: ReportData) -> dict[str, Any]:
    """Return the sentences of the first page."""
    matrix, tests, names = data.matrix, data.tests, data.names
    reasons = {one.title: one.report.beside_paper for one in data.definitions if one.report.beside_paper}
    return {
        "scope": summary.scope(matrix), "headline": summary.headline(matrix, tests, names, data.custom),
        "advice": summary.advice(matrix, tests, names), "choices": summary.choices(matrix, tests, names),
        "undecided": summary.undecided(tests, names), "papers": list(summary.papers(matrix, reasons)),
        "against_baselines": summary.against_baselines(tests, names),
    }  # fmt: skip


def _blanks(matrix: Matrix) -> dict[tuple[str, str], dict[str, None]]:
    """Return (benchmark, reason) -> the methods that have no score there for this reason."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for name in matrix.methods:
        for column in matrix.columns:
            if reason := matrix.blanks.get((name, column.key)):
                found.setdefault((column.group, reason), {})[name] = None
    return found


@dataclasses.dataclass(frozen=True)
class Section:
    """What the page shows of a benchmark."""

    definition: Benchmark
    results: Sequence[Result]
    columns: Sequence[Column]
    controls: Sequence[tuple[str, str]]  # names of controls, and their descriptions
    others: Sequence[str]  # descriptions of metrics that are in tables only


def _section(definition: Benchmark, data: ReportData) -> Section:
    results = [result for result in data.results if result.task.benchmark == definition.name and not result.failed]
    columns = [column for column in data.matrix.columns if column.benchmark == definition.name]
    rows = [row for result in results for row in result.scores.rows]
    drawn = {column.metric for column in columns}
    about = definition.report.more_metrics
    others = [about[one] for one in dict.fromkeys(row["metric"] for row in rows) if one in about and one not in drawn]
    return Section(definition, results, columns, _controls(definition, columns, data), others)


def _controls(definition: Benchmark, columns: Sequence[Column], data: ReportData) -> list[tuple[str, str]]:
    """Return the printed name of each control that a benchmark has or applies to methods, and its description."""
    keys = {column.key for column in columns}
    scored = {name for name, key in data.matrix.cells if key in keys}
    conditions = {one.kind for key in keys & set(data.tests) for one in data.tests[key].baselines if one.own}
    about = {control.name: control.about for control in definition.controls}
    shown = [*filter(scored.__contains__, data.matrix.controls), *sorted(conditions)]
    return [(data.names(control), about[control]) for control in filter(about.get, shown)]


def _card(column: Column, definition: Benchmark) -> Card | None:
    """Return the card of a benchmark's own metric, or of one that all share."""
    own = any(one.name == column.metric for one in definition.metrics)
    return card_of(column.metric, definition.name) or (None if own else card_of(column.metric))


def _provenance(results: Sequence[Result]) -> dict[str, Any]:
    """Return the variables of commands, manifests and versions."""
    manifests = {result.task.name: result.scores.manifest for result in results if not result.failed}
    described = {
        name: {key: value for key, value in one.items() if key != "versions"} for name, one in manifests.items()
    }
    return {
        "manifest": json.dumps(described, indent=1, ensure_ascii=False),
        "versions": next((one["versions"] for one in manifests.values()), {}),
    }
