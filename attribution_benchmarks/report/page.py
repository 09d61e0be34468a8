"""One HTML page of everything: headline, matrix, a card a method, maps to look at, every metric's table, what it means.

The page is a function of what the benchmarks wrote. It loads nothing: style, script and pictures stand inside it.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping, Sequence

from attribution_benchmarks.core.definition import Benchmark
from attribution_benchmarks.core.input_scores import InputScores
from attribution_benchmarks.report import cards, gallery, headline, painting, power, sections, summary
from attribution_benchmarks.report.matrix import Agreement, Matrix
from attribution_benchmarks.report.matrix_table import agreement_rows, number, span
from attribution_benchmarks.report.sections import Result
from attribution_benchmarks.report.significance import Verdicts

_FOLDER = pathlib.Path(__file__).parent
LARGEST = 5_600_000  # characters of a page, about


def page(
    matrix: Matrix,
    agreement: Agreement,
    verdicts: Sequence[Verdicts],
    results: Sequence[Result],
    definitions: Sequence[Benchmark],
    titles: Mapping[str, str],
    settings: Mapping[str, str],
    own: Sequence[str] = (),
    notes: Sequence[str] = (),
    scores: Mapping[str, Sequence[InputScores]] | None = None,
    compared: Mapping | None = None,
    families: Mapping[str, str] | None = None,
) -> str:
    """Return the page.

    Parameters
    ----------
    matrix, agreement, verdicts
        Of the documents in ``results``.
    results
        In the order of the page.
    definitions
        The benchmarks, in the order of their sections.
    titles
        Method or control -> name to print.
    settings
        What to say of the run: ``command`` and any other words.
    own
        Methods of the user's own, to be marked.
    notes
        Sentences for the top of the page: what a user's own method or model was refused for, for instance.
    scores
        Benchmark -> its input scores.
    compared
        From ``compared.difference``; None where no other report is beside it.
    families
        Method -> family, as of ``matrix.agreement``.

    Returns
    -------
    str
        HTML; the same arguments give the same bytes.
    """
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    scores = scores or {}
    judged = {verdict.column.key: verdict for verdict in verdicts}
    named = sections.Names(titles, own, families)
    examples = gallery.examples(matrix, results, scores)
    benchmarks = [sections.benchmark(definition, matrix, judged, results, named) for definition in definitions]
    every_score = gallery.all_scores(matrix, scores, verdicts)
    taken = sum(len(picture.source) for benchmark in benchmarks for picture in benchmark["pictures"])
    taken += sum(len(one["numbers"]) for one in every_score)
    taken += sum(len(panel["svg"]) for one in benchmarks for trend in one["trends"] for panel in trend["panels"])
    packed = gallery.packed(examples, gallery.pictures_of(matrix, results, scores), LARGEST - 600_000 - taken)
    kept = [one for one in examples if (one.unit, one.shown.input, one.columns) in _kept(packed)]
    every_card = cards.cards(matrix, judged, kept, named, {one.name: one.title for one in definitions})
    lines = sections.matrix_lines(matrix, judged, named)
    data = {
        "titles": {name: named(name) for name in (*matrix.methods, *matrix.controls)},
        "order": list(matrix.methods),
        "own": [name for name in matrix.methods if named.own(name)],
        "ramp": painting.RAMP,
        "columns": [
            {
                "key": column.key, "label": column.label, "title": column.title, "group": column.group,
                "less": not column.higher_is_better, "digits": 1 if column.percent else 3,
            }
            for column in matrix.columns
        ],
        "cells": sections.told(matrix, judged, named),
        "gallery": packed["examples"],
        "pictures": packed["pictures"],
        "scores": every_score,
    }  # fmt: skip
    units: dict[str, list] = {}
    for place, one in enumerate(kept):
        units.setdefault(one.unit, []).append((place, one.shown.title))
    return environment.from_string((_FOLDER / "page.html.jinja").read_text(encoding="utf-8")).render(
        style=(_FOLDER / "page.css").read_text(encoding="utf-8"),
        script=(_FOLDER / "page.js").read_text(encoding="utf-8"),
        # Nothing in the data may end the script that holds it.
        data=json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"),
        settings=settings,
        heading=f"Attribution methods on {_joined([definition.title for definition in definitions])}",
        headline=headline.headline(matrix, judged, named, [name for name in own if name in matrix.methods]),
        facts=headline.facts(matrix),
        hero=headline.hero(kept, matrix, named),
        settings_differ=", ".join(definition.method_note for definition in definitions if definition.method_note),
        notes=[*notes, *(f"{result.title} is missing: {result.failed}" for result in results if result.failed)],
        summary=summary.sentences(matrix, agreement, verdicts, titles, _reasons(definitions)),
        groups=sections.groups(matrix),
        families=list(dict.fromkeys(line["family"] for line in lines)),
        lines=lines,
        any_untested=any(verdict.untested(name) for verdict in verdicts for name in verdict.tested),
        controls=sections.control_lines(matrix, named),
        blanks=sections.blanks(matrix, named),
        concordances=[
            {
                **row,
                "over": row["over"][0].upper() + row["over"][1:],
                "w": number(row["w"]),
                "interval": span(row["low"], row["high"]),
                "chance": number(row["chance"]),
                "p": number(row["p_value"], 4),
            }
            for row in agreement_rows(agreement)
        ],
        power=sections.power_lines(power.ranked(matrix, scores), named),
        common=[titles.get(name, name) for name in matrix.common],
        correlations=sections.correlations(matrix, agreement),
        columns=matrix.columns,
        benchmarks=benchmarks,
        cards=[one for one in every_card if not one["own"]],
        own_cards=[one for one in every_card if one["own"]],
        scripted=bool(kept),
        gallery=list(units.items()),
        drilled=[one["title"] for one in every_score],
        compared=compared,
        own=own,
        files=_files(results),
        manifest=json.dumps(_manifest(results), indent=1, ensure_ascii=False),
        commands=[(result.title, result.document["manifest"]["command"]) for result in results if result.document],
        versions=next((result.document["manifest"]["versions"] for result in results if result.document), {}),
    )


def _kept(packed: Mapping) -> set[tuple]:
    return {(one["unit"], one["input"], tuple(one["columns"])) for one in packed["examples"]}


def _reasons(definitions: Sequence[Benchmark]) -> dict[str, str]:
    """Return a benchmark's printed name -> why its figures differ from the paper's."""
    return {definition.title: definition.beside_paper for definition in definitions if definition.beside_paper}


def _joined(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _files(results: Sequence[Result]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return what there is -> its files, each with its place beside the page."""
    kinds = {"text": "txt", "CSV": "csv", "JSON": "json", "Markdown": "md"}

    def tables(stem: str, shown: Sequence[str] = tuple(kinds)) -> list[tuple[str, str]]:
        return [(kind, f"tables/{stem}.{kinds[kind]}") for kind in shown]

    found = [("The matrix", tables("matrix")), ("Agreement", tables("agreement", ("text", "JSON", "Markdown")))]
    found.append(("Every paired test", [("CSV", "tables/pairs.csv")]))
    for result in results:
        if result.document:
            found.append((result.title, tables(result.name)))
            if result.pictures:
                drawn = [
                    (path.stem.replace("_", " "), f"pictures/{result.name}/{path.name}") for path in result.pictures
                ]
                found.append((f"{result.title}: pictures", drawn))
    return [*found, ("What all was computed from", [("manifest", "manifest.json")])]


def _manifest(results) -> dict:
    return {
        result.name: {key: value for key, value in result.document["manifest"].items() if key != "versions"}
        for result in results
        if result.document
    }
