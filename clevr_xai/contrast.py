"""CLEVR-XAI contrast: maps of a network that follows a cue, and of one that reads the scene.

Two networks of one architecture get the same image and question. A tile lies on the floor, and its colour says another
answer than the scene does. The shortcut gives the tile's answer, the reader the scene's; both is verified for every
question that counts. So a map that shows what a network uses is on the tile in one and on the object in question in the
other, and a map that does not depend on the network scores zero. Model contrast is the idea of BIM (Yang and Kim,
arXiv:1907.09701); masks of the tile and of the object are exact.
"""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import attribution
from attribution import Method, resolve_method
from attribution.errors import BadInput
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.bundled_models import default_model, given_or_bundled, shown_model
from attribution_benchmarks.core.controls import CENTRE_PRIOR, EDGE_DETECTOR, GROUND_TRUTH, RANDOM, UNIFORM, WRONG_CLASS
from attribution_benchmarks.core.definition import Benchmark, ReportTask
from attribution_benchmarks.core.evaluation import ExampleEvaluation, Run
from attribution_benchmarks.core.evaluator import Evaluator
from attribution_benchmarks.core.examples import Examples
from attribution_benchmarks.core.metric import Metric, PerSampleMetric
from attribution_benchmarks.core.random_weights import RANDOM_WEIGHTS
from attribution_benchmarks.core.report_text import ReportText
from attribution_benchmarks.core.scores import InputScores
from attribution_benchmarks.core.settings import ALL, Count, ExampleSettings, MapSettings, inherited, setting
from clevr_xai import cues, methods, metrics, vocabulary
from clevr_xai.data import KINDS, Dataset
from clevr_xai.methods import COSTLY
from clevr_xai.network import scaled
from clevr_xai.programs import node_type
from clevr_xai.questions import draw_rows

ROLES = ("reader", "shortcut")
STATES = ("contradicting", "consistent", "none")  # of the cue: what its answer is to the right one
FOLDER = "saved_models/clevr_xai/contrast"

_TRUTH = {"simple": "single_object", "complex": "unique"}


def pairs(of: Sequence[str] = tuple(cues.CUES)) -> list[str]:
    """Return the names of the bundled pairs, ``CUE_seedN``, by the network that they begin with; the default first."""
    found = (path.name for cue in of for path in given_or_bundled(FOLDER).glob(f"{cue}_seed*"))
    return sorted(found, key=lambda name: name[-1])


@dataclasses.dataclass(frozen=True, kw_only=True)
class PairSettings(MapSettings):
    """The pair, the number of questions, and the settings of methods."""

    batch_size: int = inherited(MapSettings, "batch_size", 8)
    random_networks: int = inherited(MapSettings, "random_networks", 1)
    num_imgs: Count = inherited(ExampleSettings, "num_imgs", 20)
    pair: str = setting("", "directory with the networks reader and shortcut; the bundled pair of the cue when empty")
    steps: int = setting(100, "intervals of Integrated Gradients' path", low=1)
    samples: int = setting(40, "noisy copies of SmoothGrad and VarGrad", low=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(PairSettings):
    """Those of a pair whose cue is a tile."""

    cue: str = setting("floor", "where the tile lies and which colours it has", choices=tuple(cues.CUES))
    questions: str = setting("simple", "kind of the questions, of which those about an attribute count", choices=KINDS)


def examples(
    count: int, seed: int, cue: str = "floor", questions: str = "simple", state: str = "contradicting"
) -> Examples:
    """Draw questions about an attribute, with a tile in the image.

    Parameters
    ----------
    count, seed
        Number of the questions, and seed of all random numbers; fewer questions are a part of more.
    cue
        Of ``cues.CUES``.
    questions
        "simple" or "complex".
    state
        Whether the tile's answer is "contradicting" or "consistent" with the right one, or there is "none".

    Returns
    -------
    attribution_benchmarks.core.examples.Examples
        Masks "target", the objects that the question is about, and "cue"; the right answers as targets; and as truth
        the ``question``, the ``attribute`` and the tile's answer, ``said``, as places in ``vocabulary.ANSWERS``.
    """
    dataset, where = Dataset(questions), cues.CUES[cue]
    asked = [row for row, each in enumerate(dataset.questions) if node_type(each["program"][-1]).startswith("query_")]
    rows = np.array(asked)[draw_rows(len(asked), count, seed)]
    images, (targets, _) = dataset.images(rows), dataset.masks(_TRUTH[questions], rows)
    occupied, _ = dataset.masks("all_objects", rows)
    entries = [dataset.questions[row] for row in rows]
    attributes = [node_type(each["program"][-1]).removeprefix("query_") for each in entries]
    places, free, said = [], [], []
    for number, (row, each, attribute) in enumerate(zip(rows, entries, attributes, strict=True)):
        rng = np.random.default_rng([seed, each["question_index"]])
        place, is_free = where.places(occupied[number : number + 1], rng)
        color = cues.drawn_states(attribute, dataset.answers[row], state == "consistent", rng)
        if state != "none":
            images[number : number + 1] = cues.planted(images[number : number + 1], where, place, np.array([color]))
        places.append(place[0])
        free.append(is_free[0])
        said.append(vocabulary.ANSWERS.index(cues.answer(attribute, color)))
    drawn = Examples(
        scaled(images),
        masks={"target": targets, "cue": cues.tile_masks(np.array(places))},
        targets=np.array([vocabulary.ANSWERS.index(dataset.answers[row]) for row in rows]),
        truth={
            "attribute": np.array([list(vocabulary.ATTRIBUTES).index(each) for each in attributes]),
            "said": np.array(said),
            "question": np.array([each["question"] for each in entries]),
        },
        names=[f"{questions}-{each['question_index']:06d}" for each in entries],
        clusters=[each["image_filename"] for each in entries],
        explained="image",
        others={"question": vocabulary.encode([each["question"] for each in entries], vocabulary.QUESTION_WORDS)},
    )
    return drawn.without(np.flatnonzero(~np.array(free) | ~targets.any(axis=(1, 2))))


def behavior(model: Any, draw: Callable[[str], Examples]) -> dict[tuple[str, str], tuple[float, float, int]]:
    """Return (state of the cue, attribute) -> share of right answers, share of the cue's answers, and questions.

    ``draw`` returns the questions with a cue in one of ``STATES``. "all" is the attribute of all questions. Of a
    consistent cue both shares are the same.
    """
    found = {}
    for state in STATES:
        data = draw(state)
        given = model.scores(data.feed, 16).argmax(axis=1)
        for place, name in enumerate(("all", *vocabulary.ATTRIBUTES)):
            chosen = (data.truth["attribute"] == place - 1) | (place == 0)
            right, says = (float((given == one)[chosen].mean()) for one in (data.targets, data.truth["said"]))
            found[state, name] = right, says, int(chosen.sum())
    return found


def on_masks(
    maps: np.ndarray, masks: Sequence[np.ndarray], poolings: Mapping[str, str] = metrics.HEADING
) -> np.ndarray:
    """Return mass and rank accuracy of maps, (N, H, W) or with channels, on masks, (N, H, W) bool; (N, 2 masks)."""
    pooled = metrics.pool(maps, dict.fromkeys(poolings.values()))
    return np.stack(
        [metrics.METRICS[name](pooled[pooling], mask) for mask in masks for name, pooling in poolings.items()], axis=1
    )


def _on_cue_and_target(maps: np.ndarray, batch: Batch, scores: Any) -> np.ndarray:
    return on_masks(maps, [batch.masks["cue"], batch.masks["target"]])


MEASURE = PerSampleMetric("mass and rank on cue and target", _on_cue_and_target, 4, degenerate_maps="uniform")
CONTRASTS = tuple(
    Metric(
        name, title, bounds=(-1.0, 1.0), masks=True,
        about=f"{about}. Between -1 and 1; more is better; zero is what a map that ignores the network gets.",
    )
    for name, title, about in (
        ("cue_mass", "Mass on the cue", "Share of a map on the cue: the shortcut's map minus the reader's"),
        ("cue_rank", "Rank on the cue",
         "As many highest positions as the cue has, the share on it: shortcut minus reader"),
        ("target_mass", "Mass on the target", "Share of a map on the target: reader minus shortcut"),
        ("target_rank", "Rank on the target",
         "As many highest positions as the target has, the share on it: reader minus shortcut"),
    )
)  # fmt: skip
CHECKS = (
    Metric(
        "both_signs", "Both signs right", rate=True, masks=True,
        about="Share of questions whose cue has more of the shortcut's map, and whose target more of the reader's. A "
        "check: most methods get nearly all.",
    ),
    Metric(
        "target_in_reader", "Target, reader", bounds=(0.0, 1.0), masks=True,
        about="Share of the reader's map on the target: CLEVR-XAI's mass accuracy. More is better.",
    ),
    Metric(
        "target_in_shortcut", "Target, shortcut", "less", bounds=(0.0, 1.0), masks=True,
        about="Share of the shortcut's map on the target, which it does not use. Less is better; a map that is nowhere "
        "on a target has little, too, so read it beside the contrasts.",
    ),
)  # fmt: skip


def values(name: str, reader: np.ndarray, shortcut: np.ndarray) -> np.ndarray:
    """Return the values of a metric, (N,), from mass and rank of both networks' maps on cue and target, (N, 4 or more).

    Of words, the last number is the mass on those of the program.
    """
    differences = (shortcut - reader)[:, :4] * [1, 1, -1, -1]
    if name == "both_signs":
        return np.where(np.isnan(differences).any(axis=1), np.nan, (differences[:, [0, 2]] > 0).all(axis=1))
    shares = {"target_in_reader": reader[:, 2], "target_in_shortcut": shortcut[:, 2], "rank_in_reader": reader[:, 3],
              "program_in_reader": reader[:, -1]}  # fmt: skip
    return {**shares, **dict(zip((each.name for each in CONTRASTS), differences.T, strict=True))}[name]


class _OfRole(ExampleEvaluation):
    """One network of a pair; its costly methods have no controls."""

    def explainer(self, model: Any, controls: Any = (), controlled: Any = None, methods: Any = None) -> Any:
        """Return what makes the network's maps; see ``Evaluation.explainer``."""
        cheap = [name for name in self.run.methods if name not in COSTLY]
        return super().explainer(model, controls, cheap if controlled is None else controlled, methods)


class ContrastEvaluation(ExampleEvaluation):
    """The two networks of a pair on questions that the reader answers right and the shortcut as the cue says."""

    explained, measure = "image", MEASURE  # the input or tensor inside, and what is measured of its maps
    drawn = 0  # questions before those are left out that a network does not answer as intended

    @classmethod
    def draw(cls, settings: Any, count: int) -> Examples:
        """Return the questions, with a cue that contradicts the right answer."""
        return examples(count, settings.seed, settings.cue, settings.questions)

    @classmethod
    def load(cls, run: Run) -> ContrastEvaluation:
        """Load the networks and draw the questions; raise ``BadInput`` if none is answered as intended."""
        settings: Any = run.settings
        folder = given_or_bundled(settings.pair or f"{FOLDER}/{settings.cue}_seed0")
        models = {role: attribution.load_model(folder / role, score="logits") for role in ROLES}
        data = cls.draw(settings, sys.maxsize if settings.num_imgs == ALL else int(settings.num_imgs))
        given = {role: model.scores(data.feed, settings.batch_size).argmax(axis=1) for role, model in models.items()}
        as_intended = (given["reader"] == data.targets) & (given["shortcut"] == data.truth["said"])
        if not as_intended.any():
            raise BadInput(f"the pair {shown_model(folder)} answers no question as it should; its cue may be another")
        found = cls(run, models, data.without(np.flatnonzero(~as_intended)))
        found.drawn = len(as_intended)
        return found

    def of_role(self, role: str) -> ExampleEvaluation:
        """Return the evaluation of one network, whose first mask is what it uses and whose targets are its answers."""
        data, used = self.data, ("target", "cue")[ROLES.index(role)]
        masks = {used: data.masks[used], **data.masks}
        targets = data.targets if role == "reader" else data.truth["said"]
        views = {name: model.at(self.explained) for name, model in self.models.items()}
        others = views[role].feed_of(data.feed)
        measured = Metric("contrast", self.measure.name, measure=self.measure, masks=True)
        run = dataclasses.replace(self.run, metrics={"contrast": measured, **self.run.shared_metrics})
        data = dataclasses.replace(
            data, inputs=others.pop(self.explained), masks=masks, targets=targets, folder=role,
            explained=self.explained, others=others,
        )  # fmt: skip
        return _OfRole(run, views, data)

    def measurements(self) -> list[list[Evaluator]]:
        """Return one evaluator for each network; no two share the draws of their random weights."""
        rows, of_roles = range(len(self.data.names)), map(self.of_role, ROLES)
        return [
            [each.evaluator_of(role, each.models[role], rows, place=place)
             for place, (role, each) in enumerate(zip(ROLES, of_roles, strict=True))]
        ]  # fmt: skip

    def groups(self) -> Iterator[InputScores]:
        """Yield each question's values of the two maps; metrics of all benchmarks are of the reader alone."""
        (evaluators,) = self.measurements()
        reader, shortcut = (self.computed(each, "question", each.name) for each in evaluators)
        for name, metric in self.run.metrics.items():
            found = {
                source.name: reader.of(source, metric.measure)[:, 0]
                if metric.measure
                else values(name, reader.of(source, self.measure), shortcut.of(source, self.measure))
                for source in reader.sources
            }
            yield InputScores(
                {"metric": name}, list(self.data.names), found, self.data.clusters, sources=list(reader.sources)
            )

    def facts(self) -> list[str]:
        """Return how many questions count, as a sentence."""
        return [
            f"{len(self.data.names):,} of {self.drawn:,} questions count: the reader answers right, the shortcut as "
            "the cue says."
        ]


class PairBenchmark(Benchmark):
    """Methods have the settings of CLEVR-XAI."""

    def method_named(self, name: str) -> Method:
        """Return the method of a name; Integrated Gradients for one of CLEVR-XAI's baselines."""
        return resolve_method("integrated_gradients" if name in methods.BASELINES else name)

    def with_parameters(self, chosen: Mapping[str, Method], settings: Any) -> Mapping[str, tuple[Method, dict]]:
        """Return name -> (method, overrides of its parameters)."""
        if not chosen:
            return super().with_parameters(chosen, settings)
        return methods.settings(chosen, settings.steps, settings.samples, layer=settings.layer)


_METHODS = tuple(name for name in methods.TITLES if name != "integrated_gradients_median")


def tasks(
    benchmark: Benchmark, settings: type[PairSettings], further: Iterable[Mapping[str, str]], quick: bool, seed: int
) -> list[ReportTask]:
    """Return the task of a quick or of a full run on the default pair and on further ones, each with its settings."""
    first = settings(num_imgs=6, seed=seed, steps=10, samples=10) if quick else settings(seed=seed)
    return [
        ReportTask(
            benchmark.name, benchmark.name, benchmark.title, first, benchmark.methods,
            f"{first.num_imgs} questions drawn of each pair of networks; those count that both networks answer as "
            "intended.",
            shared=False, own_model=False, metrics=benchmark.default_metrics, random_networks=False,
            networks=tuple(dataclasses.replace(first, **each) for each in further), cost=30 if quick else 150,
        )
    ]  # fmt: skip


def _report_tasks(quick: bool, seed: int) -> list[ReportTask]:
    further = ({"cue": name.partition("_")[0], "pair": f"{FOLDER}/{name}"} for name in pairs()[1:])
    return tasks(BENCHMARK, Settings, further, quick, seed)


_DEFINED = PairBenchmark(
    name="clevr_xai_contrast",
    title="CLEVR-XAI contrast",
    report=ReportText.load(pathlib.Path(__file__).with_name("contrast_report.toml")),
    metrics=(*CONTRASTS, *CHECKS),
    controls=(WRONG_CLASS, RANDOM_WEIGHTS, UNIFORM, RANDOM, CENTRE_PRIOR, EDGE_DETECTOR, GROUND_TRUTH),
    methods=_METHODS,
    method_titles=methods.TITLES,
    method_families=dict.fromkeys(methods.BASELINES, resolve_method("integrated_gradients").family),
    settings=Settings,
    evaluation=ContrastEvaluation.load,
    examples=examples,
    network=str(default_model("clevr_xai/contrast/floor_seed0/reader")),
    report_tasks=_report_tasks,
)
BENCHMARK: Benchmark = dataclasses.replace(_DEFINED, columns=tuple(_DEFINED.column(each) for each in CONTRASTS[::2]))
