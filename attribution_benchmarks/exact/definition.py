"""Exact truth as a definition: networks whose right attributions are counted, not argued for.

The problems are posed after XAI-Units (Lee et al., FAccT 2025) and XAI-TRIS (Clark et al., Machine Learning 113, 2024),
in our own words and numbers. All of them share one network of twelve features, one class a problem; features that a
problem does not name are noise that its answer does not depend on.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from attribution_benchmarks.core.bundled_models import default_model
from attribution_benchmarks.core.controls import RANDOM, UNIFORM
from attribution_benchmarks.core.definition import Benchmark
from attribution_benchmarks.core.evaluation import ExampleEvaluation
from attribution_benchmarks.core.examples import Examples
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.random_weights import RANDOM_WEIGHTS
from attribution_benchmarks.core.report_text import ReportText
from attribution_benchmarks.core.settings import ExampleSettings, inherited
from attribution_benchmarks.exact.metrics import OVERALL, SUPPRESSOR_SHARE, of_problem

FEATURES = 12
_STEEPNESS = 50.0  # of the step in "discontinuity"

_Unit = tuple[Mapping[int, float], float, float]  # rectified unit: weights of features, bias, weight of its output


@dataclasses.dataclass(frozen=True)
class Problem:
    """A function of twelve features that is known in closed form."""

    name: str
    about: str  # what makes it hard, in plain sentences
    # Closed form of the Shapley values: (N, 12) inputs -> feature -> (N,).
    truth: Callable[[np.ndarray], Mapping[int, np.ndarray]]
    units: tuple[_Unit, ...] = ()  # f(x) = Σ weight · relu(w · x + bias) + ``linear`` · x + ``bias``
    linear: Mapping[int, float] = dataclasses.field(default_factory=dict)
    bias: float = 0.0
    # Feature -> ends of the interval its values are drawn from; the others are standard normal.
    lows: Mapping[int, float] = dataclasses.field(default_factory=dict)
    highs: Mapping[int, float] = dataclasses.field(default_factory=dict)
    # Changes drawn inputs, such as by making two features the same.
    prepare: Callable[[np.ndarray], np.ndarray] = lambda inputs: inputs
    suppressors: tuple[int, ...] = ()  # features that the function uses and that say nothing about what is asked

    def draw(self, generator: np.random.Generator, count: int) -> np.ndarray:
        """Return inputs, (count, 12) float32."""
        inputs = generator.normal(size=(count, FEATURES))
        for feature in self.lows:
            inputs[:, feature] = generator.uniform(self.lows[feature], self.highs[feature], count)
        return self.prepare(inputs).astype(np.float32)

    def attributions(self, inputs: np.ndarray) -> np.ndarray:
        """Return the exact Shapley values, (N, 12) float64, zero where nothing else is known."""
        found = np.zeros(inputs.shape)
        for feature, values in self.truth(np.asarray(inputs, np.float64)).items():
            found[:, feature] = values
        return found


def _relu(values):
    return np.maximum(values, 0.0)


def between(features: Sequence[int], low: float, high: float) -> dict[str, Any]:
    """Return ``lows`` and ``highs`` of a ``Problem`` for some features."""
    return {"lows": dict.fromkeys(features, low), "highs": dict.fromkeys(features, high)}


def _interaction(x):
    alone = _relu(x[:, :2] - 1)
    both = _relu(x[:, 0] + x[:, 1] - 1)
    return {0: (alone[:, 0] + both - alone[:, 1]) / 2, 1: (alone[:, 1] + both - alone[:, 0]) / 2}


def _saturation(x):
    def worth(*features):
        return np.minimum(sum(x[:, feature] for feature in features), 1.0)

    return {
        i: worth(i) / 3 + (worth(i, j) - worth(j) + worth(i, k) - worth(k)) / 6 + (worth(0, 1, 2) - worth(j, k)) / 3
        for i, j, k in ((0, 1, 2), (1, 0, 2), (2, 0, 1))
    }


def _same(inputs):
    inputs[:, 1] = inputs[:, 0]
    return inputs


def _disturbed(inputs):
    inputs[:, 0] += inputs[:, 1]  # the signal and what lies over it; the second feature is the latter alone
    return inputs


_LINEAR = {0: 1.0, 1: -2.0, 2: 0.5, 3: 1.5, 4: -1.0}
HAND_SET = (
    Problem(
        "linear",
        "A weighted sum. Every method that claims contributions should be right here.",
        lambda x: {feature: weight * x[:, feature] for feature, weight in _LINEAR.items()},
        linear=_LINEAR,
    ),
    Problem(
        "interaction",
        "relu(a + b - 1): neither feature alone does much, both together do. The answer is owed to both.",
        _interaction,
        units=(({0: 1.0, 1: 1.0}, -1.0, 1.0),),
        **between((0, 1), 0.4, 1.6),
    ),
    Problem(
        "cancellation",
        "2 relu(a) - 2 relu(b) + relu(c), with a equal to b: two strong features cancel, and each is owed its part, "
        "one of them negative. Who lets only positive signals back never sees the second.",
        lambda x: {0: 2 * x[:, 0], 1: -2 * x[:, 1], 2: x[:, 2]},
        units=(({0: 1.0}, 0.0, 2.0), ({1: 1.0}, 0.0, -2.0), ({2: 1.0}, 0.0, 1.0)),
        prepare=_same,
        **between((0, 1, 2), 0.5, 1.5),
    ),
    Problem(
        "saturation",
        "min(a + b + c, 1), reached by far: no small change of one feature changes the answer, so that gradients are "
        "zero.",
        _saturation,
        units=(({0: -1.0, 1: -1.0, 2: -1.0}, 1.0, -1.0),),
        bias=1.0,
        **between((0, 1, 2), 0.6, 1.4),
    ),
    Problem(
        "discontinuity",
        "A steep step of a, and a little of b: where the step was taken the function is flat, and what it gave is "
        "found only by going back over it.",
        lambda x: {0: np.ones(len(x)), 1: 0.25 * x[:, 1]},
        units=(({0: _STEEPNESS}, -0.5 * _STEEPNESS, 1.0), ({0: _STEEPNESS}, -0.5 * _STEEPNESS - 1, -1.0)),
        linear={1: 0.25},
        **between((0,), 0.7, 1.3),
    ),
    Problem(
        "suppressor",
        "a - b, where a is a signal with something over it, and b is that something alone: the network needs b to "
        "clean a, while b says nothing about what is asked.",
        lambda x: {0: x[:, 0], 1: -x[:, 1]},
        linear={0: 1.0, 1: -1.0},
        prepare=_disturbed,
        suppressors=(1,),
    ),
    Problem(
        "uncertainty",
        "The log-odds of two answers, relu(2a + c) - relu(2b + c): c raises both alike and decides nothing.",
        lambda x: {0: 2 * x[:, 0], 1: -2 * x[:, 1]},
        units=(({0: 2.0, 2: 1.0}, 0.0, 1.0), ({1: 2.0, 2: 1.0}, 0.0, -1.0)),
        **between((0, 1, 2), 0.2, 1.2),
    ),
)
TRAINED = ("trained_relu", "trained_leaky")
NAMES = (*(problem.name for problem in HAND_SET), *TRAINED)


METHODS = (
    "gradient", "gradient_x_input", "integrated_gradients", "expected_gradients", "guided_integrated_gradients",
    "deeplift", "smoothgrad", "guided_backprop", "deconvnet", "lrp_epsilon", "lrp_alpha1beta0", "occlusion", "rise",
)  # fmt: skip


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


class OutputsEvaluation(ExampleEvaluation):
    """Evaluation of a network whose outputs are functions of their own, and no classes of an input."""

    def facts(self) -> list[str]:
        """Return nothing: no output is the right one."""
        return []


def define(
    name: str, title: str, report: ReportText, network: str, problems: Sequence[Problem],
    trained: tuple[str, ...] = (), metrics: tuple[Metric, ...] = (),
) -> Benchmark:  # fmt: skip
    """Return a benchmark of networks of twelve features, one output a problem.

    ``network`` is a bundled SavedModel, such as "exact/problems". Its outputs are the hand-set ``problems``, then the
    ``trained`` ones. ``metrics`` are those in addition to the metrics of the truth. Other arguments are as of
    ``Benchmark``.
    """
    names = (*(problem.name for problem in problems), *trained)
    abouts = {problem.name: problem.about for problem in problems}
    of_problems = (of_problem(place, each, abouts.get(each, "")) for place, each in enumerate(names))
    defined = Benchmark(
        name=name,
        title=title,
        report=report,
        metrics=(*OVERALL, *of_problems, *metrics),
        controls=(UNIFORM, RANDOM, RANDOM_WEIGHTS),
        methods=METHODS,
        examples=functools.partial(examples, problems=problems, names=names),
        network=str(default_model(network)),
        evaluation=OutputsEvaluation.load,
        counts=(-(-60 // len(names)) * len(names), 20 * len(names)),
    )
    return dataclasses.replace(defined, columns=tuple(map(defined.column, OVERALL)))  # the report's; tables have all


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(ExampleSettings):
    """Larger batches: a small network, and 4,096 coalitions of each input."""

    batch_size: int = inherited(ExampleSettings, "batch_size", 512)


_DEFINED = define(
    "exact",
    "Exact truth",
    ReportText.load(pathlib.Path(__file__).with_name("report.toml")),
    "exact/problems",
    HAND_SET,
    TRAINED,
    (SUPPRESSOR_SHARE,),
)
BENCHMARK = dataclasses.replace(_DEFINED, settings=Settings)
