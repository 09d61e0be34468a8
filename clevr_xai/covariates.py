"""What an accuracy goes with, question by question: how sure the answer is, how large the mask, how full the scene.

Two tables of means may differ because methods do, or because the questions do: a network that is less sure, smaller
objects, fuller scenes. Rank correlations over a run's own questions say which of these a method's accuracy goes with.
They hint at how its mean would move under a surer network or on larger masks, and prove nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from attribution_benchmarks.core import tables
from attribution_benchmarks.stats import correlation
from attribution_benchmarks.stats.statistics import Estimate
from clevr_xai import subsets
from clevr_xai.accuracies import ACCURACIES
from clevr_xai.dataset import Dataset
from clevr_xai.measured import Measured
from clevr_xai.metrics import METRICS
from clevr_xai.pooling import POOLINGS
from clevr_xai.scoring import HEADING
from clevr_xai.table import TRUTH_TITLES, titled

FEWEST = 30  # questions, below which a correlation says nothing of use


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


def correlations(
    measured: Measured, dataset: Dataset, ground_truth: str, metrics: Sequence[str], seed: int = 0
) -> list[Covariates]:
    """Return how each method's accuracies rise with what is known of the questions.

    Parameters
    ----------
    measured
        Numbers of the questions.
    dataset
        That they are of.
    ground_truth
        Which masks.
    metrics
        Of ``accuracies.ACCURACIES``, each in its heading's pooling.
    seed
        Of the draws for the intervals.

    Returns
    -------
    list[Covariates]
        One a metric; none for fewer than ``FEWEST`` questions.
    """
    counted = subsets.members(measured, "all", ground_truth, 1, 0)
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
        where = counted, place, list(METRICS).index(metric), list(POOLINGS).index(HEADING[metric])
        rows = {}
        for label in labels:
            values = measured.counted(label)[where]
            has = np.isfinite(values)  # maps of zeros that are left out
            rows[label.name] = [
                correlation.spearman_interval(values[has], np.asarray(column)[has], clusters=images[has], seed=seed)
                for column in known.values()
            ]
        found.append(Covariates(ground_truth, metric, int(counted.sum()), list(known), rows))
    return found


def text(found: Sequence[Covariates], markdown: bool = False) -> str:
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
