"""XAI-TRIS: which tetromino is in the noise (Clark et al., Machine Learning 113, 2024), on networks with exact truth.

The paper's truth is the mask of the tetrominoes. A network may use other pixels, such as suppressors that carry the
same noise, so the truth here is the exact Shapley values of the network's logit, and the mask is a second question.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from attribution_benchmarks.cli.bundled_models import default_model
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.controls import EDGE_DETECTOR, GROUND_TRUTH, RANDOM, UNIFORM, Control
from attribution_benchmarks.core.definition import Benchmark
from attribution_benchmarks.core.examples import Examples
from attribution_benchmarks.core.metric import mask_of, of_maps
from attribution_benchmarks.core.random_weights import RANDOM_WEIGHTS
from attribution_benchmarks.core.runner import Run
from attribution_benchmarks.exact import tetrominoes
from attribution_benchmarks.exact.definition import METHODS
from attribution_benchmarks.exact.metrics import OVERALL, of_problem
from attribution_benchmarks.metrics.localisation import shared_with_highest
from attribution_benchmarks.metrics.map_values import flat, magnitude
from attribution_benchmarks.metrics.model_queries import Scores

_MOST = 100  # images of a problem


def _examples(count: int, seed: int) -> Examples:
    """Draw images, as many of each problem and background, and of each class in turn; at most 100 of each.

    The targets are the true classes: outputs 2k and 2k + 1 of the network are those of ``tetrominoes.NAMES[k]``.
    """
    each = min(-(-count // len(tetrominoes.NAMES)), _MOST)
    images, labels, masks = [], [], []
    for place, name in enumerate(tetrominoes.NAMES):
        drawn, label, mask = tetrominoes.draw(name, _MOST, np.random.default_rng([seed, place, 2]))
        images.append(drawn[:each])
        labels.append(2 * place + label[:each])
        masks.append(mask[:each])
    return Examples(
        np.concatenate(images),
        masks={"tetrominoes": np.concatenate(masks)},
        targets=np.concatenate(labels),
        names=[f"{name}-{number:03d}" for name in tetrominoes.NAMES for number in range(each)],
    )


def mask_precision(maps: np.ndarray, batch: Batch, scores: Scores) -> np.ndarray:
    """Return the share of the k pixels of the largest magnitude that are among the k of the mask, (N,).

    Ties count by their expectation.
    """
    mask = mask_of(batch)
    size = flat(mask).sum(axis=1)
    return np.asarray(shared_with_highest(magnitude(maps, batch), mask, size) / size)


def _exact_values(batch: Batch, seed: int) -> np.ndarray:
    """Return the exact Shapley values as maps, (N, 8, 8)."""
    return np.asarray(batch.truth["shapley"])[..., 0]


EXACT_VALUES = Control(
    "exact_values", "Exact Shapley values", "the truth itself as a map: what a metric gives to it", _exact_values,
    oracle=True,
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class _XaiTris(Benchmark):
    """The benchmark; its truth is that of the explained network, so it is computed when the network is known."""

    def load(self, run: Run) -> None:
        """Load the network and the images, and count the Shapley values."""
        from attribution_benchmarks.exact.hidden_units import read_hidden_units

        super().load(run)
        units = read_hidden_units(run.flags.model or self.network)
        values = units.shapley_values(run.data.inputs, run.data.targets)
        run.data = dataclasses.replace(run.data, truth={"shapley": values})


_DEFINED = _XaiTris(
    name="xai_tris",
    title="XAI-TRIS",
    about="Eight networks of 8 x 8 pixels, trained to tell tetrominoes in white and in correlated noise apart, whose "
    "exact Shapley values are counted: no hidden unit reads more than twelve pixels. Absent pixels are zero.",
    paper="after Clark et al., XAI-TRIS, Machine Learning 113, 2024",
    metrics=(
        *OVERALL,
        *(
            of_problem(place, name, tetrominoes.ABOUT[name.rpartition("_")[0]], classes=2)
            for place, name in enumerate(tetrominoes.NAMES)
        ),
        of_maps(
            "mask_precision",
            mask_precision,
            title="Mask precision",
            about="The share of the k pixels of the largest magnitude that are among the k pixels of the tetrominoes. "
            "Between 0 and 1; more is better to a reader who takes a map for where the class is. The network's exact "
            "Shapley values do not reach 1.",
            source="Clark et al., XAI-TRIS, Machine Learning 113, 2024",
            bounds=(0.0, 1.0),
        ),
    ),
    controls=(UNIFORM, RANDOM, EDGE_DETECTOR, GROUND_TRUTH, EXACT_VALUES, RANDOM_WEIGHTS),
    methods=METHODS,
    examples=_examples,
    network=str(default_model("exact/tetrominoes")),
    counts=(4 * len(tetrominoes.NAMES), 20 * len(tetrominoes.NAMES)),
)
BENCHMARK = dataclasses.replace(_DEFINED, columns=tuple(map(_DEFINED.column, (*OVERALL, _DEFINED.metrics[-1]))))
