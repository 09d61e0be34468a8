"""SVEA's own metrics: names, directions, and how to read them."""

from __future__ import annotations

from attribution_benchmarks.core.metric import Metric

_PAPER = "Sattarzadeh et al., ICCV Workshops 2021"
METRICS = {
    metric.name: metric
    for metric in (
        Metric(
            "roe_test",
            "ROE test %",
            about="Linear classifiers are trained on the regions alone and asked for the class. The figure is the "
            "percentage of test signals they get right: more is better. The test rewards whoever finds the shape, and "
            "a peak of the signal often is the shape.",
            percent=True,
            rate=True,
            source=_PAPER,
        ),
        Metric(
            "drop",
            "Drop %",
            "less",
            about="The network sees the region alone, the rest set to zero. The figure is the mean loss of its "
            "confidence in percent of what it was: less is better.",
            percent=True,
            source=_PAPER,
        ),
        Metric(
            "increase",
            "Increase %",
            about="The share of signals, in percent, of which the network is more confident when it sees the region "
            "alone: more is better.",
            percent=True,
            rate=True,
            source=_PAPER,
        ),
    )
}
