"""Exact truth as a definition: networks whose right attributions are counted, not argued for."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from attribution_benchmarks.cli.bundled_models import default_model
from attribution_benchmarks.core.controls import RANDOM, UNIFORM
from attribution_benchmarks.core.definition import Benchmark
from attribution_benchmarks.core.examples import Examples
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.random_weights import RANDOM_WEIGHTS
from attribution_benchmarks.exact.metrics import OVERALL, SUPPRESSOR_SHARE, of_problem
from attribution_benchmarks.exact.problems import FEATURES, HAND_SET, NAMES, TRAINED, Problem

METHODS = (
    "gradient", "gradient_x_input", "integrated_gradients", "expected_gradients", "guided_integrated_gradients",
    "deeplift", "smoothgrad", "guided_backprop", "deconvnet", "lrp_epsilon", "lrp_alpha1beta0", "occlusion", "rise",
)  # fmt: skip
_NO_LAYER = "the network has no convolution"


def examples(count: int, seed: int, problems: Sequence[Problem] = HAND_SET, names: Sequence[str] = NAMES) -> Examples:
    """Draw inputs, as many of each problem, at most 100 of each; the first features are those that matter.

    ``count`` inputs of all problems together are rounded up. Each problem has its own random numbers, so that more
    inputs begin with the fewer. ``names`` are those of the hand-set ``problems``, then of trained networks.
    """
    each = min(-(-count // len(names)), 100)
    drawn, masks, suppressors = [], [], []
    for place in range(len(names)):
        generator = np.random.default_rng([seed, place])
        problem = problems[place] if place < len(problems) else None
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
        targets=np.repeat(np.arange(len(names)), each),
        truth={"suppressors": np.concatenate(suppressors)},
        names=[f"{name}-{number:03d}" for name in names for number in range(each)],
    )


def define(
    name: str, title: str, about: str, paper: str, network: str, problems: Sequence[Problem],
    trained: Mapping[str, str] = MappingProxyType({}), metrics: tuple[Metric, ...] = (),
) -> Benchmark:  # fmt: skip
    """Return a benchmark of networks of twelve features, one output a problem.

    ``network`` is a bundled SavedModel, such as "exact/problems". Its outputs are the hand-set ``problems``, then the
    ``trained`` ones, with their descriptions. ``metrics`` are those in addition to the metrics of the truth. Other
    arguments are as of ``Benchmark``.
    """
    names = (*(problem.name for problem in problems), *trained)
    abouts = {problem.name: problem.about for problem in problems}
    of_problems = (of_problem(place, each, abouts.get(each, "")) for place, each in enumerate(names))
    defined = Benchmark(
        name=name,
        title=title,
        about=about,
        paper=paper,
        metrics=(*OVERALL, *of_problems, *metrics),
        controls=(UNIFORM, RANDOM, RANDOM_WEIGHTS),
        methods=METHODS,
        examples=functools.partial(examples, problems=problems, names=names),
        network=str(default_model(network)),
        counts=(4 * len(names), 20 * len(names)),
        reasons=dict.fromkeys(
            ("grad_cam", "grad_cam_plus_plus", "xgrad_cam", "layer_cam", "score_cam", "sise", "guided_grad_cam"),
            _NO_LAYER,
        ),
        more_metrics=trained,
    )
    return dataclasses.replace(defined, columns=tuple(map(defined.column, OVERALL)))  # the report's; tables have all


BENCHMARK = define(
    "exact",
    "Exact truth",
    "Networks of twelve features, seven set by hand and two trained, whose exact Shapley values are known: in closed "
    "form, and by evaluating all 4,096 coalitions of features. Absent features are zero.",
    "after Lee et al., XAI-Units, FAccT 2025, and Clark et al., XAI-TRIS, Machine Learning 113, 2024",
    "exact/problems",
    HAND_SET,
    TRAINED,
    (SUPPRESSOR_SHARE,),
)
