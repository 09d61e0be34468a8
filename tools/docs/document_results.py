"""Write the tables of docs/results.md, docs/baseline_shares.csv and docs/more_networks.csv from the published scores.

    python -m tools.docs.document_results

The sentences about the tables, and README's extract, are written by hand; tests/docs/test_readme.py compares them with
the tables.

Cost: half a minute.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence

from attribution_benchmarks.core.registry import REPORTED, benchmark_named
from attribution_benchmarks.core.tables import markdown_table
from attribution_benchmarks.report import published
from attribution_benchmarks.report.presets import columns_of
from attribution_benchmarks.report.publish import long_rows, wide_table
from attribution_benchmarks.report.reproduce import titles
from attribution_benchmarks.report.results import ReportData, Result
from tools.docs.page_parts import ROOT, replace_parts

PAGE = ROOT / "docs" / "results.md"
COLUMNS = ("ROE %", "Drop %", "Incr. %", "MCS", "IDR", "IIR", "mass, s.", "rank, s.", "mass, c.", "rank, c.")
MORE = {"xai_tris": ("distance", "rank", "signs", "mask"),
        **dict.fromkeys(("exact", "xai_units"), ("distance", "rank", "signs"))}  # fmt: skip
NETWORKS = ("benchmark", "method", "column", "networks", "score", "mark", "reached", "low", "high", "headroom")
OWN = ("random_weights", "wrong_class", "permuted_question")  # the method's own maps under a control condition
SHARES = ("baseline", "method", "column", "share_percent", "low", "high")
KINDS: dict[str, Callable[[str], bool]] = {  # name of a kind of baseline -> whether it has a baseline
    "random weights": lambda kind: kind == "random_weights",
    "wrong class": lambda kind: kind == "wrong_class",
    "no network": lambda kind: kind not in OWN,
}


def data_of(benchmarks: Sequence[str]) -> ReportData:
    """Return the published scores of some benchmarks as a report has them."""
    definitions = list(map(benchmark_named, benchmarks))
    sets = sorted(published.sets(benchmarks), key=lambda one: benchmarks.index(one.benchmark))
    columns = [column for one in definitions for column in columns_of(one)]
    found = [(one.tasks[0], published.with_rows(one.scores, one.tasks[0])) for one in sets]
    return ReportData([Result(*one) for one in found], definitions, columns, titles(definitions))


def matrix_tables(data: ReportData) -> dict[str, str]:
    """Return the tables of methods and of baselines by ``COLUMNS``, the first ones of the matrix, without ranks.

    They have the rows with a score there.
    """
    _, body = wide_table(data, with_ranks=False)
    rows = [[cell.replace("n/a", " n/a") for cell in line[: 1 + len(COLUMNS)]] for line in body]
    shown = [line for line in rows if set(line[1:]) != {"–"}]
    between = shown.index([])
    parts = {"method": shown[:between], "baseline": shown[between + 1 :]}
    return {name: markdown_table([name, *COLUMNS], part) for name, part in parts.items()}


def share_rows(rows: Sequence[Mapping]) -> list[list[str]]:
    """Return ``SHARES`` of each score: what the strongest baseline of each kind reaches, in percent."""
    names = titles(list(map(benchmark_named, REPORTED)))
    labels = dict(zip(dict.fromkeys(row["column"] for row in rows), COLUMNS, strict=False))
    return [
        [baseline, names[row["method"]], labels[row["column"]], *_percent(one)]
        for baseline, is_shown in KINDS.items()
        for row in rows
        if row["column"] in labels and (one := _strongest(row, is_shown))
    ]


def _strongest(row: Mapping, is_shown: Callable[[str], bool]) -> Mapping | None:
    known = [one for one in row.get("baselines", ()) if is_shown(one["kind"]) and one["share"] is not None]
    return max(known, key=lambda each: each["share"], default=None)


def _percent(baseline: Mapping) -> list[str]:
    return [f"{100 * baseline[end]:.3f}" for end in ("share", "low", "high")]


def network_rows(rows: Sequence[Mapping], labels: Sequence[str]) -> list[list[str]]:
    """Return ``NETWORKS`` of each score that the matrix has not: its mark, and what baselines reach.

    ``labels`` are of the first columns. The headroom is empty where no oracle is.
    """
    names = titles(list(map(benchmark_named, REPORTED)))
    columns = dict(zip(dict.fromkeys(row["column"] for row in rows), labels, strict=False))
    found = []
    for row in rows:
        count = len(row.get("networks", ()))
        if row["kind"] != "control" and row["value"] is not None and row["column"] in columns:
            label, strongest = columns[row["column"]], _strongest(row, bool)
            digits = 1 if label.endswith("%") else 3
            room = f"{100 * row['headroom_share']:.0f}" if "headroom_share" in row else ""
            shares = _percent(strongest) if strongest else [""] * 3
            score = f"{row['value']:.{digits}f}"
            found.append([row["benchmark"], names[row["method"]], label, str(max(count, 1)), score,
                          row.get("mark", ""), *shares, room])  # fmt: skip
    return found


def network_table(found: Sequence[Sequence[str]], labels: Sequence[str]) -> str:
    """Return the scores of ``network_rows`` with their marks, a row for each method."""
    methods: dict[str, dict[str, str]] = {}
    for _, method, label, _, score, mark, *_ in found:
        methods.setdefault(method, {})[label] = f"{score}{f' {mark}' if len(mark) > 1 else mark}"
    return markdown_table(["method", *labels], [[name, *(row.get(label, "–") for label in labels)]
                                                for name, row in methods.items()])  # fmt: skip


def main() -> None:
    """Replace the parts of docs/results.md that are between their comments, and write the data beside it."""
    reported, more = data_of(REPORTED), data_of(list(MORE))
    rows = long_rows(more.matrix, more.tests)
    of = {name: [row for row in rows if row["benchmark"] == name] for name in MORE}
    found = [one for name, labels in MORE.items() for one in network_rows(of[name], labels)]
    path = PAGE.with_name("more_networks.csv")
    with open(path, newline="", encoding="utf-8") as file:
        others = [row for row in csv.reader(file) if row[0] not in (NETWORKS[0], *MORE)]
    tetrominoes = [one for one in found if one[0] == "xai_tris"]
    replace_parts(PAGE, {"tetrominoes": network_table(tetrominoes, MORE["xai_tris"]), **matrix_tables(reported)})
    shares = share_rows(long_rows(reported.matrix, reported.tests))
    for written, lines in (
        (path, [NETWORKS, *others, *found]),
        (PAGE.with_name("baseline_shares.csv"), [SHARES, *shares]),
    ):
        with open(written, "w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(lines)


if __name__ == "__main__":
    main()
