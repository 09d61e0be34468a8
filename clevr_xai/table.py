"""The rows and tables of a run: means with intervals, spread, controls, and the poster's figures beside ours."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

import numpy as np

from attribution_benchmarks.leaderboard import statistics, tables
from attribution_benchmarks.leaderboard.input_scores import InputScores
from clevr_xai import controls, methods, paper_table, subsets
from clevr_xai.measured import Measured
from clevr_xai.metrics import METRICS, summary
from clevr_xai.pooling import POOLINGS
from clevr_xai.scoring import HEADING

WIDTH = 118  # of a line of text
METRIC_TITLES = {"mass": "Relevance mass accuracy", "rank": "Relevance rank accuracy"}
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
    chosen_subsets: Sequence[str] = subsets.SUBSETS,
    confidence: float = subsets.CONFIDENCE,
    pixels: int = subsets.MASK_PIXELS,
    seed: int = 0,
) -> list[dict]:
    """Return every number of a run in the long form of ``leaderboard.tables``, for all ten poolings.

    The value is the mean over the questions of a subset that were answered rightly, have this mask, and for which
    the metric is defined (``n``; ``undefined`` counts maps of nothing). The interval is a bootstrap over
    images, since questions about one image are not independent. A row of a control that is asked of a method names
    both in ``of`` and ``control``.

    Parameters
    ----------
    measured
        Numbers of the questions.
    ground_truths, metrics, chosen_subsets
        Which rows to make.
    confidence, pixels
        Bounds of the subsets.
    seed
        Of the bootstrap.
    """
    as_published = (confidence, pixels) == (subsets.CONFIDENCE, subsets.MASK_PIXELS)
    images, cluster = np.unique(measured.images, return_inverse=True)
    wrong = int((~measured.right).sum())
    rows = []
    for label in measured.labels:
        scores = measured.scores(label)
        for truth in ground_truths:
            without = int((measured.right & (measured.pixels[truth] == 0)).sum())
            of_truth = scores[:, measured.ground_truths.index(truth)]
            for subset in chosen_subsets:
                counted = subsets.members(measured, subset, truth, confidence, pixels)
                if counted is None:
                    continue
                intervals = _intervals(of_truth, counted, cluster, len(images), seed)
                for metric in metrics:
                    place = list(METRICS).index(metric)
                    for number, pooling in enumerate(POOLINGS):
                        found = summary(of_truth[counted, place, number])
                        figure = None
                        if pooling == HEADING[metric] and not label.control and (as_published or subset == "all"):
                            figure = paper_table.figure(label.method, metric, measured.kind, truth, subset)
                        low, high = intervals[:, place, number]
                        row = {
                            "method": label.name, "metric": metric, "value": found.mean, "low": low, "high": high,
                            "n": found.n, "paper": None if figure is None else figure.mean,
                            "kind": "control" if label.control else "method",
                            "questions": measured.kind, "ground_truth": truth, "pooling": pooling, "subset": subset,
                            "mean": found.mean, "std": found.std, "median": found.median, "p20": found.p20,
                            "p80": found.p80, "min": found.min, "max": found.max, "undefined": found.undefined,
                            "answered_wrongly": wrong, "without_mask": without,
                        }  # fmt: skip
                        if figure is not None:
                            row.update(paper_std=figure.std, paper_median=figure.median)
                        if label.method and label.control:
                            row.update(of=label.method, control=label.control)
                        if not found.n:
                            row["reason"] = _reason(counted, found.undefined)
                        rows.append(row)
    return rows


def input_scores(measured: Measured, ground_truths: Sequence[str], metrics: Sequence[str]) -> list[InputScores]:
    """Return the numbers behind the heading rows of all questions, one a question, in the order of the data set."""
    groups = []
    for truth in ground_truths:
        counted = subsets.members(measured, "all", truth, 1, 0)
        for metric in metrics:
            pooling = HEADING[metric]
            place = measured.ground_truths.index(truth), list(METRICS).index(metric), list(POOLINGS).index(pooling)
            groups.append(
                InputScores(
                    where={"metric": metric, "questions": measured.kind, "ground_truth": truth, "pooling": pooling,
                           "subset": "all"},
                    inputs=[str(index) for index in measured.indices[counted]],
                    values={label.name: measured.scores(label)[(counted, *place)].tolist()
                            for label in measured.labels},
                    clusters=[name for name, used in zip(measured.images, counted, strict=True) if used],
                )
            )  # fmt: skip
    return groups


def text(rows: Sequence[Mapping], poolings: Sequence[str] = (), bounds=(), markdown: bool = False) -> str:
    """Return the tables of a run for reading, one a ground truth, metric and subset.

    Parameters
    ----------
    rows
        From ``long_rows``.
    poolings
        Poolings to compare in a further table of means a metric; none when empty.
    bounds
        Confidence and mask size that bound the subsets.
    markdown
        Markdown instead of aligned text.
    """
    laid_out = tables.markdown_table if markdown else tables.text_table
    bounds = bounds or (subsets.CONFIDENCE, subsets.MASK_PIXELS)
    parts = []
    for truth, metric in dict.fromkeys((row["ground_truth"], row["metric"]) for row in rows):
        of_metric = [row for row in rows if (row["ground_truth"], row["metric"]) == (truth, metric)]
        heading = [row for row in of_metric if row["pooling"] == HEADING[metric]]
        name = f"{METRIC_TITLES[metric]}, ground truth {TRUTH_TITLES[truth]}"
        for subset in dict.fromkeys(row["subset"] for row in heading):
            shown = [row for row in heading if row["subset"] == subset]
            title = f"{name}, pooling {HEADING[metric]}, {subsets.title(subset, *bounds)}: {_counted(shown)}"
            if any(row["n"] + row["undefined"] for row in shown):
                title += f"\n\n{laid_out(*_main(shown, markdown))}{_undefined(shown, markdown)}".rstrip("\n")
            parts.append(f"{title}\n")
        if poolings:
            shown = [row for row in of_metric if row["subset"] == "all" and "of" not in row]
            if shown:
                parts.append(f"{name}: means by pooling\n\n{laid_out(*_by_pooling(shown, poolings))}")
    return "\n".join(parts)


def titled(row: Mapping) -> str:
    """Return what a row's method is called in a table, with its control if it has one."""
    if "of" in row:
        return f"{methods.title(row['of'])} ({controls.TITLES[row['control']]})"
    return controls.TITLES.get(row["method"]) or methods.title(row["method"])


def _main(rows, markdown) -> tuple[list[str], list[list[str]]]:
    """Return a table: statistics, means under the controls, the poster's figures."""
    with_paper = any(row["paper"] is not None for row in rows)
    under = {(row["of"], row["control"]): row for row in rows if "of" in row}
    asked = [control for control in controls.OF_METHODS if any(control == other for _, other in under)]
    header = ["method", "mean (std) median", "95 %", "p20", "p80", *(controls.OF_METHODS[name] for name in asked)]
    header += ["poster"] if with_paper else []
    body, kind = [], None
    for row in rows:
        if "of" in row:
            continue
        if kind not in (None, row["kind"]) and not markdown:
            body.append([])
        kind = row["kind"]
        line = [
            titled(row),
            _figures(row["mean"], row["std"], row["median"]),
            "–" if not np.isfinite(row["low"]) else f"{row['low']:.2f}–{row['high']:.2f}",
            _rounded(row["p20"]),
            _rounded(row["p80"]),
            *(_rounded(under.get((row["method"], name), {}).get("mean", np.nan)) for name in asked),
        ]
        if with_paper:
            has = row["paper"] is not None
            line.append(_figures(row["paper"], row["paper_std"], row["paper_median"]) if has else "–")
        body.append(line)
    return header, body


def _undefined(rows, markdown) -> str:
    """Return a line that counts the maps for which the metric is undefined, where there are any."""
    counts = [f"{titled(row)} {row['undefined']}" for row in rows if row["undefined"]]
    if not counts:
        return ""
    line = f"Undefined, since the map is zero everywhere, and left out: {', '.join(counts)}."
    # A paragraph of its own, or Markdown takes it for a line of the table.
    return f"\n{line}\n" if markdown else textwrap.fill(line, WIDTH, subsequent_indent="  ") + "\n"


def _by_pooling(rows, poolings) -> tuple[list[str], list[list[str]]]:
    cells = {(row["method"], row["pooling"]): row for row in rows}
    body = [
        [titled(row), *(_rounded(cells[name, pooling]["mean"]) for pooling in poolings)]
        for name, row in {row["method"]: row for row in rows}.items()
    ]
    return ["method", *poolings], body


def _counted(rows) -> str:
    """Return how many questions a table's rows count."""
    numbers = {row["n"] + row["undefined"] for row in rows}
    return f"{max(numbers):,} question{'s' if max(numbers) != 1 else ''}" if any(numbers) else "no question"


def _figures(mean, std, median) -> str:
    return "–" if not np.isfinite(mean) else f"{mean:.2f} ({std:.2f}) {median:.2f}"


def _rounded(value) -> str:
    return "–" if not np.isfinite(value) else f"{value:.2f}"


def _reason(counted, undefined) -> str:
    if not counted.any():
        return "no question belongs to the subset"
    return f"all {undefined} maps are zero everywhere"


def _intervals(scores, counted, cluster, num_clusters: int, seed: int) -> np.ndarray:
    """Return the ends of 95 % of bootstrap means over clusters, (2, metrics, poolings); NaN without any score."""
    shape = scores.shape[1:]
    values = scores[counted].reshape(counted.sum(), int(np.prod(shape)))
    defined = ~np.isnan(values)
    if not defined.any():
        return np.full((2, *shape), np.nan)
    columns = np.zeros((num_clusters, 2 * values.shape[1]))
    np.add.at(columns, cluster[counted], np.concatenate([np.where(defined, values, 0), defined], axis=1))
    columns = columns[np.bincount(cluster[counted], minlength=num_clusters) > 0]
    sums, counts = np.split(statistics.resampled_sums(columns, seed=seed), 2, axis=1)
    means = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
    low, high = (1 - statistics.CONFIDENCE) / 2, (1 + statistics.CONFIDENCE) / 2
    ends = np.full((2, values.shape[1]), np.nan)
    scored = defined.any(axis=0)
    ends[:, scored] = np.nanquantile(means[:, scored], [low, high], axis=0)
    return ends.reshape(2, *shape)
