"""One HTML page of everything: summary, matrix, agreement, every metric's table with bars, pictures, how to read them.

The page is a function of what the benchmarks wrote. It loads nothing: style, script and pictures stand inside it.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping, Sequence

from attribution_benchmarks.report import sections, summary
from attribution_benchmarks.report.matrix import Agreement, Matrix
from attribution_benchmarks.report.matrix_table import agreement_rows, number, span
from attribution_benchmarks.report.sections import Result
from attribution_benchmarks.report.verdicts import Verdicts
from attribution_benchmarks.scoring.benchmark import Benchmark

_TEMPLATE = pathlib.Path(__file__).with_name("page.html.jinja")


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

    Returns
    -------
    str
        HTML; the same arguments give the same bytes.
    """
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    judged = {verdict.column.key: verdict for verdict in verdicts}
    named = sections.Names(titles, own)
    return environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(
        settings=settings,
        heading=f"Attribution methods on {_joined([definition.title for definition in definitions])}",
        settings_differ=", ".join(definition.method_note for definition in definitions if definition.method_note),
        notes=[*notes, *(f"{result.title} is missing: {result.failed}" for result in results if result.failed)],
        summary=summary.sentences(matrix, agreement, verdicts, titles),
        groups=sections.groups(matrix),
        lines=sections.matrix_lines(matrix, judged, named),
        controls=sections.control_lines(matrix, named),
        blanks=sections.blanks(matrix, named),
        concordances=[
            {
                **row,
                "over": row["over"][0].upper() + row["over"][1:],
                "w": number(row["w"]),
                "interval": span(row["low"], row["high"]),
                "p": number(row["p_value"], 4),
            }
            for row in agreement_rows(agreement)
        ],
        common=[titles.get(name, name) for name in matrix.common],
        correlations=sections.correlations(matrix, agreement),
        columns=matrix.columns,
        benchmarks=[sections.benchmark(definition, matrix, judged, results, named) for definition in definitions],
        own=own,
        manifest=json.dumps(_manifest(results), indent=1, ensure_ascii=False),
        commands=[(result.title, result.document["manifest"]["command"]) for result in results if result.document],
        versions=next((result.document["manifest"]["versions"] for result in results if result.document), {}),
    )


def _joined(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _manifest(results) -> dict:
    return {
        result.name: {key: value for key, value in result.document["manifest"].items() if key != "versions"}
        for result in results
        if result.document
    }
