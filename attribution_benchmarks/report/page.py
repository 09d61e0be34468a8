"""The report as one HTML page. Style, script and pictures are inside it; it loads nothing."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping, Sequence

from attribution_benchmarks.report import cards, gallery, images, sections, summary
from attribution_benchmarks.report.formatting import enumeration
from attribution_benchmarks.report.matrix import Agreement, Matrix
from attribution_benchmarks.report.results import ReportData, Result
from attribution_benchmarks.report.significance import MARGIN, ColumnTests, oracle_power

_FOLDER = pathlib.Path(__file__).parent
_LARGEST = 5_600_000  # characters of a page, about
_MARKUP = 600_000  # characters of it without pictures, maps and charts, at most


def page(
    matrix: Matrix,
    agreement: Agreement,
    tests: Mapping[str, ColumnTests],
    data: ReportData,
    compared: Mapping | None = None,
) -> str:
    """Return the page.

    Parameters
    ----------
    matrix, agreement, tests
        Of the documents in ``data``; tests by column key.
    data
        Results of the run.
    compared
        From ``report_diff.difference``.

    Returns
    -------
    str
        HTML; deterministic.
    """
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_file("page.html.jinja")).render(
        style=_file("page.css"),
        script=_file("page.js"),
        settings=data.settings,
        to_come=data.to_come,
        goes_on=data.goes_on,
        heading=f"Attribution methods on {enumeration(one.title for one in data.definitions)}",
        settings_differ=", ".join(one.method_note for one in data.definitions if one.method_note),
        notes=[*data.notes, *(f"{one.title} is missing: {one.failed}" for one in data.results if one.failed)],
        columns=matrix.columns,
        compared=compared,
        own=data.custom,
        **_findings(matrix, agreement, tests, data),
        **_inputs(matrix, tests, data),
        **_provenance(data.results),
    )


def _file(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _findings(matrix: Matrix, agreement: Agreement, tests: Mapping[str, ColumnTests], data: ReportData) -> dict:
    """Return the variables of headline, matrix, summary, agreement and power."""
    names = data.names
    lines = sections.matrix_lines(matrix, tests, names)
    reasons = {one.title: one.beside_paper for one in data.definitions if one.beside_paper}
    return {
        "headline": ("Preliminary results", "")  # of few inputs: no verdicts
        if data.to_come
        else summary.headline(matrix, tests, names, [name for name in data.custom if name in matrix.methods]),
        "facts": summary.sizes(matrix),
        "summary": summary.summary(matrix, agreement, tests, names, reasons),
        "groups": sections.groups(matrix),
        "families": list(dict.fromkeys(line["family"] for line in lines)),
        "lines": lines,
        "margin": round(100 * MARGIN),
        "advice": [] if data.to_come else summary.advice(matrix, tests, names),
        "kept": sections.kept_lines(matrix, tests, names),
        "controls": sections.control_lines(matrix, names),
        "blanks": sections.blanks(matrix, names),
        "concordances": sections.concordances(agreement),
        "power": sections.power_lines(oracle_power(matrix, data.scores), names),
        "common": [names(name) for name in matrix.common],
        "correlations": sections.correlations(matrix, agreement),
    }


def _inputs(matrix: Matrix, tests: Mapping[str, ColumnTests], data: ReportData) -> dict:
    """Return the variables of benchmarks, examples and cards, and the data of the script.

    Examples get the space that charts, pictures and scores leave.
    """
    names = data.names
    benchmarks = [sections.benchmark(one, matrix, tests, data.results, names) for one in data.definitions]
    scores = gallery.all_scores(matrix, data.scores, tests)
    found = gallery.examples(matrix, data.results, data.scores)
    pictures = gallery.pictures_of(matrix, data.results, data.scores)
    packed = gallery.packed(found, pictures, _LARGEST - _MARKUP - _size(benchmarks, scores))
    kept = {(one["unit"], one["input"], tuple(one["columns"])) for one in packed["examples"]}
    examples = [one for one in found if (one.task, one.example.input, one.columns) in kept]
    every_card = cards.cards(matrix, tests, examples, names, {one.name: one.title for one in data.definitions})
    by_task: dict[str, list] = {}
    for place, one in enumerate(examples):
        by_task.setdefault(one.task, []).append((place, one.example.title))
    script_data = {
        "titles": {name: names(name) for name in (*matrix.methods, *matrix.controls)},
        "order": list(matrix.methods),
        "own": list(filter(names.is_custom, matrix.methods)),
        "ramp": images.RAMP,
        "columns": sections.script_columns(matrix),
        "cells": sections.cell_details(matrix, tests, names),
        "gallery": packed["examples"],
        "pictures": packed["pictures"],
        "scores": scores,
    }
    return {
        "benchmarks": benchmarks,
        "hero": gallery.hero(examples, matrix, names),
        "gallery": list(by_task.items()),
        "drilled": [one["title"] for one in scores],
        "cards": every_card,
        # No "<" in the data can end the script element.
        "data": json.dumps(script_data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"),
    }


def _size(benchmarks: Sequence[Mapping], scores: Sequence[Mapping]) -> int:
    """Return the number of characters of pictures, line charts and scores."""
    pictures = [picture.source for one in benchmarks for picture in one["pictures"]]
    panels = [panel["svg"] for one in benchmarks for trend in one["trends"] for panel in trend["panels"]]
    return sum(map(len, [*pictures, *panels, *(one["numbers"] for one in scores)]))


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
