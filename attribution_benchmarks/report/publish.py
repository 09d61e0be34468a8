"""Write what stands above the single tables: matrix, paired tests, agreement, manifest and page.

Everything is a function of the files that the units left, so it can be written again without computing a score.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping, Sequence

from attribution.file_io.files import atomic_write
from attribution_benchmarks.core import manifest, tables
from attribution_benchmarks.core.definition import Benchmark, Column
from attribution_benchmarks.core.fingerprint import code_fingerprint
from attribution_benchmarks.core.input_scores import InputScores
from attribution_benchmarks.core.store import ScoreStore
from attribution_benchmarks.report import matrix as matrices
from attribution_benchmarks.report import matrix_table, page, report_diff, sections, significance, summary
from attribution_benchmarks.report.page import Result
from attribution_benchmarks.stats import comparisons
from attribution_benchmarks.stats.comparisons import CachedTests

FILES = (
    *(f"tables/matrix.{suffix}" for suffix in ("txt", "csv", "json", "md")),
    "tables/pairs.csv",
    *(f"tables/agreement.{suffix}" for suffix in ("txt", "json", "md")),
    "manifest.json",
    "index.html",
)


def publish(
    directory: pathlib.Path,
    results: Sequence[Result],
    scores: Mapping[str, Sequence[InputScores]],
    definitions: Sequence[Benchmark],
    columns: Sequence[Column],
    titles: Mapping[str, str],
    settings: Mapping[str, str],
    reasons: Mapping[tuple[str, str], str] | None = None,
    own: Sequence[str] = (),
    notes: Sequence[str] = (),
    seed: int = 0,
    other: report_diff.Other | None = None,
    families: Mapping[str, str] | None = None,
) -> str:
    """Write ``FILES`` below a directory, each whole or not at all; paired tests are kept in its store of scores.

    Parameters
    ----------
    directory
        The report's.
    results
        What the units gave, failed ones included.
    scores
        Benchmark -> its input scores.
    definitions
        The benchmarks, in the order of the page.
    columns
        Of the matrix.
    titles, settings, own, notes
        As of ``report.page``.
    reasons
        As of ``matrix.build``.
    seed
        Of draws and permutations.
    other
        Another report to compare with.
    families
        As of ``matrix.agreement``.

    Returns
    -------
    str
        Matrix and agreement as text.
    """
    documents = [result.document for result in results if result.document]
    built = matrices.build(documents, columns, reasons)
    agreement = matrices.agreement(built, seed, families)
    judged = significance.judge(built, scores, seed, _tests(directory, seed))
    rows = matrix_table.long_rows(built, judged)
    described = {
        "benchmark": "all",
        "command": settings["command"],
        "seed": seed,
        "tables": {
            result.name: {"failed": result.failed} if result.document is None else dict(result.document["manifest"])
            for result in results
        },
    }
    parts, marked = [], []
    for markdown, shown in ((False, parts), (True, marked)):
        shown += [
            matrix_table.wide(built, judged, titles, markdown),
            matrix_table.LEGEND + "\n",
            summary.scope(built) + "\n",
            *([matrix_table.power_table(judged, markdown)] if judged else []),
        ]
    agreed, marked_agreed = (
        list(filter(None, (matrix_table.agreement_table(agreement, markdown),
                           matrix_table.correlation_table(built, agreement, markdown))))
        for markdown in (False, True)
    )  # fmt: skip
    folder = directory / "tables"
    atomic_write(folder / "matrix.txt", "\n".join(parts))
    atomic_write(folder / "matrix.md", "\n".join(marked))
    atomic_write(folder / "matrix.csv", tables.to_csv(rows))
    atomic_write(folder / "matrix.json", tables.to_json(rows, described))
    atomic_write(folder / "pairs.csv", pairs_csv(matrix_table.pair_rows(judged)))
    atomic_write(folder / "agreement.txt", "\n".join(agreed))
    atomic_write(folder / "agreement.md", "\n".join(marked_agreed))
    atomic_write(folder / "agreement.json", _json(matrix_table.concordance_document(built, agreement)))
    atomic_write(directory / "manifest.json", _json(described))
    changed = report_diff.difference(built, scores, other, sections.Names(titles, own), seed) if other else None
    atomic_write(
        directory / "index.html",
        page.page(
            built, agreement, judged, results, definitions, titles, settings, own, notes, scores, changed, families
        ),
    )
    return "\n".join([*parts, *agreed])


def _tests(directory: pathlib.Path, seed: int) -> CachedTests:
    """Return the tests that are kept beside the scores: most pairs are those of the run before."""
    depends = {"tests": code_fingerprint(comparisons.compare_pairs), "draws": comparisons.DRAWS, "seed": seed}
    store = ScoreStore(str(directory / "work" / "scores"))
    return CachedTests(store.series(**depends, versions=manifest.versions()))


def pairs_csv(rows: Sequence[Mapping]) -> str:
    """Return paired tests as comma-separated values, in the order of their keys; what does not exist is empty."""
    import csv
    import io

    stream = io.StringIO()
    names = list(rows[0]) if rows else ["benchmark", "column", "family", "first", "second"]
    writer = csv.DictWriter(stream, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {name: "" if value != value or value is None else value for name, value in row.items()} for row in rows
    )
    return stream.getvalue()


def _json(document) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
