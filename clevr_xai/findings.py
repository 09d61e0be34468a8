"""What a run's numbers say beside the poster's: order of the methods, spread, and what controls change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from attribution_benchmarks.leaderboard import statistics
from clevr_xai import controls, paper_table
from clevr_xai.measured import Measured
from clevr_xai.metrics import summary
from clevr_xai.scoring import HEADING
from clevr_xai.table import titled

BEST = ("lrp_clevr_xai", "excitation_backprop", "integrated_gradients")
WORST = ("gradient_x_input", "deconvnet", "grad_cam")


def findings(measured: Measured, rows: Sequence[Mapping]) -> list[str]:
    """Return sentences computed from a run's rows; none where what they would compare was not scored."""
    main = {
        row["method"]: row
        for row in rows
        if (row["metric"], row["questions"], row["ground_truth"])
        == (paper_table.METRIC, paper_table.QUESTIONS, paper_table.GROUND_TRUTH)
        and row["pooling"] == HEADING["mass"] and row["subset"] == "all" and np.isfinite(row["mean"])
    }  # fmt: skip
    published = {name: row for name, row in main.items() if row["paper"] is not None}
    notes = []
    if measured.gaps is not None and measured.right.any():
        gap = summary(measured.gaps[measured.right])
        notes.append(
            "Integrated Gradients: the sum of a map misses f(image) - f(baseline) by "
            f"{100 * gap.median:.2g} % of it (median; 80th percentile {100 * gap.p80:.2g} %)."
        )
    if len(published) >= 3:
        order = statistics.spearman(
            [row["mean"] for row in published.values()], [row["paper"] for row in published.values()]
        )
        spread = statistics.spearman(
            [row["std"] for row in published.values()], [row["paper_std"] for row in published.values()]
        )
        notes.append(
            f"Order of the {len(published)} methods by mean mass accuracy against the poster's: Spearman's rank "
            f"correlation {order:.2f}; by standard deviation: {spread:.2f}."
        )
    if all(name in main for name in (*BEST, *WORST)):
        bar = max(WORST, key=lambda name: main[name]["mean"])
        above = [name for name in BEST if main[name]["mean"] > main[bar]["mean"]]
        below = [name for name in BEST if name not in above]
        shown = " and ".join(titled(main[name]) for name in above) or "None of these"
        notes.append(
            "On the poster LRP, Excitation Backprop and Integrated Gradients lie above Gradient x Input, Deconvnet and "
            "Grad-CAM. " + ("So they do here." if not below else f"{shown} {'do' if len(above) != 1 else 'does'} here.")
        )
    edges = main.get("edge_detector")
    if edges:
        beaten = [row for row in main.values() if row["kind"] == "method" and row["mean"] <= edges["mean"]]
        if beaten:
            names = ", ".join(titled(row) for row in beaten)
            notes.append(f"No better than an edge detector, which asks no network, in mass accuracy: {names}.")
    for control in controls.OF_METHODS:
        kept = [
            (main[row["of"]], row["mean"] / main[row["of"]]["mean"])
            for row in main.values()
            if row.get("control") == control and row["of"] in main and main[row["of"]]["mean"] > 0
        ]
        insensitive = [titled(row) for row, share in kept if share > 0.9]
        if insensitive:
            notes.append(
                f"Keeps more than nine tenths of its mass accuracy under the control '{controls.OF_METHODS[control]}': "
                f"{', '.join(insensitive)}."
            )
    return notes
