"""The rows and tables of a run: means with intervals, spread, controls, and the poster's figures beside ours.

The poster of CLEVR-XAI has relevance mass accuracy, simple questions, ground truth Single Object: mean, standard
deviation and median for all correctly answered questions, for those with a softmax above 0.99999, and for those with a
mask of more than 1,000 pixels. It states neither its pooling nor the baseline of its Integrated Gradients, so its one
row is listed next to each of ours.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from attribution_benchmarks.core import tables
from attribution_benchmarks.core.batch import MapSource, by_kind
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.scores import InputScores
from attribution_benchmarks.core.tables import curve_points
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY
from attribution_benchmarks.stats import statistics
from clevr_xai import methods
from clevr_xai.answering import Measured
from clevr_xai.methods import BASELINES
from clevr_xai.metrics import (
    ACCURACIES,
    CONFIDENCE,
    HEADING,
    MASK_PIXELS,
    METRICS,
    PLACES,
    POOLINGS,
    SUBSETS,
    Summary,
    subset_members,
    subset_title,
    summary,
)

POSTER = {"metric": "mass", "questions": "simple", "ground_truth": "single_object"}  # what its figures are of


class _Figure(NamedTuple):
    """Mean, standard deviation and median."""

    mean: float
    std: float
    median: float


_POSTER = {
    "lrp_clevr_xai": ((0.85, 0.17, 0.91), (0.90, 0.09, 0.93), (0.91, 0.09, 0.94)),
    "excitation_backprop": ((0.80, 0.20, 0.87), (0.85, 0.14, 0.90), (0.88, 0.13, 0.92)),
    "integrated_gradients": ((0.71, 0.27, 0.81), (0.75, 0.25, 0.85), (0.80, 0.24, 0.90)),
    "guided_backprop": ((0.58, 0.20, 0.62), (0.63, 0.16, 0.66), (0.76, 0.13, 0.78)),
    "guided_grad_cam": ((0.58, 0.24, 0.63), (0.64, 0.21, 0.68), (0.83, 0.13, 0.86)),
    "smoothgrad": ((0.60, 0.33, 0.69), (0.61, 0.33, 0.72), (0.80, 0.25, 0.91)),
    "vargrad": ((0.58, 0.34, 0.68), (0.60, 0.34, 0.71), (0.80, 0.25, 0.91)),
    "gradient": ((0.49, 0.35, 0.49), (0.51, 0.34, 0.53), (0.82, 0.25, 0.93)),
    "gradient_x_input": ((0.43, 0.34, 0.37), (0.44, 0.34, 0.39), (0.77, 0.27, 0.89)),
    "deconvnet": ((0.18, 0.16, 0.13), (0.18, 0.16, 0.13), (0.42, 0.21, 0.41)),
    "grad_cam": ((0.09, 0.10, 0.05), (0.10, 0.10, 0.07), (0.29, 0.10, 0.28)),
}


def poster_figure(method: str, metric: str, questions: str, ground_truth: str, subset: str) -> _Figure | None:
    """Return the poster's figure for a row of our table, None where it has none."""
    method = "integrated_gradients" if method in BASELINES else method
    if {"metric": metric, "questions": questions, "ground_truth": ground_truth} != POSTER or method not in _POSTER:
        return None
    return _Figure(*_POSTER[method][SUBSETS.index(subset)])


WIDTH = 118  # of a line of text
TRUTH_TITLES = {
    "single_object": "Single Object",
    "all_objects": "All Objects",
    "unique": "Unique",
    "unique_firstnonempty": "Unique First-non-empty",
    "union": "Union",
}


def long_rows(
    measured: Measured,
    ground_truths: Sequence[str],
    metrics: Sequence[str],
    chosen_subsets: Sequence[str] = SUBSETS,
    confidence: float = CONFIDENCE,
    pixels: int = MASK_PIXELS,
) -> list[dict]:
    """Return every number of a run in the long form of ``core.tables``, for all ten poolings.

    The value is the mean over the questions of a subset that were answered correctly and have this mask (``n``).
    ``zero_maps`` counts maps that are zero everywhere: they count as the uniform map, or are left out, and then
    ``undefined`` counts them too. The interval is clustered by
    image, since questions about one image are not independent. A row of a method's own control names
    both in ``of`` and ``control``; that of several random networks is of each question's mean over them, and has the
    networks' means in ``networks``. One of Integrated Gradients has the median of its completeness error in ``gap``.

    ``confidence`` and ``pixels`` are the bounds of the subsets.
    """
    as_published = (confidence, pixels) == (CONFIDENCE, MASK_PIXELS)
    rows = []
    for truth, numbers in _by_source_and_truth(measured, ground_truths) if metrics else ():
        for subset in chosen_subsets:
            counted = subset_members(measured, subset, truth, confidence, pixels)
            if counted is not None:
                has_paper = (as_published or subset == "all") and not numbers.label.control
                rows += _rows_of_subset(measured, numbers, metrics, truth, subset, counted, has_paper)
    return rows


class _Numbers(NamedTuple):
    """Numbers of one source by one ground truth, (N, metrics, poolings)."""

    label: MapSource  # of several random networks, what they are together
    networks: np.ndarray  # (K, N, metrics, poolings) of each of them; K is 0 for any other source
    scores: np.ndarray
    zero: np.ndarray  # counts of maps that are zero everywhere


def _by_source_and_truth(measured: Measured, ground_truths: Sequence[str]) -> Iterator[tuple[str, _Numbers]]:
    """Yield each ground truth with the numbers of each source."""
    for label, members in by_kind(measured.sources).items():
        each = np.stack([measured.counted(member) for member in members])
        scores, zero = each.mean(axis=0), sum(np.isnan(measured.scores(member)).astype(int) for member in members)
        for truth in ground_truths:
            place = measured.ground_truths.index(truth)
            networks = each[: 0 if label in members else None, :, place]
            yield truth, _Numbers(label, networks, scores[:, place], zero[:, place])


def _rows_of_subset(
    measured: Measured,
    numbers: _Numbers,
    metrics: Sequence[str],
    truth: str,
    subset: str,
    counted: np.ndarray,
    has_paper: bool,
) -> list[dict]:
    """Return the rows of one source, ground truth and subset, of which ``counted`` are the questions, (N,) bool."""
    label, rows = numbers.label, []
    _, cluster = np.unique(measured.images, return_inverse=True)
    intervals = _intervals(numbers.scores, counted, cluster)
    gap = {}
    if label.method in measured.gaps and not label.control:
        gap["gap"] = summary(measured.gaps[label.method][counted]).median
    for metric, (number, pooling) in itertools.product(metrics, enumerate(POOLINGS)):
        place = list(METRICS).index(metric)
        found = summary(numbers.scores[counted, place, number])
        figure = None
        if has_paper and pooling == HEADING[metric]:
            figure = poster_figure(label.method, metric, measured.kind, truth, subset)
        rows.append(
            {
                **_estimate(label, metric, found, *intervals[:, place, number]),
                "paper": None if figure is None else figure.mean, "kind": "control" if label.control else "method",
                "questions": measured.kind, "ground_truth": truth, "pooling": pooling, "subset": subset,
                **_figures_of(found), "zero_maps": int(numbers.zero[counted, place, number].sum()),
                **_not_counted(measured, truth),
                **({} if figure is None else {"paper_std": figure.std, "paper_median": figure.median}),
                **_control_of(label, numbers.networks[:, counted, place, number]), **gap,
                **({} if found.n else {"reason": _reason(counted, found.undefined)}),
            }
        )  # fmt: skip
    return rows


def _estimate(label: MapSource, metric: str, found: Summary, low: float, high: float) -> dict:
    """Return the first keys of a row; ends of an interval that was summed in another order include the mean."""
    return {
        "method": label.name, "metric": metric, "value": found.mean, "low": min(low, found.mean),
        "high": max(high, found.mean), "n": found.n,
    }  # fmt: skip


def _not_counted(measured: Measured, truth: str) -> dict[str, int]:
    """Return how many questions were answered wrongly, and how many others have no mask."""
    return {
        "answered_wrongly": int((~measured.right).sum()),
        "without_mask": int((measured.right & (measured.pixels[truth] == 0)).sum()),
    }


def _control_of(label: MapSource, networks: Iterable[np.ndarray]) -> dict:
    """Return the keys of a method under a control, with the means of the random networks, if it has several."""
    if not (label.method and label.control):
        return {}
    means = [summary(one).mean for one in networks]
    return {"of": label.method, "control": label.control, **({"networks": means} if means else {})}


def shared_rows(measured: Measured, ground_truth: str, metrics: Mapping[str, Metric] = METRIC_REGISTRY) -> list[dict]:
    """Return the rows of metrics of all benchmarks; like those of ``long_rows``, without pooling and of all questions.

    Questions without the ``ground_truth`` against which these metrics were computed do not count.
    """
    rows = []
    for name, values_of in measured.shared.items():
        for label, members in by_kind(measured.sources).items():
            columns = [values_of(member) for member in members]
            if all(column is not None for column in columns):
                rows += _shared_rows_of(measured, ground_truth, metrics[name], label, columns, label in members)
    return rows


def _shared_rows_of(
    measured: Measured, ground_truth: str, metric: Metric, label: MapSource, columns: Sequence[np.ndarray], single: bool
) -> Iterator[dict]:
    """Yield the row of a metric and a source, of ``columns`` of one or several networks, and those of its curve."""
    _, cluster = np.unique(measured.images, return_inverse=True)
    counted = subset_members(measured, "all", ground_truth, 1, 0)
    values = np.mean(columns, axis=0)
    found, ends = summary(values[counted]), _shared_interval(metric, values, counted, cluster)
    kind = {"kind": "control" if label.control else "method", **_where(measured, ground_truth)}
    yield {
        **_estimate(label, metric.name, found, *ends), "paper": None, **kind, **_figures_of(found),
        **_not_counted(measured, ground_truth),
        **_control_of(label, [] if single else [column[counted] for column in columns]),
        **({} if found.n else {"reason": "undefined for every question"}),
    }  # fmt: skip
    if metric.name in measured.curves and not (label.method and label.control):
        points = curve_points(metric, measured.curves[metric.name](label)[counted], cluster[counted])
        yield from ({"method": label.name, **point, **kind} for point in points)


def _shared_interval(metric: Metric, values, counted, cluster) -> tuple[float, float]:
    """Return the ends of the interval of a mean."""
    defined = counted & np.isfinite(values)
    estimate = statistics.mean_interval(
        values[defined], clusters=cluster[defined], rate=metric.hit, bounds=metric.bounds
    )
    return float(estimate.low), float(estimate.high)


def _where(measured: Measured, ground_truth: str) -> dict[str, str]:
    """Return the keys of a metric of all questions, besides its name and the pooling it may have."""
    return {"questions": measured.kind, "ground_truth": ground_truth, "pooling": "", "subset": "all"}


def _figures_of(found: Summary) -> dict:
    return {
        "mean": found.mean, "std": found.std, "median": found.median, "p20": found.p20, "p80": found.p80,
        "min": found.min, "max": found.max, "undefined": found.undefined,
    }  # fmt: skip


def input_scores(measured: Measured, ground_truths: Sequence[str], metrics: Sequence[str]) -> list[InputScores]:
    """Return the numbers behind the heading rows of all questions, one a question, in the order of the data set.

    Those of the metrics of all benchmarks follow; they look at the first ground truth.
    """
    groups = []

    def add(where: Mapping[str, str], values_of: Callable[[MapSource], np.ndarray | None]) -> None:
        counted = subset_members(measured, "all", where["ground_truth"], 1, 0)
        values = {label.name: values_of(label) for label in measured.sources}
        groups.append(
            InputScores(
                where,
                inputs=[str(index) for index in measured.indices[counted]],
                values={name: column[counted].tolist() for name, column in values.items() if column is not None},
                clusters=[name for name, used in zip(measured.images, counted, strict=True) if used],
            )
        )

    for truth in ground_truths:
        for metric in metrics:
            place = measured.ground_truths.index(truth), *PLACES[metric]
            add(
                {"metric": metric, **_where(measured, truth), "pooling": HEADING[metric]},
                lambda label, place=place: measured.counted(label)[(slice(None), *place)],
            )
    for name, values_of in measured.shared.items():
        add({"metric": name, **_where(measured, ground_truths[0])}, values_of)
    return groups


def text(
    rows: Sequence[Mapping],
    poolings: Sequence[str] = (),
    bounds=(),
    markdown: bool = False,
    shared: Mapping[str, Metric] | None = None,
) -> str:
    """Return the tables of a run for reading, one a ground truth, metric and subset; those of all benchmarks last.

    ``rows`` are from ``long_rows`` and ``shared_rows``, ``shared`` the metrics of all benchmarks by name. ``poolings``
    are compared in a further table of means for each metric. ``bounds`` are the confidence and mask size that bound the
    subsets. Tables are aligned text, or Markdown.
    """
    groups: dict[tuple[str, str], list[Mapping]] = {}
    for row in rows:
        if row["metric"] in ACCURACIES:
            groups.setdefault((row["ground_truth"], row["metric"]), []).append(row)
    parts, empty = [], []
    for (_, metric), of_metric in groups.items():
        headings = [row for row in of_metric if row["pooling"] == HEADING[metric]]
        found, without = _tables_of_subsets(headings, bounds or (CONFIDENCE, MASK_PIXELS), markdown)
        parts += [*found, *_table_of_poolings(of_metric, poolings, markdown)]
        empty += without
    parts += [_table_of_shared(rows, metric, markdown) for metric in (shared or {}).values()]
    if empty:
        parts.append(f"Skipped, because no question belongs to them: {', '.join(dict.fromkeys(empty))}.\n")
    return "\n".join(parts)


def _table_of_poolings(rows: Sequence[Mapping], poolings: Sequence[str], markdown: bool) -> list[str]:
    """Return the table of means by pooling of one metric and ground truth; none without poolings or rows."""
    laid_out = tables.markdown_table if markdown else tables.text_table
    shown = [row for row in rows if row["subset"] == "all" and "of" not in row]
    if not (poolings and shown):
        return []
    return [f"{_name(shown[0])}: means by pooling\n\n{laid_out(*_by_pooling(shown, poolings))}"]


def _tables_of_subsets(rows: Sequence[Mapping], bounds: Sequence, markdown: bool) -> tuple[list[str], list[str]]:
    """Return the tables of one metric and ground truth, one a subset, and the titles of subsets without a question."""
    laid_out = tables.markdown_table if markdown else tables.text_table
    parts, empty = [], []
    for subset in dict.fromkeys(row["subset"] for row in rows):
        shown = [row for row in rows if row["subset"] == subset]
        title = subset_title(subset, *bounds)
        if any(row["n"] + row["undefined"] for row in shown):
            heading = f"{_name(shown[0])}, pooling {shown[0]['pooling']}, {title}: {_counted(shown)}"
            laid = f"{laid_out(*_main(shown, markdown))}{_undefined(shown, markdown)}".rstrip("\n")
            parts.append(f"{heading}\n\n{laid}\n")
        else:
            empty.append(f"{title} (ground truth {TRUTH_TITLES[shown[0]['ground_truth']]})")
    return parts, empty


def _table_of_shared(rows: Sequence[Mapping], metric: Metric, markdown: bool) -> str:
    laid_out = tables.markdown_table if markdown else tables.text_table
    shown = [row for row in rows if row["metric"] == metric.name]
    title = f"{metric.title}, ground truth {TRUTH_TITLES[shown[0]['ground_truth']]}: {_counted(shown)}"
    laid = laid_out(*_main(shown, markdown, 1 if metric.percent else 3))
    return f"{title}\n\n{laid}{_undefined(shown, markdown, '')}"


def _name(row: Mapping) -> str:
    return f"{ACCURACIES[row['metric']].title}, ground truth {TRUTH_TITLES[row['ground_truth']]}"


def titled(row: Mapping) -> str:
    """Return what a row's method is called in a table, with its control if it has one."""
    if "of" in row:
        return f"{methods.title(row['of'])} ({methods.CONTROL_TITLES[row['control']]})"
    return methods.CONTROL_TITLES.get(row["method"]) or methods.title(row["method"])


def _main(rows, markdown, decimals: int = 2) -> tuple[list[str], list[list[str]]]:
    """Return a table: statistics, means under the controls, the poster's figures."""
    columns = _further_columns(rows, decimals)
    body, kind = [], None
    for row in [row for row in rows if "of" not in row]:
        if kind not in (None, row["kind"]) and not markdown:
            body.append([])
        kind = row["kind"]
        body.append([*_statistics(row, decimals), *(cell(row) for cell in columns.values())])
    return ["method", "mean (std) median", "95 %", "p20", "p80", *columns], body


def _further_columns(rows, decimals: int) -> dict[str, Callable[[Mapping], str]]:
    """Return functions from a row to its cell by title, of the columns that any row fills."""
    under = {(row["of"], row["control"]): row for row in rows if "of" in row}
    columns: dict[str, Callable[[Mapping], str]] = {
        title: lambda row, name=name: _of_control(under.get((row["method"], name)), decimals)
        for name, title in methods.OF_METHODS.items()
        if name in {control for _, control in under}
    }
    if any("gap" in row for row in rows):
        columns["gap %"] = lambda row: tables.number(100 * row.get("gap", np.nan), 1)
    if any(row["paper"] is not None for row in rows):
        columns["poster"] = _poster
    return columns


def _poster(row) -> str:
    """Return the poster's figures of a row."""
    return "–" if row["paper"] is None else _figures(row["paper"], row.get("paper_std"), row.get("paper_median"))


def _statistics(row, decimals: int) -> list[str]:
    """Return the cells of a row's statistics."""
    return [
        titled(row),
        _figures(row["mean"], row["std"], row["median"], decimals),
        "–" if not np.isfinite(row["low"]) else f"{row['low']:.{decimals}f}–{row['high']:.{decimals}f}",
        tables.number(row["p20"], decimals),
        tables.number(row["p80"], decimals),
    ]


def _of_control(row, decimals: int) -> str:
    """Return a control's mean; of several networks with the least and the largest of theirs, and how many they are."""
    if row is None:
        return "–"
    mean, means = tables.number(row["mean"], decimals), row.get("networks", ())
    if len(means) < 2:
        return f"{mean} (1)" if means else mean
    return f"{mean} ({tables.number(min(means), decimals)}–{tables.number(max(means), decimals)}, {len(means)})"


def _undefined(rows, markdown, why: str = ", since the map is zero everywhere,") -> str:
    """Return lines that count the maps without a value, and those of zeros that count as uniform, if any."""
    told = {
        f"Undefined{why} and left out": {titled(row): row["undefined"] for row in rows},
        "Zero everywhere, and counted as the uniform map": {
            titled(row): row.get("zero_maps", 0) - row["undefined"] for row in rows
        },
    }
    lines = []
    for what, counts in told.items():
        shown = ", ".join(f"{name} {count}" for name, count in counts.items() if count > 0)
        if shown:
            # A paragraph of its own, or Markdown takes it for a line of the table.
            line = f"{what}: {shown}."
            lines.append(f"\n{line}\n" if markdown else textwrap.fill(line, WIDTH, subsequent_indent="  ") + "\n")
    return "".join(lines)


def _by_pooling(rows, poolings) -> tuple[list[str], list[list[str]]]:
    cells = {(row["method"], row["pooling"]): row for row in rows}
    body = [
        [titled(row), *(tables.number(cells[name, pooling]["mean"]) for pooling in poolings)]
        for name, row in {row["method"]: row for row in rows}.items()
    ]
    return ["method", *poolings], body


def _counted(rows) -> str:
    """Return how many questions a table's rows count."""
    numbers = {row["n"] + row["undefined"] for row in rows}
    return f"{max(numbers):,} question{'s' if max(numbers) != 1 else ''}" if any(numbers) else "no question"


def _figures(mean, std, median, decimals: int = 2) -> str:
    if not np.isfinite(mean):
        return "–"
    mean, std, median = (tables.number(value, decimals) for value in (mean, std, median))
    return f"{mean} ({std}) {median}"


def _reason(counted, undefined) -> str:
    if not counted.any():
        return "no question belongs to the subset"
    return f"all {undefined} maps are zero everywhere"


def _intervals(scores, counted, cluster) -> np.ndarray:
    """Return the ends of 95 % intervals by image of means of shares, (2, metrics, poolings); NaN without any score."""
    shape = scores.shape[1:]
    values = scores[counted].reshape(counted.sum(), int(np.prod(shape)))
    ends = statistics.means(values, cluster[counted]).intervals()
    return np.clip(ends, 0.0, 1.0).reshape(2, *shape)
