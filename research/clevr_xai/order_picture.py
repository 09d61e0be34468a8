"""A picture of the methods' order under several networks: a mean with its interval for each, the poster's beside."""

from __future__ import annotations

from typing import Any

import numpy as np

from attribution.plotting import no_mathtext
from clevr_xai import controls, methods, paper_table, subsets
from clevr_xai.accuracies import ACCURACIES
from clevr_xai.pictures import POSTER
from clevr_xai.table import TRUTH_TITLES
from research.clevr_xai.network_order import Orders

# Told apart by those who do not see red and green, and by their shapes in print.
_COLORS = ("#3b5b92", "#d08a2e", "#4c9a8f", "#8c5a8c", "#7a7a7a", "#a3a34a")
_MARKERS = "os^vDP"
_ROW = 0.66  # of a row's height, over which many networks are spread


@no_mathtext
def order_figure(found: Orders) -> Any:
    """Return a figure of one row a method and, below them, a control.

    Parameters
    ----------
    found
        From ``network_order.compare``.

    Returns
    -------
    matplotlib.figure.Figure
        Methods from the best to the worst of the first network.
    """
    from matplotlib.figure import Figure

    names = [*found.methods, *found.controls]
    heights = np.arange(len(names))[::-1]
    networks = len(found.networks)
    figure = Figure(figsize=(7.2, max(0.34, 0.13 * networks) * len(names) + 1.6 + 0.2 * networks), layout="constrained")
    axis = figure.subplots()
    for height in heights[1::2]:
        axis.axhspan(height - 0.5, height + 0.5, color="0.96", zorder=0)
    for number, network in enumerate(found.networks):
        estimates = [found.estimates[network][name] for name in names]
        means = np.array([estimate.value for estimate in estimates])
        reach = np.abs(np.array([[estimate.low, estimate.high] for estimate in estimates]).T - means)
        offset = min(0.4, _ROW / networks) * ((networks - 1) / 2 - number)
        axis.errorbar(
            means, heights + offset, xerr=reach, fmt=_MARKERS[number % len(_MARKERS)], markersize=4.5, capsize=2,
            elinewidth=1.2, color=_COLORS[number % len(_COLORS)], label=f"{number + 1}: {network}",
        )  # fmt: skip
    where = found.where
    figures = [
        paper_table.figure(name, where["metric"], where["questions"], where["ground_truth"], where["subset"])
        for name in names
    ]
    published = [(one.mean, height) for one, height in zip(figures, heights, strict=True) if one is not None]
    if published:
        axis.plot(*zip(*published, strict=True), "D", color=POSTER, markersize=5, label="poster", zorder=1.5)
    axis.set_yticks(heights, [controls.TITLES.get(name) or methods.title(name) for name in names], fontsize=9)
    axis.set_xlim(-0.02, 1.02)
    axis.set_ylim(-0.6, len(names) - 0.4)
    axis.set_xlabel(
        f"{ACCURACIES[where['metric']].title}, {TRUTH_TITLES[where['ground_truth']]}, pooling {where['pooling']}\n"
        f"{subsets.title(where['subset'], subsets.CONFIDENCE, subsets.MASK_PIXELS)}, "
        f"{len(found.images):,} that count for every network; mean and 95 %",
        fontsize=9,
    )
    axis.grid(axis="x", color="0.88")
    axis.set_axisbelow(True)
    figure.legend(loc="outside upper left", ncols=1, fontsize=8, frameon=False)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    return figure
