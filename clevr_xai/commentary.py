"""What a run's numbers say beside the poster's: order of the methods, spread, and what controls change.

Orders and ratios are taken over the same questions on both sides, also where maps of zeros are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from attribution_benchmarks.core.batch import by_kind
from attribution_benchmarks.stats import correlation
from clevr_xai import controls, paper_table, subsets
from clevr_xai.measured import Measured
from clevr_xai.methods import BASELINES, title
from clevr_xai.metrics import METRICS, summary
from clevr_xai.pooling import POOLINGS
from clevr_xai.scoring import HEADING
from clevr_xai.table import titled


def findings(measured: Measured, rows: Sequence[Mapping]) -> list[str]:
    """Return sentences computed from a run's rows; none where what they would compare was not scored."""
    wanted = {
        "metric": paper_table.METRIC, "questions": paper_table.QUESTIONS, "ground_truth": paper_table.GROUND_TRUTH,
        "pooling": HEADING["mass"], "subset": "all",
    }  # fmt: skip
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
    truth = measured.ground_truths.index(paper_table.GROUND_TRUTH)
    place = list(METRICS).index(paper_table.METRIC), list(POOLINGS).index(HEADING[paper_table.METRIC])
    counted = subsets.members(measured, "all", paper_table.GROUND_TRUTH, 1, 0)
    return {
        label.name: np.mean([measured.counted(member)[(counted, truth, *place)] for member in members], axis=0)
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
    for control in controls.OF_METHODS:
        insensitive = []
        for name, row in main.items():
            if row.get("control") != control or row["of"] not in main:
                continue
            both = np.isfinite(columns[name]) & np.isfinite(columns[row["of"]])
            if both.any() and columns[name][both].mean() > 0.9 * columns[row["of"]][both].mean() > 0:
                insensitive.append(titled(main[row["of"]]))
        if insensitive:
            notes.append(
                f"Keeps more than nine tenths of its mass accuracy under the control '{controls.OF_METHODS[control]}': "
                f"{', '.join(insensitive)}."
            )
    return notes
