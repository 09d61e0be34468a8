"""Exact truth as a definition: networks whose right attributions are counted, not argued for.

The problems are posed after XAI-Units (Lee et al., FAccT 2025) and XAI-TRIS (Clark et al., Machine Learning 113, 2024),
in our own words and numbers. All of them share one network of twelve features, one class a problem; features that a
problem does not name are noise that its answer does not depend on.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Mapping, Sequence
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
from attribution_benchmarks.metrics.descriptions import read_toml
from attribution_benchmarks.stats.coalitions import coalitions, shapley_values

FEATURES = 12
_LETTERS = "abcdefghijkl"
_NEGLIGIBLE = 1e-9  # rounding of a value that is zero

Weights = Mapping[int, float]  # of features
_Unit = tuple[Weights, float, float]  # rectified unit: weights of features, bias, weight of its output


@dataclasses.dataclass(frozen=True)
class Problem:
    """A function of twelve features that is known in closed form; ``problems.toml`` describes the attributes."""

    name: str
    about: str  # what makes it hard, in plain sentences
    units: tuple[_Unit, ...] = ()
    linear: Weights = dataclasses.field(default_factory=dict)
    bias: float = 0.0
    intervals: Mapping[int, tuple[float, float]] = dataclasses.field(default_factory=dict)
    bits: tuple[int, ...] = ()
    derived: Mapping[int, Weights] = dataclasses.field(default_factory=dict)
    suppressors: tuple[int, ...] = ()

    def draw(self, generator: np.random.Generator, count: int) -> np.ndarray:
        """Return inputs, (count, 12) float32."""
        inputs = generator.normal(size=(count, FEATURES))
        for feature, (low, high) in self.intervals.items():
            inputs[:, feature] = generator.uniform(low, high, count)
        inputs[:, self.bits] = inputs[:, self.bits] > 0
        drawn = inputs.copy()
        for feature, weights in self.derived.items():
            inputs[:, feature] = drawn @ _dense(weights)
        return inputs.astype(np.float32)

    def scores(self, inputs: np.ndarray) -> np.ndarray:
        """Return the function of (..., 12) inputs, (...) float64."""
        found: np.ndarray = np.asarray(inputs, np.float64) @ _dense(self.linear) + self.bias
        for weights, bias, output in self.units:
            found = found + output * np.maximum(inputs @ _dense(weights) + bias, 0.0)
        return found

    def attributions(self, inputs: np.ndarray) -> np.ndarray:
        """Return the exact Shapley values, (N, 12) float64, counted over the features that the function reads."""
        read = sorted({*self.linear, *(feature for weights, _, _ in self.units for feature in weights)})
        members = coalitions(len(read))
        parts = np.zeros((len(inputs), len(members), FEATURES))
        parts[..., read] = np.where(members, inputs[:, np.newaxis, read], 0.0)
        found = np.zeros(inputs.shape)
        found[:, read] = shapley_values(self.scores(parts))
        return np.where(np.abs(found) > _NEGLIGIBLE, found, 0.0)


def _dense(weights: Weights) -> np.ndarray:
    return np.array([weights.get(feature, 0.0) for feature in range(FEATURES)])


DATA = read_toml(pathlib.Path(__file__).with_name("problems.toml"))


def read_problems(name: str) -> tuple[Problem, ...]:
    """Return the problems of a benchmark in ``problems.toml``, whose features are letters there."""

    def numbered(value: Any) -> Any:
        if isinstance(value, dict):
            return {_LETTERS.index(letter): numbered(each) for letter, each in value.items()}
        if isinstance(value, list):
            return tuple(map(numbered, value))
        return _LETTERS.index(value) if isinstance(value, str) else value

    found = []
    for each in DATA[name]:
        values = {key: value if key in ("name", "about") else numbered(value) for key, value in each.items()}
        found.append(Problem(**values))
    return tuple(found)


HAND_SET = read_problems("exact")
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
