"""The report as a few HTML pages. Style, script and pictures are inside each; they load nothing.

The forest plot of a custom method shows its scores minus those of its relatives, metric by metric.
"""

from __future__ import annotations

import collections
import json
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from attribution_benchmarks.report import charts, gallery, images, sections, summary
from attribution_benchmarks.report.formatting import Names, count_of, enumeration, signed, templates
from attribution_benchmarks.report.matrix import Agreement, Matrix
from attribution_benchmarks.report.results import ReportData, Result
from attribution_benchmarks.report.significance import INPUTS_FOR_MARK, MARGIN, ColumnTests, kind_of, oracle_power
from attribution_benchmarks.stats.statistics import LEVEL, PairComparison

PAGES = {"index": "Overview", "tables": "Tables", "methods": "Methods", "examples": "Examples", "about": "About"}
_TEMPLATES = pathlib.Path(__file__).parent / "templates"
_LARGEST = 5_000_000  # characters of pictures, maps and scores of a page, about


def pages(
    matrix: Matrix,
    agreement: Agreement,
    tests: Mapping[str, ColumnTests],
    data: ReportData,
) -> dict[str, str]:
    """Return the pages, file name -> HTML; deterministic.

    Matrix, agreement and tests, by column key, are of the documents in ``data``.
    """
    environment = templates(_TEMPLATES)
    values = {
        "pages": PAGES,
        "files_of": {path.name: path.read_text(encoding="utf-8") for path in _TEMPLATES.glob("*.[cj]s*")},
        "settings": data.settings,
        "to_come": data.to_come,
        "goes_on": data.goes_on,
        "heading": f"Attribution methods on {enumeration(matrix.groups() or (one.title for one in data.definitions))}",
        "settings_differ": ", ".join(one.report.method_note for one in data.definitions if one.report.method_note),
        "notes": [*data.notes, *(f"{one.title} is missing: {one.failed}" for one in data.results if one.failed)],
        "columns": matrix.columns,
        "own": data.custom,
        **_findings(matrix, agreement, tests, data),
        **_inputs(matrix, tests, data),
        **_provenance(data.results),
    }
    return {f"{name}.html": environment.get_template(f"{name}.html.jinja").render(values, page=name) for name in PAGES}


def _verdicts(
    matrix: Matrix, agreement: Agreement, tests: Mapping[str, ColumnTests], power: Any, data: ReportData
) -> dict[str, Any]:
    """Return the variables of headline, advice and forest plots; of a preliminary report they are empty."""
    if data.to_come:
        return {
            "headline": ("Preliminary results", ""), "advice": (), "choices": (), "undecided": (), "forests": {},
        }  # fmt: skip
    names, custom = data.names, [name for name in data.custom if name in matrix.methods]
    return {
        "headline": summary.headline(matrix, tests, names, data.custom),
        "advice": summary.advice(matrix, tests, names),
        "choices": summary.choices(matrix, tests, names, _about(matrix, data)),
        "undecided": summary.undecided(matrix, agreement, tests, power, names),
        "forests": {name: forest(name, matrix, tests, names, data.parents.get(name, ())) for name in custom},
    }


def _about(matrix: Matrix, data: ReportData) -> dict[str, str]:
    """Return key of a column -> the first sentence on its metric."""
    known = {one.name: one.about_metric for one in data.definitions}
    columns = [column for column in matrix.columns if column.benchmark in known]
    texts = {column.key: known[column.benchmark](column.metric).partition(". ")[0] for column in columns}
    return {key: f"{text.rstrip('.')}." for key, text in texts.items() if text}


def _findings(matrix: Matrix, agreement: Agreement, tests: Mapping[str, ColumnTests], data: ReportData) -> dict:
    """Return the variables of headline, advice, forest plots, matrix, summary, agreement and power."""
    names = data.names
    lines = sections.matrix_lines(matrix, tests, names)
    reasons = {one.title: one.report.beside_paper for one in data.definitions if one.report.beside_paper}
    power = oracle_power(matrix, data.scores)
    return {
        **_verdicts(matrix, agreement, tests, power, data),
        "facts": summary.sizes(matrix),
        "names": names,
        "summary": summary.summary(matrix, agreement, tests, names, reasons),
        "groups": sections.groups(matrix),
        "families": list(dict.fromkeys(line["family"] for line in lines)),
        "lines": sorted(lines, key=lambda line: (not line["compared"], -line["passes"])),
        "margin": round(100 * MARGIN), "inputs_for_mark": INPUTS_FOR_MARK,
        "kept": sections.kept_lines(matrix, tests, names),
        "controls": sections.control_lines(matrix, names),
        "blanks": sections.blanks(matrix, names),
        "concordances": sections.concordances(agreement),
        "power": sections.power_lines(power, names),
        "common": [names(name) for name in matrix.common],
        "not_compared": matrix.groups_not_compared(),
        "correlations": sections.correlations(matrix, agreement),
        "matrix_data": _json({
            "titles": {name: names(name) for name in matrix.methods},
            "columns": sections.script_columns(matrix),
            "cells": sections.cell_details(matrix, tests, names),
            "drilled": [key for key, one in tests.items() if one.tested],
        }),
    }  # fmt: skip


def _inputs(matrix: Matrix, tests: Mapping[str, ColumnTests], data: ReportData) -> dict:
    """Return the variables of benchmarks, examples and cards, and the data of the script of the examples."""
    names = data.names
    scores = gallery.all_scores(matrix, data.scores, tests)
    found = gallery.examples(matrix, data.results, data.scores)
    pictures = gallery.pictures_of(matrix, data.results, data.scores)
    packed = gallery.packed(found, pictures, _LARGEST - sum(len(one["numbers"]) for one in scores))
    kept = {(one["unit"], one["input"], tuple(one["columns"])) for one in packed["examples"]}
    examples = [one for one in found if (one.task, one.example.input, one.columns) in kept]
    by_task: dict[str, list] = {}
    for place, one in enumerate(examples):
        by_task.setdefault(one.task, []).append((place, one.example.title))
    return {
        "benchmarks": [sections.benchmark(one, matrix, tests, data.results, names) for one in data.definitions],
        "hero": gallery.hero(examples, matrix, names),
        "gallery": list(by_task.items()),
        "drilled": [one["title"] for one in scores],
        "cards": gallery.cards(matrix, tests, examples, names, {one.name: one.title for one in data.definitions}),
        "examples_data": _json({
            "titles": {name: names(name) for name in (*matrix.methods, *matrix.controls)},
            "order": list(matrix.methods),
            "own": list(filter(names.is_custom, matrix.methods)),
            "ramp": images.RAMP,
            "columns": sections.script_columns(matrix),
            "gallery": packed["examples"],
            "pictures": packed["pictures"],
            "scores": scores,
        }),
    }  # fmt: skip


def _json(value: Any) -> str:
    """Return JSON without "<", which could end a script element."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _provenance(results: Sequence[Result]) -> dict:
    """Return the variables of files, commands, manifests and versions."""
    manifests = {result.title: result.document["manifest"] for result in results if result.document}
    described = {
        result.name: {key: value for key, value in result.document["manifest"].items() if key != "versions"}
        for result in results
        if result.document
    }
    return {
        "files": _files(results),
        "manifest": json.dumps(described, indent=1, ensure_ascii=False),
        "commands": [(title, one["command"]) for title, one in manifests.items()],
        "versions": next((one["versions"] for one in manifests.values()), {}),
    }


def _files(results: Sequence[Result]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return title -> files, each with its path relative to the page."""
    kinds = {"text": "txt", "CSV": "csv", "JSON": "json", "Markdown": "md"}

    def tables(stem: str, shown: Sequence[str] = tuple(kinds)) -> list[tuple[str, str]]:
        return [(kind, f"tables/{stem}.{kinds[kind]}") for kind in shown]

    found = [
        ("The matrix", tables("matrix")),
        ("Agreement", tables("agreement", ("text", "JSON", "Markdown"))),
        ("Every paired test", [("CSV", "tables/pairs.csv")]),
    ]
    for result in results:
        if result.document:
            found.append((result.title, tables(result.name)))
            if result.pictures:
                pictures = [
                    (one.stem.replace("_", " "), f"pictures/{result.name}/{one.name}") for one in result.pictures
                ]
                found.append((f"{result.title}: pictures", pictures))
    return [*found, ("Fingerprints of models and data", [("manifest", "manifest.json")])]


_AT_MOST = 5  # relatives on one metric


def forest(
    name: str, matrix: Matrix, tests: Mapping[str, ColumnTests], names: Names, parents: Sequence[str] = ()
) -> dict | None:
    """Return the forest plot of a method; None if no metric has enough inputs.

    Its relatives are its ``parents``, the methods that it varies, and the methods of its family; without any, the best
    method.

    Returns
    -------
    dict
        ``panels``, one for each metric, with a line for each relative and for the strongest baseline; ``sentences``;
        ``related``, whether the method has relatives. Differences are positive where the method is better.
    """
    tested = [one for one in tests.values() if name in one.tested and one.has_power()]
    relatives = _relatives(name, matrix, names, parents)
    panels = [_panel(name, one, relatives, matrix, names) for one in tested]
    if not panels:
        return None
    found: dict[str, collections.Counter] = {}
    for panel in panels:
        for line in panel["lines"]:
            other = line["title"] if relatives else "the best other method"
            who = "the strongest baseline" if line["baseline"] else other
            found.setdefault(who, collections.Counter())[line["verdict"]] += 1
    return {"panels": panels, "sentences": list(map(_sentence, found, found.values())), "related": bool(relatives)}


def _relatives(name: str, matrix: Matrix, names: Names, parents: Sequence[str]) -> list[str]:
    """Return the methods that a method varies, then the others of its family."""
    others = [one for one in matrix.methods if one not in (*parents, name)]
    return [
        *(one for one in parents if one in matrix.methods),
        *(one for one in others if names.family(one) == names.family(name)),
    ]


def _panel(name: str, tests: ColumnTests, relatives: Sequence[str], matrix: Matrix, names: Names) -> dict:
    """Return the lines of one metric, all with one scale."""
    column, strongest = tests.column, _strongest_baseline(tests, matrix)
    others = [one for one in tests.tested if one != name]
    shown = [one for one in relatives if one in others][:_AT_MOST] if relatives else others[:1]
    pairs = [test for one in (*shown, *strongest) if (test := tests.lead(name, one)) and math.isfinite(test.difference)]
    rows = [
        {"value": test.difference, "low": test.low, "high": test.high,
         "kind": "control" if test.second in strongest else "own"}
        for test in pairs
    ]  # fmt: skip
    scale = charts.scale_of(rows, percent=False)
    return {
        "title": column.label, "scale": str(scale), "less": not column.higher_is_better,
        "lines": [
            {
                "title": names(kind_of(test.second)), "baseline": test.second in strongest, "verdict": _verdict(test),
                "svg": charts.difference(row, scale), "text": signed(test.difference, column),
                "interval": f"{signed(test.low, column)} to {signed(test.high, column)}",
            }
            for test, row in zip(pairs, rows, strict=True)
        ],
    }  # fmt: skip


def _strongest_baseline(tests: ColumnTests, matrix: Matrix) -> list[str]:
    """Return the name of the best of the baselines that methods are compared with; empty without any."""
    best = max if tests.column.higher_is_better else min
    values = {test.second: matrix.cells[test.second, tests.column.key]["value"] for test in tests.leads}
    return [best(values, key=values.__getitem__)] if values else []


def _verdict(test: PairComparison) -> str:
    if not test.p_corrected < LEVEL:
        return "undecided"
    return "better" if test.difference > 0 else "worse"


def _sentence(who: str, counts: collections.Counter) -> str:
    """Return "Against Grad-CAM: better on 3 metrics, undecided on 2 metrics"."""
    said = [f"{verdict} on {count_of(counts[verdict], 'metric')}" for verdict in ("better", "worse", "undecided")
            if counts[verdict]]  # fmt: skip
    return f"Against {who}: {enumeration(said)}."
