"""What a run's numbers say beside the poster's: order of the methods, spread, and what controls change.

Orders and ratios are taken over the same questions on both sides, also where maps of zeros are left out.

Two tables of means may differ because methods do, or because the questions do: a network that is less sure, smaller
objects, fuller scenes. Rank correlations over a run's own questions say which of these a method's accuracy goes with.
They hint at how its mean would move under a surer network or on larger masks, and prove nothing of it.

Edges lie on objects, for every question. An edge detector's mass accuracy is its mass on objects of any kind times
the share of them in the mask: little where a question is about one object of ten, much where it counts half of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from attribution_benchmarks.core import tables
from attribution_benchmarks.core.batch import MapSource, by_kind
from attribution_benchmarks.stats import correlation
from attribution_benchmarks.stats.statistics import Estimate
from clevr_xai import methods, table
from clevr_xai.answering import Measured
from clevr_xai.data import Dataset
from clevr_xai.methods import BASELINES, title
from clevr_xai.metrics import ACCURACIES, HEADING, PLACES, subset_members, summary
from clevr_xai.table import TRUTH_TITLES, titled

EDGES = MapSource(control="edge_detector")
EVERYTHING = "all_objects"
FEWEST = 30  # questions, below which a correlation says nothing of use


def findings(measured: Measured, rows: Sequence[Mapping]) -> list[str]:
    """Return sentences computed from a run's rows; none where what they would compare was not scored."""
    wanted = {**table.POSTER, "pooling": HEADING["mass"], "subset": "all"}
    main = {row["method"]: row for row in rows if wanted.items() <= row.items() and np.isfinite(row["mean"])}
    columns = _columns(measured, main) if main else {}
    return _completeness(measured) + _compared(main, columns) + _kept(main, columns) + _networks(main)


def _compared(main: Mapping[str, Mapping], columns: Mapping[str, np.ndarray]) -> list[str]:
    """Compare the methods' order with the poster's, and the methods with an edge detector."""
    plain = {name: row for name, row in main.items() if "of" not in row}
    common = np.all([np.isfinite(columns[name]) for name in plain], axis=0) if plain else np.zeros(0, bool)
    if not common.any():
        return []
    means = {name: float(columns[name][common].mean()) for name in plain}
    spreads = {name: float(columns[name][common].std()) for name in plain}
    part = (
        f"Orders and comparisons below are over the {common.sum():,} of {len(common):,} questions for which every "
        "method has a value."
    )
    return [*([] if common.all() else [part]), *_order(plain, means, spreads), *_edges(plain, means)]


def _columns(measured: Measured, main: Mapping[str, Mapping]) -> dict[str, np.ndarray]:
    """Return the values behind the rows, name -> one a question that counts, NaN where it is left out."""
    place = measured.ground_truths.index(table.POSTER["ground_truth"]), *PLACES[table.POSTER["metric"]]
    counted = subset_members(measured, "all", table.POSTER["ground_truth"], 1, 0)
    return {
        label.name: np.mean([measured.counted(member)[(counted, *place)] for member in members], axis=0)
        for label, members in by_kind(measured.sources).items()
        if label.name in main
    }


def _networks(main: Mapping[str, Mapping]) -> list[str]:
    """Say how many random networks there are, and how far apart they are under one method."""
    spreads = {name: row["networks"] for name, row in main.items() if len(row.get("networks", ())) > 1}
    if not spreads:
        return []
    widest = max(spreads, key=lambda name: float(np.ptp(spreads[name])))
    return [
        "Random nets: the mean over networks, in brackets the smallest, the largest and their number. Each "
        "has the trained weights in random order. A method is above them where it is above each. "
        f"They differ most under {titled(main[main[widest]['of']])}: "
        f"{', '.join(f'{mean:.2f}' for mean in spreads[widest])}."
    ]


def _completeness(measured: Measured) -> list[str]:
    gaps = {name: summary(column[measured.right]) for name, column in measured.gaps.items()}
    told = [
        f"{title(name)} {_two_digits(100 * gap.median)} % (median; 80th percentile {_two_digits(100 * gap.p80)} %)"
        for name, gap in gaps.items()
        if gap.n
    ]
    if not told:
        return []
    return [
        f"The sum of a map misses f(image) - f(baseline) by this share of it: {', '.join(told)}.",
        "IG from black is called Integrated Gradients in the tables of other benchmarks and of the report. "
        "Where the authors' Integrated Gradients begins is not known: the poster's one row is compared with each of "
        "ours (docs/benchmarks.md).",
    ]


def _two_digits(value: float) -> str:
    """Return a number with two significant digits and without an exponent."""
    return np.format_float_positional(value, precision=2, unique=False, fractional=False, trim="-")


def _order(plain, means, spreads) -> list[str]:
    """Return how the order compares with the poster's, once for each row that may be its Integrated Gradients."""
    published = [name for name, row in plain.items() if row["paper"] is not None]
    others, paths = ([name for name in published if (name in BASELINES) == path] for path in (False, True))
    number = len(others) + bool(paths)
    if number < 3:
        return []
    told = [f"with {title(path)}: {_agreement([*others, path], plain, means, spreads)}" for path in paths]
    start = f"Order of the {number} methods by mean mass accuracy against the poster's"
    return [f"{start}, {'. '.join(told)}." if paths else f"{start}: {_agreement(others, plain, means, spreads)}."]


def _agreement(names, plain, means, spreads) -> str:
    """Return how the means and the spreads of some methods correlate with the poster's."""
    ours, figures = [means[name] for name in names], [plain[name]["paper"] for name in names]
    spread = correlation.spearman([spreads[name] for name in names], [plain[name]["paper_std"] for name in names])
    return (
        f"Kendall's tau {correlation.kendall_tau(ours, figures):.2f}, Spearman's rank correlation "
        f"{correlation.spearman(ours, figures):.2f}; by standard deviation {spread:.2f}"
    )


def _edges(plain, means) -> list[str]:
    if "edge_detector" not in plain:
        return []
    beaten = [
        titled(row) for name, row in plain.items() if row["kind"] == "method" and means[name] <= means["edge_detector"]
    ]
    return (
        [f"No better than an edge detector, which uses no network, in mass accuracy: {', '.join(beaten)}."]
        if beaten
        else []
    )


def _kept(main, columns) -> list[str]:
    """Return which methods keep their accuracy under a control, each over the questions that have both maps."""
    notes = []
    for control in methods.OF_METHODS:
        insensitive = []
        for name, row in main.items():
            if row.get("control") != control or row["of"] not in main:
                continue
            both = np.isfinite(columns[name]) & np.isfinite(columns[row["of"]])
            if both.any() and columns[name][both].mean() > 0.9 * columns[row["of"]][both].mean() > 0:
                insensitive.append(titled(main[row["of"]]))
        if insensitive:
            notes.append(
                f"Keeps more than nine tenths of its mass accuracy under the control '{methods.OF_METHODS[control]}': "
                f"{', '.join(insensitive)}."
            )
    return notes


class Covariates(NamedTuple):
    """Rank correlations of an accuracy, over the questions that count.

    Attributes
    ----------
    ground_truth, metric
        Which accuracy.
    n
        Questions.
    columns
        What it is correlated with, as a table's heading has it.
    rows
        Method or control -> one estimate a column.
    """

    ground_truth: str
    metric: str
    n: int
    columns: Sequence[str]
    rows: Mapping[str, Sequence[Estimate]]


def correlations(measured: Measured, dataset: Dataset, ground_truth: str, metrics: Sequence[str]) -> list[Covariates]:
    """Return the correlation of each method's accuracies with properties of the questions.

    There is one result for each of ``metrics``, of ``metrics.ACCURACIES``, in its heading's pooling; none for fewer
    than ``FEWEST`` questions.
    """
    counted = subset_members(measured, "all", ground_truth, 1, 0)
    if counted.sum() < FEWEST:
        return []
    known = {
        "mask's pixels": measured.pixels[ground_truth][counted],
        "objects in scene": [len(dataset.scene(row)["objects"]) for row in measured.rows[counted]],
    }
    if measured.confidence is not None:
        known = {"answer's softmax": measured.confidence[counted], **known}
    images = np.array(measured.images)[counted]
    labels = [label for label in measured.sources if not (label.method and label.control)]
    place = measured.ground_truths.index(ground_truth)
    found = []
    for metric in metrics:
        where = counted, place, *PLACES[metric]
        rows = {}
        for label in labels:
            values = measured.counted(label)[where]
            has = np.isfinite(values)  # maps of zeros that are left out
            rows[label.name] = [
                correlation.spearman_interval(values[has], np.asarray(column)[has], clusters=images[has])
                for column in known.values()
            ]
        found.append(Covariates(ground_truth, metric, int(counted.sum()), list(known), rows))
    return found


def correlations_text(found: Sequence[Covariates], markdown: bool = False) -> str:
    """Return a table for each accuracy."""
    laid_out = tables.markdown_table if markdown else tables.text_table
    parts = []
    for one in found:
        header = ["method", *(cell for column in one.columns for cell in (column, "95 %"))]
        body = [
            [titled({"method": name}), *(cell for estimate in row for cell in _cells(estimate))]
            for name, row in one.rows.items()
        ]
        parts.append(
            f"\nWhat the {ACCURACIES[one.metric].title.lower()} goes with, ground truth "
            f"{TRUTH_TITLES[one.ground_truth]}: Spearman's correlation over {one.n:,} questions\n\n"
            f"{laid_out(header, body)}"
        )
    return "".join(parts)


def _cells(one: Estimate) -> tuple[str, str]:
    """Return a correlation and its interval as a table shows them; dashes where one side is constant."""
    return (f"{one.value:.2f}", f"{one.low:.2f} to {one.high:.2f}") if np.isfinite(one.value) else ("–", "–")


class Shares(NamedTuple):
    """What a ground truth's masks hold, one value a question that counts, (n,) each.

    ``families`` are the files of their families; ``objects`` is the share of the scene's objects in the mask, ``area``
    of the image, ``of_objects`` of the pixels of all objects; ``edges`` is the edge detector's mass accuracy and
    ``on_objects`` its mass on objects of any kind, None where it was not scored.
    """

    ground_truth: str
    families: np.ndarray
    objects: np.ndarray
    area: np.ndarray
    of_objects: np.ndarray
    edges: np.ndarray | None
    on_objects: np.ndarray | None


def mask_shares(measured: Measured, dataset: Dataset, ground_truths: Sequence[str]) -> list[Shares]:
    """Measure the masks of the questions that count, for each ground truth that any of them has."""
    scores = measured.counted(EDGES) if EDGES in measured.sources else None
    found = []
    for truth in ground_truths:
        counted = subset_members(measured, "all", truth, 1, 0)
        rows, sizes = measured.rows[counted], measured.pixels[truth][counted]
        if not len(rows):
            continue
        held = [len(dataset.objects(truth, row)) / len(dataset.scene(row)["objects"]) for row in rows]
        edges, on_objects = (
            (scores[(counted, measured.ground_truths.index(name), *PLACES["mass"])] for name in (truth, EVERYTHING))
            if scores is not None
            else (None, None)
        )
        found.append(
            Shares(
                truth,
                np.array(
                    [dataset.questions[row].get("template_filename", "").removesuffix(".json") or "–" for row in rows]
                ),
                np.array(held),
                sizes / measured.positions,
                sizes / measured.pixels[EVERYTHING][counted],
                edges,
                on_objects,
            )
        )
    return found


def shares_text(shares: Sequence[Shares], markdown: bool = False) -> str:
    """Return a table for each ground truth whose questions are of several files of families."""
    laid_out = tables.markdown_table if markdown else tables.text_table
    parts = []
    for one in shares:
        if len(set(one.families)) < 2:
            continue
        groups = [(name, one.families == name) for name in sorted(set(one.families))]
        groups.sort(key=lambda group: -one.objects[group[1]].mean())
        body = [_line(name, one, rows) for name, rows in groups]
        body += [*([] if markdown else [[]]), _line("all", one, np.ones(len(one.families), bool))]
        header = ["file of families", "questions", "objects in mask %", "image in mask %"]
        header += ["edge detector", "expected of it"] if one.edges is not None else []
        parts.append(f"\nShare of the scene in the mask, ground truth {TRUTH_TITLES[one.ground_truth]}\n\n"
                     f"{laid_out(header, body)}")  # fmt: skip
    return "".join(parts)


def edges_explained(shares: Sequence[Shares]) -> list[str]:
    """Return sentences that say how much of the edge detector's accuracy the masks' size explains."""
    notes = []
    for one in shares:
        if one.edges is None:
            continue
        expected = one.on_objects * one.of_objects
        sentence = (
            f"Ground truth {TRUTH_TITLES[one.ground_truth]} holds {100 * one.objects.mean():.0f} % of a scene's "
            f"objects (mean); the edge detector puts {one.on_objects.mean():.2f} of its mass on objects of any kind, "
            f"so {expected.mean():.2f} is expected of it and it has {one.edges.mean():.2f}"
        )
        rho = correlation.spearman(expected, one.edges)
        notes.append(f"{sentence} (Spearman's correlation over questions {rho:.2f})." if np.isfinite(rho)
                     else f"{sentence}.")  # fmt: skip
    return notes


def _line(name: str, one: Shares, rows: np.ndarray) -> list[str]:
    line = [name, f"{rows.sum():,}", f"{100 * one.objects[rows].mean():.1f}", f"{100 * one.area[rows].mean():.1f}"]
    if one.edges is not None:
        line += [f"{one.edges[rows].mean():.2f}", f"{(one.on_objects * one.of_objects)[rows].mean():.2f}"]
    return line
