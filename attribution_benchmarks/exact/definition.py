"""Exact truth as a definition: networks whose right attributions are counted, not argued for."""

from __future__ import annotations

import dataclasses

import numpy as np

from attribution_benchmarks.cli.bundled_models import default_model
from attribution_benchmarks.core.controls import RANDOM, UNIFORM
from attribution_benchmarks.core.definition import Benchmark
from attribution_benchmarks.core.examples import Examples
from attribution_benchmarks.core.random_weights import RANDOM_WEIGHTS
from attribution_benchmarks.exact.metrics import METRICS, OVERALL
from attribution_benchmarks.exact.problems import FEATURES, HAND_SET, NAMES, TRAINED

METHODS = (
    "gradient", "gradient_x_input", "integrated_gradients", "expected_gradients", "guided_integrated_gradients",
    "deeplift", "smoothgrad", "guided_backprop", "deconvnet", "lrp_epsilon", "lrp_alpha1beta0", "occlusion", "rise",
)  # fmt: skip
_NO_LAYER = "the network has no convolution"


def examples(count: int, seed: int) -> Examples:
    """Draw inputs, as many of each problem; the first features are those that matter.

    Parameters
    ----------
    count
        Inputs of all problems together, rounded up to as many of each; at most 100 of each.
    seed
        Of the draws; each problem has its own, so that more inputs begin with the fewer.
    """
    each = min(-(-count // len(NAMES)), 100)
    drawn, masks, suppressors = [], [], []
    for place in range(len(NAMES)):
        generator = np.random.default_rng([seed, place])
        problem = HAND_SET[place] if place < len(HAND_SET) else None
        if problem:
            inputs = np.concatenate([problem.draw(generator, 1) for _ in range(each)])
        else:
            inputs = generator.normal(size=(each, FEATURES)).astype(np.float32)
        matters = (problem.attributions(inputs) != 0) if problem else np.broadcast_to(np.arange(12) < 7, inputs.shape)
        disturbs = np.isin(np.arange(FEATURES), problem.suppressors if problem else ())
        drawn.append(inputs)
        masks.append(matters & ~disturbs)
        suppressors.append(np.broadcast_to(disturbs, inputs.shape))
    return Examples(
        np.concatenate(drawn),
        masks={"features that matter": np.concatenate(masks)},
        targets=np.repeat(np.arange(len(NAMES)), each),
        truth={"suppressors": np.concatenate(suppressors)},
        names=[f"{name}-{number:03d}" for name in NAMES for number in range(each)],
    )


_DEFINED = Benchmark(
    name="exact",
    title="Exact truth",
    about="Networks of twelve features, seven set by hand and two trained, whose exact Shapley values are known: in "
    "closed form, and by putting all 4,096 coalitions of features to the network. Absent features are zero.",
    paper="after Lee et al., XAI-Units, FAccT 2025, and Clark et al., XAI-TRIS, Machine Learning 113, 2024",
    metrics=METRICS,
    controls=(UNIFORM, RANDOM, RANDOM_WEIGHTS),
    methods=METHODS,
    examples=examples,
    network=str(default_model("exact/problems")),
    counts=(4 * len(NAMES), 20 * len(NAMES)),
    reasons=dict.fromkeys(
        ("grad_cam", "grad_cam_plus_plus", "xgrad_cam", "layer_cam", "score_cam", "sise", "guided_grad_cam"), _NO_LAYER
    ),
    more_metrics=TRAINED,
)
BENCHMARK = dataclasses.replace(_DEFINED, columns=tuple(map(_DEFINED.column, OVERALL)))  # the report's; tables have all
