"""Scores as rows, means over inputs with their intervals, and rows as text, CSV, JSON and Markdown.

Every benchmark returns its scores in long form, one dictionary per number::

    {"method": "rise", "metric": "drop", "value": 7.9, "low": 6.8, "high": 9.1, "n": 1000, "paper": 7.64,
     "kind": "method"}

``kind`` is "method", "control" or "peer"; ``paper`` is None where the paper has no figure. A benchmark may add keys. A
value that is not a number is written as null (JSON) or left empty, with the reason in the row's ``reason``.
``score_rows`` and ``curve_rows`` return the long form, ``save`` writes it to a file, ``wide`` formats it for reading.
"""

from __future__ import annotations

import csv
import io
import json
import math
import pathlib
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from attribution.errors import printable
from attribution.files import atomic_write, check_file
from attribution_benchmarks.core.batch import MapSource, by_kind
from attribution_benchmarks.core.input_scores import InputScores
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.stats import statistics

if TYPE_CHECKING:
    from attribution_benchmarks.core.evaluator import Results

COLUMNS = ("method", "metric", "value", "low", "high", "n", "paper", "kind")
SUFFIXES = (".json", ".csv", ".md", ".txt")
ALONG = "removed"  # key of a row's position on a curve, such as an insertion curve


def check_output(path: str, suffixes: Sequence[str] = SUFFIXES, flag: str = "output") -> None:
    """Raise ``BadInput``, before any work is done, if ``save`` could not write a file.

    ``path`` is the user's ``--output``; empty or None means no file. Refused are another suffix, a directory, and a
    directory that cannot be made or written to. ``flag`` is named in the message.
    """
    check_file(flag, path or "", suffixes)


def save(
    path: str, rows: Sequence[Mapping[str, Any]], manifest: Mapping[str, Any], text: str, markdown: str | None = None
) -> None:
    """Write rows to a file in the format of its suffix, whole or not at all; one that exists is replaced.

    Parameters
    ----------
    path
        Checked as by ``check_output``. JSON and Markdown hold the manifest too; CSV and text hold the rows alone.
    rows
        Scores in long form.
    manifest
        Result of ``manifest.describe_run``.
    text, markdown
        Content of a ``.txt`` or ``.md`` file: what the command printed. Only ``.json`` and ``.csv`` hold the long form,
        which has thousands of rows. Without ``markdown`` the text is a code block.
    """
    check_output(path)
    file = pathlib.Path(path)
    content = {
        ".json": lambda: to_json(rows, manifest),
        ".csv": lambda: to_csv(rows),
        ".md": lambda: _with_manifest(_block(text) if markdown is None else markdown, manifest),
        ".txt": lambda: text,
    }[file.suffix]()
    atomic_write(file, content)


def report(heading: Sequence[str], table: str, notes: Sequence[str], width: int | None) -> str:
    """Return heading, table and notes; notes as wrapped text, or as a Markdown list where width is None."""
    heading, notes = ([printable(line) for line in lines] for lines in (heading, notes))
    if width is None:
        heading, notes = ([_without_markup(line) for line in lines] for lines in (heading, notes))
        return "\n\n".join(heading) + f"\n\n{table}\n" + "".join(f"- {note}\n" for note in notes)
    wrapped = [textwrap.fill(note, width, subsequent_indent="  ") for note in notes]
    return "\n".join(["\n".join(heading), "", table, *wrapped]) + "\n"


def _block(text: str) -> str:
    """Return text as a Markdown code block with a fence longer than any in the text."""
    longest = max((len(found) for found in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text.rstrip()}\n{fence}\n"


def _with_manifest(markdown: str, manifest: Mapping[str, Any]) -> str:
    """Return Markdown with the manifest below it, as a block of JSON."""
    return f"{markdown}\n```json\n{_json(dict(manifest), indent=1)}\n```\n"


def to_json(rows: Sequence[Mapping[str, Any]], manifest: Mapping[str, Any]) -> str:
    """Return the JSON document ``{"benchmark", "rows", "manifest"}``, one row a line."""
    manifest = dict(manifest)
    benchmark = manifest.pop("benchmark", None)
    lines = ",\n  ".join(_json(row, allow_nan=False) for row in map(_plain, rows))
    rows_text = f"[\n  {lines}\n ]" if lines else "[]"
    manifest_text = _json(manifest, indent=1, allow_nan=False).replace("\n", "\n ")
    return f'{{\n "benchmark": {json.dumps(benchmark)},\n "rows": {rows_text},\n "manifest": {manifest_text}\n}}\n'


def _json(document: Any, **options: Any) -> str:
    """Return JSON for people: only characters that cannot be printed or change the direction of text are escaped."""
    text = json.dumps(document, ensure_ascii=False, **options)
    return "\n".join("".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line) for line in text.split("\n"))


def to_csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = COLUMNS) -> str:
    """Return comma-separated values with a header line; missing values are empty, other keys follow ``columns``."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerows([[_no_formula(cell) for cell in line] for line in _cells(rows, columns)])
    return stream.getvalue()


def _no_formula(cell: str) -> str:
    """Return a cell that a spreadsheet reads as text: an apostrophe precedes the start of a formula."""
    if not cell.startswith(("=", "+", "-", "@")):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def markdown_table(header: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; columns of numbers are aligned to the right."""
    rule = ["---:" if right else "---" for right in _numeric_columns(body, len(header))]
    lines = [[_escaped(str(cell)) for cell in line] for line in (header, rule, *body)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _escaped(cell: str) -> str:
    """Return a cell without characters that end the cell."""
    return _without_markup(printable(cell)).replace("|", r"\|")


def _without_markup(text: str) -> str:
    """Return text for Markdown without HTML, pictures, and links that lead out of the page."""
    return re.sub(r"\]\((?!#)", r"]\(", text.replace("<", "&lt;"))


def text_table(header: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Return a table aligned with spaces, ruled below the header; an empty line of the body becomes a rule."""
    header, body = [*map(printable, header)], [[printable(cell) for cell in line] for line in body]
    widths = [max(len(line[i]) for line in (header, *body) if line) for i in range(len(header))]
    rule = "  ".join("-" * width for width in widths)
    right = _numeric_columns(body, len(header))

    def aligned(line: Sequence[str]) -> str:
        cells = [
            cell.rjust(width) if numeric else cell.ljust(width)
            for cell, width, numeric in zip(line, widths, right, strict=True)
        ]
        return "  ".join(cells).rstrip()

    return "\n".join([aligned(header), rule, *(aligned(line) if line else rule for line in body)]) + "\n"


def wide(
    rows: Sequence[Mapping[str, Any]],
    metrics: Mapping[str, str],
    titles: Mapping[str, str] = MappingProxyType({}),
    markdown: bool = False,
    decimals: Mapping[str, int] = MappingProxyType({}),
) -> str:
    """Return a table for reading: a line per method, and per metric our figure, its interval, the paper's figure.

    Missing figures are dashes; columns without a paper's figure are skipped. ``ValueError`` for two rows of the same
    cell.

    Parameters
    ----------
    rows
        Scores in long form. Methods, controls and peers form groups and keep their order. A row with ``std`` shows it
        after the figure.
    metrics
        Metric -> heading, in the order of the columns; other metrics are skipped.
    titles
        Method -> printed name; by default the method's name.
    markdown
        Markdown instead of aligned text.
    decimals
        Decimals of our figures by metric, 1 of others. The paper's keep theirs where they have more.
    """
    selected = _by_kind(rows, metrics)
    cells = {(row["method"], row["metric"]): row for row in selected}
    if len(cells) < len(selected):
        raise ValueError("several rows have the same metric and method")
    with_paper = {row["metric"] for row in selected if row.get("paper") is not None}
    header = ["method"]
    for metric, heading in metrics.items():
        header += [heading, "95 %", *(["paper"] if metric in with_paper else [])]
    kinds = {method: row.get("kind") for (method, _), row in cells.items()}

    def line(method: str) -> list[str]:
        found = [titles.get(method, method)]
        for metric in metrics:
            figures = _figures(cells.get((method, metric), {}), decimals.get(metric, 1))
            found += figures if metric in with_paper else figures[:2]
        return found

    body = [line(method) for method in kinds]
    return markdown_table(header, body) if markdown else text_table(header, _ruled(body, list(kinds.values())))


def _figures(row: Mapping[str, Any], decimals: int) -> list[str]:
    """Return a row's figure, its interval such as "62.3–68.1", and the paper's figure; dashes for missing ones."""
    figure = number(row.get("value"), decimals)
    if row.get("std") is not None:
        figure += f" ± {number(row['std'], decimals)}"
    low, high = (number(row.get(end), decimals) for end in ("low", "high"))
    interval = "–" if "–" in (low, high) else f"{low}–{high}"
    return [figure, interval, _as_published(row.get("paper"), decimals)]


def _ruled(body: list[list[str]], kinds: Sequence[Any]) -> list[list[str]]:
    """Return lines with an empty one, which becomes a rule, wherever the kind changes."""
    ruled = []
    for number, line in enumerate(body):
        if number and kinds[number - 1] is not None and kinds[number] != kinds[number - 1]:
            ruled.append([])
        ruled.append(line)
    return ruled


def _by_kind(rows: Sequence[Mapping[str, Any]], metrics: Mapping[str, str]) -> list[Mapping[str, Any]]:
    """Return the rows of some metrics: methods first, then controls, then others; a stable sort."""
    order = {"method": 0, "control": 1}
    selected = [row for row in rows if row["metric"] in metrics]
    return sorted(selected, key=lambda row: order.get(str(row.get("kind")), 2))


def number(value: float | None, decimals: int = 2) -> str:
    """Return a number with fixed decimals, a rounded zero without sign; a dash if it is missing or not finite."""
    if value is None or not math.isfinite(value):
        return "–"
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def _as_published(value: float | None, decimals: int) -> str:
    """Return a paper's figure with all its decimals and at least ``decimals``; a dash if it is missing."""
    own = len(repr(float(value)).partition(".")[2]) if value is not None else 0
    return number(value, max(decimals, own))


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row with built-in types, and None with a reason for values that are not finite."""
    plain = {}
    for name, value in row.items():
        if hasattr(value, "tolist"):
            value = value.tolist()
        if _not_finite(value):
            value = None
            plain.setdefault("reason", row.get("reason") or f"{name} is not a finite number")
        elif isinstance(value, (list, tuple)):
            value = [None if _not_finite(item) else item for item in value]
        plain[name] = value
    return plain


def _not_finite(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _cells(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> list[list[str]]:
    """Return header and lines as text: the columns, then the benchmark's keys."""
    rows = [_plain(row) for row in rows]
    columns = list(dict.fromkeys([*columns, *(name for row in rows for name in row)]))

    def cell(value: object) -> str:
        if value is None:
            return ""
        if isinstance(value, (list, dict)):
            return json.dumps(value)
        return printable(str(value))

    return [columns, *([cell(row.get(name)) for name in columns] for row in rows)]


def _numeric_columns(body: Sequence[Sequence[str]], count: int) -> list[bool]:
    """Return for each column whether it holds only numbers, ranges of numbers and dashes."""

    def numeric(cell: str) -> bool:
        return all(character in "0123456789.+-–±e, " for character in cell)

    return [all(numeric(line[i]) for line in body if line) for i in range(count)]


def row_kind(source: MapSource) -> str:
    """Return the ``kind`` of a row: "method", "control", or "peer" for a method of another library."""
    from attribution import METHODS

    if source.control:
        return "control"
    return "peer" if source.method in METHODS and METHODS[source.method].library else "method"


def control_row(
    source: MapSource, metric: str, values: npt.ArrayLike, rate: float | None = None, **settings: Any
) -> dict[str, Any]:
    """Return the row of a method under the controls of one kind: of each input's mean over them.

    ``values`` are (K, N), of K controls of the kind and N inputs, all of them defined; ``rate`` and ``settings`` are
    those of ``statistics.mean_interval``. In the row, which has the keys of ``tables``, ``of`` is the method and
    ``control`` the control. With several controls, ``networks`` holds the mean of each, in the order of their numbers;
    NaN without values.
    """
    values = np.asarray(values, np.float64)
    several = len(values) > 1
    estimate = statistics.mean_interval(values.T, rate=rate, **settings)
    row = {"method": source.name, "metric": metric, **estimate._asdict(), "paper": None, "kind": "control",
           "of": source.method, "control": source.control}  # fmt: skip
    if several:
        row["networks"] = values.mean(axis=1).tolist() if values.size else [np.nan] * len(values)
    return row


def score_rows(
    sources: Iterable[MapSource], groups: Sequence[InputScores], metrics: Mapping[str, Metric]
) -> list[dict[str, Any]]:
    """Return one row for each metric and source; undefined inputs are dropped and counted in ``undefined``.

    A method under several random networks has one row, see ``control_row``.
    """
    rows = []
    for group in groups:
        metric = metrics[group.where["metric"]]
        for source, members in by_kind(sources).items():
            columns = np.array([group.values[member.name] for member in members], np.float64)
            defined = np.isfinite(columns.mean(axis=0))
            clusters = None if group.clusters is None else np.asarray(group.clusters)[defined]
            settings: dict[str, Any] = {"clusters": clusters, "bounds": metric.bounds}
            if source.method and source.control:
                row = control_row(source, metric.name, columns[:, defined], metric.hit, **settings)
                if source not in members:  # random networks, be it one alone
                    row.setdefault("networks", [row["value"]])
            else:
                estimate = statistics.mean_interval(columns[0, defined], rate=metric.hit, **settings)
                row = {"method": source.name, "metric": metric.name, **estimate._asdict(), "paper": None,
                       "kind": row_kind(source)}  # fmt: skip
            row["undefined"] = int((~defined).sum())
            if not defined.any():
                row["reason"] = "undefined for every input"
            rows.append(row)
    return rows


def curve_name(metric: Metric) -> str:
    """Return the name of a metric's curve in rows, such as ``insertion_curve``."""
    return f"{metric.name}_curve"


def curve_points(
    metric: Metric, curves: npt.NDArray[np.float64], clusters: statistics.Clusters = None
) -> list[dict[str, Any]]:
    """Return the mean curve of some inputs with its intervals, one row per point; none without inputs.

    ``curves`` are (N, points) numbers of a metric with ``curve``; inputs with NaN are dropped. ``clusters`` is the
    cluster of each input; None for independent inputs. Rows have ``metric``, ``value``, ``low``, ``high``, ``n``,
    ``paper`` and ``removed``.
    """
    curves = np.asarray(curves, np.float64)
    known = np.isfinite(curves).all(axis=1)
    curves = curves[known]
    if not len(curves):
        return []
    kept = None if clusters is None else np.asarray(clusters)[known]
    found = statistics.means(curves, kept)
    low, high = np.nan_to_num(found.intervals(), nan=np.inf)  # clipped below
    least, most = metric.bounds or (-np.inf, np.inf)
    means = curves.mean(axis=0)
    return [
        {
            "metric": curve_name(metric), "value": float(mean), "low": float(np.clip(min(a, mean), least, most)),
            "high": float(np.clip(max(b, mean), least, most)), "n": len(curves), "paper": None, ALONG: share,
        }
        for mean, a, b, share in zip(means, low, high, metric.curve, strict=True)
    ]  # fmt: skip


def curve_rows(
    results: Results, metrics: Iterable[Metric], clusters: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Return the points of the curves of some metrics, a row each, of methods and model-independent controls."""
    return [
        {"method": source.name, **point, "kind": row_kind(source)}
        for metric in metrics
        if metric.curve and metric.measure
        for source in results.sources
        if not (source.method and source.control)
        for point in curve_points(metric, results.numbers(source, metric.measure)[:, 1:], clusters)
    ]


def format_controls(
    rows: Iterable[dict[str, Any]], titles: Mapping[str, str], figure: Callable[[float], str]
) -> tuple[str, int]:
    """Return rows of random networks as text, "Gradient 0.41 [0.38, 0.44]", and the number of networks.

    The value is the mean over the networks; the brackets hold the lowest and the highest of several.
    """
    rows = list(rows)
    each = [
        f"{titles[row['of']]} {figure(row['value'])}"
        + (f" [{figure(min(row['networks']))}, {figure(max(row['networks']))}]" if "networks" in row else "")
        for row in rows
    ]
    return ", ".join(each), max((len(row.get("networks", "1")) for row in rows), default=0)


def undefined_notes(groups: Iterable[InputScores]) -> list[str]:
    """Return a sentence for the metrics that are undefined for equally many inputs, which are left out."""
    found: dict[tuple[int, int, int], list[str]] = {}
    for group in groups:
        columns = [np.asarray(column, np.float64) for column in group.values.values()]
        counts = [int(np.isnan(column).sum()) for column in columns]
        if any(counts):
            found.setdefault((min(counts), max(counts), len(columns[0])), []).append(str(group.where["metric"]))
    return [
        f"{', '.join(dict.fromkeys(metrics))}: undefined for {least}{f' to {most}' if most > least else ''} of {count} "
        f"inputs{', by method' if most > least else ''}, which are left out."
        for (least, most, count), metrics in found.items()
    ]
