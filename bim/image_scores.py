"""Every image's score under BIM's metrics, as comparisons across benchmarks read them."""

from __future__ import annotations

from collections.abc import Sequence

from attribution_benchmarks.core.input_scores import InputScores
from bim.evaluate import Comparison


def image_scores(comparisons: Sequence[Comparison]) -> list[InputScores]:
    """Return one group for each metric, and for each contrast model of relative MCS.

    Parameters
    ----------
    comparisons
        From ``Benchmark.compare``; those of one group count the same images.
    """
    groups = {}
    for comparison in comparisons:
        groups.setdefault((comparison.metric_name, comparison.scene_model), []).append(comparison)
    return [
        InputScores(
            {"metric": metric, **({} if number is None else {"scene_model": number})},
            [f"image {row}" for row in group[0].rows],
            {comparison.method: comparison.values for comparison in group},
            group[0].clusters,
        )
        for (metric, number), group in groups.items()
    ]
