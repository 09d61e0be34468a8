"""CLEVR-XAI's own metrics: names, and how to read them; ``metrics.py`` computes them."""

from __future__ import annotations

from attribution_benchmarks.core.metric import Metric

_PAPER = "Arras, Osman and Samek, Information Fusion 81, 2022"
ACCURACIES = {
    metric.name: metric
    for metric in (
        Metric(
            "mass",
            "Relevance mass accuracy",
            about="Relevance mass accuracy: the share of a map's total that lies on the objects the question is about. "
            "Between 0 and 1; more is better. A map spread evenly gets the objects' share of the image.",
            source=_PAPER,
            masks=True,
        ),
        Metric(
            "rank",
            "Relevance rank accuracy",
            about="Relevance rank accuracy: of as many highest pixels as the objects have, the share that lies on "
            "them. Between 0 and 1; more is better. It does not see how much stronger the highest pixels are.",
            source=_PAPER,
            masks=True,
        ),
    )
}
