"""Questions for a report to show: image, what the question is about, and the maps of all methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from attribution_benchmarks.core import report_examples
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.input_scores import InputScores
from attribution_benchmarks.core.store import ScoreStore
from clevr_xai.blocks import Questions
from clevr_xai.measured import Measured
from clevr_xai.pooling import pool

COUNT = 5
POOLING = "max-norm"  # squares would show the peaks alone
_BRIGHTEST = 0.998  # a handful of pixels would otherwise leave all others dark


def map_bytes(maps: np.ndarray, block: Batch, scores: Callable) -> np.ndarray:
    """Return pooled maps as bytes, the brightest pixels cut off, (N, H * W)."""
    pooled = pool(maps, [POOLING])[POOLING].reshape(len(maps), -1)
    top = np.quantile(pooled, _BRIGHTEST, axis=1)[:, None]
    top = np.where(top > 0, top, pooled.max(axis=1)[:, None])
    return report_examples.unsigned(np.divide(pooled, top, out=np.zeros(pooled.shape), where=top > 0))


def chosen(groups: Sequence[InputScores], measured: Measured, ground_truth: str) -> list[int]:
    """Return the places in the data set of the questions that ``save`` shows."""
    groups = [group for group in groups if group.where.get("ground_truth") == ground_truth and len(group.inputs)]
    if not groups:
        return []
    names = _picked(groups, measured)
    return [int(measured.rows[np.flatnonzero(measured.indices == int(name))[0]]) for name in names]


def maps_of(
    questions: Questions, rows: Sequence[int], explainer, store: ScoreStore | None = None
) -> dict[str, np.ndarray]:
    """Return the maps of some questions as pictures, from the store where they are there; method -> (n, H, W) uint8."""
    taken, network = questions.take(rows), questions.network
    side = questions.dataset.images(rows[:1]).shape[1]
    key = {"benchmark": "clevr_xai", "model": network.model.fingerprint if network else ""}
    measure = report_examples.MapPicture("picture", map_bytes, width=side * side)
    return report_examples.maps_of(explainer, measure, taken.batches(len(rows)), key, [Questions], store, (side, side))


def _picked(groups: Sequence[InputScores], measured: Measured) -> list[str]:
    methods = list(dict.fromkeys(label.method for label in measured.sources if label.method))
    same = [group for group in groups if list(group.inputs) == list(groups[0].inputs)]
    own = [group for group in same if "pooling" in group.where] or same
    return [groups[0].inputs[place] for place in report_examples.choose(own, [], methods, COUNT)]


def save(
    directory: str,
    questions: Questions,
    measured: Measured,
    explainer,
    groups: Sequence[InputScores],
    ground_truth: str,
    store: ScoreStore | None = None,
) -> str:
    """Write the questions that tell the methods apart, and return the file.

    Parameters
    ----------
    directory
        Where to write.
    questions, measured, explainer, store
        Of the run.
    groups
        Its input scores.
    ground_truth
        Outlined; the groups of other ground truths are left out.
    """
    groups = [group for group in groups if group.where.get("ground_truth") == ground_truth and len(group.inputs)]
    if not groups:
        return report_examples.save(directory, [], [])
    names = tuple(group.where["metric"] for group in groups)
    names_shown = _picked(groups, measured)
    row_of = {str(index): int(row) for index, row in zip(measured.indices, measured.rows, strict=True)}
    rows = [row_of[name] for name in groups[0].inputs]
    taken = [row_of[name] for name in names_shown]
    maps = maps_of(questions, taken, explainer, store)
    examples = []
    (batch,) = questions.dataset.batches(len(taken), np.array(taken))
    for place, name in enumerate(names_shown):
        view = report_examples.ExampleView(
            "", batch.images[place], batch.masks[ground_truth][place],
            {method: found[place] for method, found in maps.items()}, f"answered rightly: {batch.answers[place]}",
        )  # fmt: skip
        examples.append(report_examples.Example(name, names, batch.questions[place], (view,)))
    pictures = report_examples.InputPictures(names, tuple(groups[0].inputs), questions.dataset.images(rows))
    return report_examples.save(directory, examples, [pictures])
