"""Parts: does a map give each part of an object the importance that it has to the network? It is counted exactly.

Networks recognize drawn objects from the variants of five parts, and were trained with random parts missing. So each of
the 32 sets of parts is an ordinary input, and the exact Shapley values of the parts are counted. The question and the
protocol are those of FunnyBirds (Hesse et al., ICCV 2023); the drawings, classes and networks are the project's own.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np

import attribution
from attribution_benchmarks.core import tables
from attribution_benchmarks.core.batch import Batch, MapSource
from attribution_benchmarks.core.bundled_models import default_model, models_folder
from attribution_benchmarks.core.controls import (
    CENTRE_PRIOR,
    EDGE_DETECTOR,
    GROUND_TRUTH,
    RANDOM,
    UNIFORM,
    Control,
)
from attribution_benchmarks.core.definition import Benchmark, ReportTask
from attribution_benchmarks.core.evaluation import ExampleEvaluation, Run
from attribution_benchmarks.core.examples import Examples
from attribution_benchmarks.core.report_text import ReportText
from attribution_benchmarks.core.scores import InputScores, Scores, kind_of
from attribution_benchmarks.core.settings import ExampleSettings, inherited
from attribution_benchmarks.parts import objects
from attribution_benchmarks.parts.classes import CLASSES, PARTS, shared_pair, sufficient_sets
from attribution_benchmarks.parts.metrics import CHECKS, METRICS, cross_fitted, mean_scores
from attribution_benchmarks.parts.truth import exact_values, findings, scores_of_interventions

_MOST = 400  # test images
METHODS = (
    "gradient", "gradient_x_input", "integrated_gradients", "expected_gradients", "smoothgrad", "guided_backprop",
    "deconvnet", "lrp_epsilon", "lrp_alpha1beta0", "deeplift", "grad_cam", "grad_cam_plus_plus", "score_cam",
    "guided_grad_cam", "occlusion", "rise",
)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(ExampleSettings):
    """One network."""

    random_networks: int = inherited(ExampleSettings, "random_networks", 0)


def examples(count: int, seed: int) -> Examples:
    """Draw test images, at most 400; classes, and plain and busy grounds, take turns."""
    drawings = [objects.draw("test", number, seed) for number in range(min(count, _MOST))]
    masks = np.stack([objects.masks_of(one) for one in drawings])
    layers = {name: masks[:, number] for number, name in enumerate(objects.LAYERS)}
    background = masks[:, : objects.BACKGROUND_OBJECTS]
    regions = np.concatenate([np.stack([layers[part] for part in PARTS], axis=1), background], axis=1)
    variants, labels = (np.stack([getattr(one, name) for one in drawings]) for name in ("variants", "label"))
    pairs = [shared_pair(one, int(label)) for one, label in zip(variants, labels, strict=True)]
    whole = np.ones((1, len(objects.LAYERS)), bool)
    return Examples(
        np.concatenate([objects.images_of(one, whole) for one in drawings]),
        masks={
            "parts": np.asarray(regions[:, : len(PARTS)].any(axis=1)),
            **{name: layers[name] for name in (*PARTS, "body")},
            "background objects": np.asarray(background.any(axis=1)),
        },
        targets=labels,
        truth={
            "regions": regions,
            "there": np.asarray(background.any(axis=(2, 3))),
            "sufficient": sufficient_sets(variants),
            "pair": np.array([pair for pair, _ in pairs]),
            "pair_parts": np.array([parts for _, parts in pairs]),
        },
        names=[f"{tuple(CLASSES)[one.label]}-{number:03d}" for number, one in enumerate(drawings)],
    )


def _exact_maps(batch: Batch, seed: int) -> np.ndarray:
    """Return maps whose sum over each part is its exact Shapley value, (N, H, W)."""
    regions = np.asarray(batch.truth["regions"])[:, : len(PARTS)]
    sizes = np.maximum(regions.sum(axis=(2, 3)), 1)
    return np.einsum("np,nphw->nhw", exact_values(batch) / sizes, regions)


EXACT_VALUES = Control(
    "exact_values",
    "Exact Shapley values",
    "the exact value of each part, spread over its pixels: what a metric gives to the truth",
    _exact_maps,
    oracle=True,
)


class Evaluation(ExampleEvaluation):
    """The truth is that of the explained network, so it is counted when the network is known."""

    @classmethod
    def load(cls, run: Run) -> Evaluation:
        """Load the network and the images, and compute the network's scores of all sets of parts."""
        settings: Any = run.settings
        loaded = super().load(run)
        models = loaded.models or {"": attribution.load_model(settings.model or run.benchmark.network)}
        (model,) = models.values()
        numbers = (int(name.rpartition("-")[2]) for name in loaded.data.names)
        images = (objects.interventions(objects.draw("test", number, settings.seed)) for number in numbers)
        scored = scores_of_interventions(images, functools.partial(model.scores, batch_size=64))
        return cls(run, loaded.models, dataclasses.replace(loaded.data, truth={**loaded.data.truth, **scored}))

    def facts(self) -> list[str]:
        """Return facts about the network."""
        data = self.data
        return findings(Batch(data.inputs, data.names, data.targets, truth=data.truth))

    def groups(self) -> Iterator[InputScores]:
        """Yield each input's value; by the checks, at the threshold that is best on the other half of the inputs."""
        checked = CHECKS.keys() <= self.run.metrics.keys()
        fitted = {source.name: cross_fitted(self._curves(source)) for source in self.numbers.sources} if checked else {}
        for group in super().groups():
            metric = group.where["metric"]
            if checked and metric in CHECKS:
                group = dataclasses.replace(group, values={name: fitted[name][metric] for name in group.values})
            yield group

    def _curves(self, source: MapSource) -> dict[str, np.ndarray]:
        measures = {name: self.run.metrics[name].measure for name in CHECKS}
        return {name: self.numbers.of(source, measure)[:, 1:] for name, measure in measures.items() if measure}

    def tables(self) -> Iterator[Scores]:
        """Yield the scores, then the published mean scores at thresholds of other inputs."""
        *parts, notes = super().tables()
        yield from parts
        if {*CHECKS, "single_deletion", "target_sensitivity"} <= self.run.metrics.keys():
            yield self._mean_scores(Scores.joined(parts))
        yield notes

    def _mean_scores(self, scores: Scores) -> Scores:
        known = {
            (row["method"], row["metric"]): np.nan if row["value"] is None else row["value"] for row in scores.rows
        }
        rows, body = [], []
        for source in scores.sources:
            if source.method and source.control:
                continue
            others = [known.get((source.name, name), np.nan) for name in ("single_deletion", "target_sensitivity")]
            values = mean_scores({name: known[source.name, name] for name in CHECKS}, *others)
            rows += [
                {"benchmark": "parts", "method": source.name, "metric": name, "value": value, "low": None, "high": None,
                 "n": 0, "paper": None, "kind": kind_of(source)}
                for name, value in values.items()
            ]  # fmt: skip
            body.append([scores.titles[source.name], *(tables.number(values[each], 3) for each in SUMMARY)])
        header = ["protocol", *SUMMARY.values()]
        text, markdown = (make(header, body) + "\n" for make in (tables.text_table, tables.markdown_table))
        return Scores(list(map(tables.plain, rows)), text=text, markdown=markdown)


SUMMARY = {
    "completeness": "completeness",
    "correctness": "correctness",
    "contrastivity": "contrastivity",
    "mean_score": "mean score",
}


def networks() -> list[pathlib.Path]:
    """Return the directories of the trained networks, by seed and then by architecture."""
    found = sorted((models_folder() / "parts").glob("*_seed*"), key=lambda path: (path.name[-1], path.name))
    return found


def report_tasks(quick: bool, seed: int) -> list[ReportTask]:
    """Return the task of the report, whose further networks are the other trained ones."""
    count = 30 if quick else _MOST // 2
    settings = Settings(num_imgs=count, seed=seed)
    further = tuple(dataclasses.replace(settings, model=str(path)) for path in networks()[1:])
    return [
        ReportTask(
            BENCHMARK.name, BENCHMARK.name, BENCHMARK.title, settings, _REPORTED, f"{count} images.",
            metrics=BENCHMARK.default_metrics, random_networks=False, networks=further,
            cost=20 if quick else 90,
        )
    ]  # fmt: skip


_REPORTED = (  # besides the cheap methods of all benchmarks
    "gradient", "gradient_x_input", "integrated_gradients", "smoothgrad", "guided_backprop", "lrp_alpha1beta0",
    "grad_cam", "score_cam",
)  # fmt: skip
_DEFINED = Benchmark(
    name="parts",
    title="Parts",
    report=ReportText.load(pathlib.Path(__file__).with_name("report.toml")),
    metrics=METRICS,
    controls=(UNIFORM, RANDOM, CENTRE_PRIOR, EDGE_DETECTOR, GROUND_TRUTH, EXACT_VALUES),
    methods=METHODS,
    settings=Settings,
    evaluation=Evaluation.load,
    examples=examples,
    network=str(default_model("parts/plain_seed0")),
    report_tasks=report_tasks,
)
_COLUMNS = ("shapley_correlation", "top_part")
BENCHMARK: Benchmark = dataclasses.replace(
    _DEFINED, columns=tuple(_DEFINED.column(metric) for metric in METRICS if metric.name in _COLUMNS)
)
