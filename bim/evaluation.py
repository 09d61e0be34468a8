"""BIM's models on its sets: loading, attribution of the objects, and the comparison of two of them, image by image."""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from attribution.errors import BadInput, print_line, printable
from attribution.methods import third_party
from attribution_benchmarks.core.batch import MapSource
from attribution_benchmarks.core.controls import GROUND_TRUTH, WRONG_CLASS, Control
from attribution_benchmarks.core.evaluation import Evaluation, Run, undefined_notes
from attribution_benchmarks.core.evaluator import Evaluator, Inputs, Numbers, PredictionFilter
from attribution_benchmarks.core.explainer import Explainer, MapsDirectory, SavedMaps
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.random_weights import RANDOM_WEIGHTS, has_variables, networks
from attribution_benchmarks.core.scores import InputScores, Scores
from attribution_benchmarks.core.settings import ALL
from bim import layout, scores
from bim.classifiers import classifier_at, load_classifier
from bim.data import BimSet, check_same_objects, load_set, resolve_data_dir
from bim.layout import CONTRAST_SETS, MODEL_NAMES, cluster
from bim.members import OBJECT, PAIRS, PATCH_SET, SHARED_MEMBER, Member, member_key, members
from bim.methods import CAM_LAYER, CONTROLS, cam_layer, on_random_networks
from bim.scores import METRICS
from bim.settings import Settings

if TYPE_CHECKING:
    from attribution_benchmarks import serving

_HEADINGS = {
    "mcs": "MCS, model contrast score: object model minus scene model; more is better",
    "idr": "IDR, input dependence rate: object below the scene it covers; more is better",
    "iir": "IIR, input independence rate: unchanged by a patch without meaning; more is better",
    "rmcs": "Relative MCS: dog in i scenes against dog in all ten",
}
_CHOSEN_BY_SCORE = (
    "Relative MCS is a check of the data's sense, no independent result: how the models scene1 to scene10 were trained "
    "was chosen after looking at this score on 60 images of the drawn sets (see their cards)."
)
FUNCTIONS: dict[str, Callable] = {
    "mcs": scores.model_contrast_score,
    "idr": scores.input_dependence_rate,
    "iir": scores.input_independence_rate,
    "rmcs": scores.model_contrast_score,
}


@dataclasses.dataclass(frozen=True)
class _Measured:
    """What one model does on n images of one set."""

    predicted: np.ndarray  # (n,) int64
    labels: np.ndarray  # (n,) int64
    # By source: (n,) float64 in [0, 1], the mean of the scaled map over the object; (n,) bool, maps without a scale
    # (see ``scores.two_dimensional``).
    attributions: dict[MapSource, np.ndarray]
    flat: dict[MapSource, np.ndarray]
    shared: dict[str, dict[MapSource, np.ndarray]]  # metric of all benchmarks -> source -> (n, width) float64

    @classmethod
    def of(cls, results: Numbers, labels: np.ndarray, shared: Mapping[str, Metric]) -> _Measured:
        """Return the numbers of images with ``labels``; ``results`` are of ``OBJECT`` and the ``shared`` metrics."""
        numbers = {source: results.of(source, OBJECT) for source in results.sources}
        return cls(
            np.array(results.predictions, np.int64).reshape(len(labels)),
            labels,
            {source: column[:, 0] for source, column in numbers.items()},
            {source: column[:, 1].astype(bool) for source, column in numbers.items()},
            {
                name: {
                    source: results.of(source, metric.measure)
                    for source in results.sources
                    if metric.measure.applies_to(source)
                }
                for name, metric in shared.items()
            },
        )

    def with_zero_by_zero(self) -> _Measured:
        """Return NaN as the attribution of flat maps, as 0 / 0 gives in the authors' code."""
        spoilt = {source: np.where(self.flat[source], np.nan, column) for source, column in self.attributions.items()}
        return dataclasses.replace(self, attributions=spoilt)


def load(run: Run) -> BimEvaluation:
    """Load the models and lists of the sets that the metrics need."""
    evaluation = BimEvaluation(run)
    if run.in_worker:
        return evaluation
    _report_models(evaluation)
    if not run.only_describes:
        _ = evaluation.maps  # raises for a directory with other maps
        if "iir" in run.metrics and evaluation.settings.data_dir:
            evaluation.patches(made_here=False)  # raises for patches of another model
    return evaluation


class BimEvaluation(Evaluation):
    """The models, sets and comparisons of a run.

    Parameters
    ----------
    run
        What is asked.

    Attributes
    ----------
    models, sets
        Those that were loaded, by name; further sets are read when they are needed.
    own_models
        Name of a member, such as ``obj``, -> SavedModel to score in its place, or a served model's name.
    shared
        Metrics of all benchmarks, by name.
    client : serving.Client or None
        Server of the models. Those that ``own_models`` lacks have their names of ``saved_models/models.config``.

    Raises
    ------
    BadInput
        If a model or set is missing or unusable, or a server cannot compute a method. Patches are not checked, since
        they may be made later.
    """

    settings: Settings

    def __init__(self, run: Run):
        settings: Any = run.settings
        super().__init__(run, {})
        self.own_models = settings.own_models(run.metrics)
        self.client = _client(settings) if settings.server else None
        self.data_dir = resolve_data_dir(settings.data_dir)
        self.controls = CONTROLS if settings.controls else ()
        self.shared = {name: metric for name, metric in run.metrics.items() if name not in METRICS}
        self.upstream = settings.compat == "upstream"
        self.sets: dict[str, BimSet] = {}
        self.models = {name: self._loaded(name) for name, _ in self._members()}
        for _, set_name in self._members(made=False):
            self.images(set_name)
        if self.client is not None:
            from bim.served import check_methods

            check_methods(self.models.values(), {name: method for name, (method, _) in run.methods.items()})
        self._offer_live_networks()

    def _members(self, made: bool = True) -> list[tuple[str, str]]:
        """Return the members of the metrics, model and set; without ``made``, those whose set is no set of patches."""
        pairs = dict.fromkeys(pair for metric in self.run.metrics for pair in members(metric))
        return [pair for pair in pairs if made or pair[1] != PATCH_SET]

    def _offer_live_networks(self) -> None:
        """Give the models their live networks if a method of another library needs them; offer them otherwise."""
        from bim.models import live_network

        needed = any(method.library for method, _ in self.run.methods.values())
        for model in self.models.values():
            third_party.offer(model, live_network)
            if needed:
                model.live_network()  # raises for another architecture

    @property
    def needs_layer(self) -> bool:
        """Whether a method is of a layer."""
        return any("layer" in method.defaults for method, _ in self.run.methods.values())

    @functools.cached_property
    def maps(self) -> MapsDirectory | None:
        """Where maps are saved; None without ``save_maps``."""
        fingerprints = {name: model.fingerprint for name, model in self.models.items()}
        return self.maps_directory(models=fingerprints, layer=self.settings.layer)

    def _loaded(self, name: str) -> Any:
        """Return a model from the server, the user's directory or the folder of models."""
        if self.client is not None:
            from bim.served import served_classifier, served_name

            return served_classifier(self.client, self.own_models.get(name) or served_name(name))
        if name in self.own_models:
            return classifier_at(self.own_models[name], tensors=self.upstream)
        return load_classifier(self.settings.models_dir, name, tensors=self.upstream)

    def images(self, set_name: str) -> BimSet:
        """Return a set, read once."""
        if set_name not in self.sets:
            self.sets[set_name] = load_set(self.data_dir, set_name)
        return self.sets[set_name]

    def member(self, model_name: str, set_name: str) -> Member:
        """Return a model on a set."""
        return Member(model_name, self.models[model_name], self.images(set_name))

    def explainer_with(self, model: Any, further: Sequence[Control] = ()) -> Explainer | SavedMaps:
        """Return what makes a model's maps by the methods, the controls and further controls."""
        controls = (*self.controls, *further)
        layer = CAM_LAYER if self.run.map_folders else cam_layer(model, self.settings.layer)
        methods = {
            name: (method, {**given, **({"layer": layer} if layer != CAM_LAYER and "layer" in method.defaults else {})})
            for name, (method, given) in self.run.methods.items()
        }
        controlled = {control.name: on_random_networks(control, methods) for control in controls}
        return self.explainer(model, controls, controlled, methods)

    def explainer_of(self, member: Member) -> Explainer | SavedMaps:
        """Return what makes a member's maps, with the controls that only its model or set has.

        These are networks of random weights, a wrong class beside them and, with metrics of all benchmarks, the ground
        truth. Model contrast needs the wrong class: without a network, and on average with random weights, it is zero
        by definition.
        """
        truth = (GROUND_TRUTH,) if self._shared_of(member) and self.controls else ()
        count = 0 if self.run.map_folders or not has_variables(member.model.path) else self.settings.random_networks
        place = MODEL_NAMES.index(member.model_name)
        of_class = (WRONG_CLASS,) if count and self.controls else ()
        of_weights = networks([RANDOM_WEIGHTS] if count else [], count, place)
        return self.explainer_with(member.model, (*truth, *of_class, *of_weights))

    def member_evaluator(self, model_name: str, set_name: str, rows: Sequence[int] = ()) -> Evaluator:
        """Return the evaluator of a model on some images of a set."""
        member = self.member(model_name, set_name)
        member.images.draw(rows)  # all at once, in parallel; a batch would draw its own
        predicted = PredictionFilter(
            "prediction",
            lambda batch: member.model.predict(batch.inputs, self.settings.batch_size).tolist(),
            lambda answers, part: (np.ones(len(answers), bool), np.array(answers, np.int64).reshape(len(part.names))),
        )
        return Evaluator(
            self.explainer_of(member),
            [OBJECT, *(metric.measure for metric in self._shared_of(member).values())],
            member_key(member),
            [Member],
            self.run.store,
            predicted,
            self.maps,
            Inputs(member.name, list(rows), self.settings.batch_size, member.batches),
        )

    def measurements(self) -> list[list[Evaluator]]:
        """Return all evaluators of the metrics, in groups that can be computed together.

        Each member comes once, unless two metrics need other images of it: then one comes after the other, as in a run
        without Beam, so that batches have the same borders.
        """
        if "iir" in self.run.metrics:
            self.patches(made_here=not self.settings.data_dir)
        groups: list[dict[tuple[str, str], list[int]]] = [{}]
        for metric in self.run.metrics:
            if metric in PAIRS:
                both = self.matched(*(set_name for _, set_name in members(metric)))
                needed = dict(zip(members(metric), both, strict=True))
            else:
                needed = {pair: self.drawn(pair[1]) for pair in members(metric)}
            if any(groups[-1].get(pair, rows) != rows for pair, rows in needed.items()):
                groups.append({})
            groups[-1].update(needed)
        return [[self.member_evaluator(*pair, rows) for pair, rows in group.items()] for group in groups]

    def measurement(self, name: str) -> Evaluator:
        """Return the evaluator of ``obj-obj`` and so on, without its images."""
        model_name, _, set_name = name.partition("-")
        return self.member_evaluator(model_name, set_name)

    def describe_models(self) -> list[str]:
        """Return each model's number of correct predictions on images of its sets."""
        return [self._fit(*pair) for pair in self._members(made=False)]

    def groups(self) -> Iterator[InputScores]:
        """Compare the models and sets of each metric, image by image; a table for each."""
        for metric in self.run.metrics:
            if metric == "rmcs":
                yield from self._contrasts()
            elif metric in PAIRS:
                yield self._compared(metric)
            else:
                yield self._shared(metric)

    def notes(self, scores: Scores) -> list[str]:
        """Return what the patches of IIR are, and how the models of the relative MCS were chosen."""
        found = undefined_notes(scores.groups)
        if "iir" in self.run.metrics:
            found.append(self.patches(made_here=False).summary())
        if "rmcs" in self.run.metrics and self._any_bundled():
            found.append(_CHOSEN_BY_SCORE)
        if self.settings.num_imgs != ALL:
            found.append("--num_imgs=all scores every image of the sets; docs/results.md has ten pairs of networks.")
        return found

    def data_fingerprints(self) -> dict[str, str]:
        """Return the fingerprints of the sets by name."""
        return {name: images.fingerprint() for name, images in self.sets.items()}

    def measured(self, model_name: str, set_name: str, rows: Sequence[int]) -> _Measured:
        """Return a model's attributions on some images of a set.

        Raises
        ------
        BadInput
            If an image has no precomputed map.
        """
        member = self.member(model_name, set_name)
        evaluator = self.member_evaluator(model_name, set_name, rows)
        if isinstance(evaluator.explainer, SavedMaps):
            evaluator.explainer.check([member.file(row) for row in rows], "image")
        title = printable(member.name.replace("-", " on "))
        results = self.computed(evaluator, "image", title)
        found = _Measured.of(results, member.images.labels[list(rows)], self._shared_of(member))
        return found.with_zero_by_zero() if self.upstream else found

    def _shared_of(self, member: Member) -> Mapping[str, Metric]:
        return self.shared if member.name == "-".join(SHARED_MEMBER) else {}

    def _compared(self, metric: str) -> InputScores:
        """Score every method by one pair; raise ``BadInput`` if the two sets do not match."""
        if metric == "iir":
            self.patches(made_here=not self.settings.data_dir)
        (first_model, first_set), (second_model, second_set) = PAIRS[metric]
        rows, second_rows = self.matched(first_set, second_set)
        first = self.measured(first_model, first_set, rows)
        second = self.measured(second_model, second_set, second_rows)
        return _pair(metric, first, second, len(self.drawn(first_set)), self._clusters(first_set, rows))

    def _contrasts(self) -> Iterator[InputScores]:
        """Compare each of the models scene1 to scene9 with scene10."""
        rows = self.drawn("dog_bedroom")
        clusters = self._clusters("dog_bedroom", rows)
        *fewer, last = [self.measured(name, "dog_bedroom", rows) for name in CONTRAST_SETS]
        groups = [_pair("rmcs", one, last, len(rows), clusters) for one in fewer]
        for number, group in enumerate(groups, start=1):
            where = {"metric": "rmcs", "scene_model": number}
            yield dataclasses.replace(group, where=where, table=groups[0].table, column=f"i={number}", brief=True)

    def drawn(self, set_name: str) -> list[int]:
        """Return the rows of a set that this run samples."""
        return scores.sample_rows(len(self.images(set_name).names), self.settings.num_imgs, self.settings.seed)

    def matched(self, first_set: str, second_set: str) -> tuple[list[int], list[int]]:
        """Return the sampled rows of one set whose images the other set has too, and their rows there."""
        first, second = self.images(first_set), self.images(second_set)
        places = {os.path.splitext(name)[0]: row for row, name in enumerate(second.names)}
        stems = {row: os.path.splitext(first.names[row])[0] for row in self.drawn(first_set)}
        rows = [row for row, stem in stems.items() if stem in places]
        if not rows:
            raise BadInput(f"none of the images drawn from {first.directory} is in {second.directory}")
        if second_set != PATCH_SET and len(rows) < len(stems):
            raise BadInput(f"{len(stems) - len(rows)} images of {first.directory} are missing in {second.directory}")
        second_rows = [places[stems[row]] for row in rows]
        check_same_objects(first, rows, second, second_rows)
        return rows, second_rows

    def _clusters(self, set_name: str, rows) -> list[str]:
        names = self.images(set_name).names
        return [cluster(names[row]) for row in rows]

    def _shared(self, name: str) -> InputScores:
        """Score every method under a metric of all benchmarks, on images that the model classifies correctly."""
        rows, metric = self.drawn(SHARED_MEMBER[1]), self.shared[name]
        found = self.measured(*SHARED_MEMBER, rows)
        correct = found.predicted == found.labels
        numbers = {source: each[correct] for source, each in found.shared[name].items()}
        facts = {
            source.name: {"drawn": len(rows), "flat": int(found.flat[source][correct].sum())} for source in numbers
        }
        return InputScores(
            {"metric": name},
            [f"image {row}" for row in np.flatnonzero(correct)],
            {source.name: each[:, 0] for source, each in numbers.items()},
            np.array(self._clusters(SHARED_MEMBER[1], rows))[correct].tolist(),
            f"{metric.title}; {metric.better} is better; object model on its set\n{_counts(len(rows), correct)}",
            sources=list(numbers),
            facts=facts,
            curves={
                source.name: each[:, 1:]
                for source, each in numbers.items()
                if metric.curve and not (source.method and source.control)
            },
        )

    def _fit(self, model_name: str, set_name: str) -> str:
        member, rows = self.member(model_name, set_name), self.drawn(set_name)
        inputs = member.batch(rows).inputs
        correct = int((member.model.predict(inputs, self.settings.batch_size) == member.images.labels[rows]).sum())
        return (
            f"{model_name} fits BIM: images (batch, {inputs.shape[1]}, {inputs.shape[2]}, 3) to ten classes, "
            f"{correct} of {len(rows)} images of {set_name} right"
        )

    def patches(self, made_here: bool) -> Any:
        """Return the record of the delta patches; see ``delta_patch.patches_for``."""
        from bim.delta_patch import patches_for

        return patches_for(self.data_dir, self.models["scene_only"], self.settings.models_dir, made_here)

    def _any_bundled(self) -> bool:
        """Return whether one of the contrast models is one of the repository's."""
        if self.client is not None:
            from bim.served import local_twin

            return any(local_twin(layout.SAVED_MODELS, name, self.models[name]) for name in layout.CONTRAST_SETS)
        bundled = os.path.realpath(layout.SAVED_MODELS)
        own, directory = self.own_models, self.settings.models_dir
        paths = (os.path.realpath(own.get(name, os.path.join(directory, name))) for name in layout.CONTRAST_SETS)
        return any(os.path.commonpath([path, bundled]) == bundled for path in paths)


def _client(settings: Settings) -> serving.Client:
    from attribution_benchmarks import serving

    return serving.Client(settings.server, deadline=settings.deadline, retry_timeout=settings.retry_timeout)


def _report_models(evaluation: BimEvaluation) -> None:
    """Print which models are the user's, and which layer replaces the authors' where a model has none of its name."""
    if evaluation.own_models:
        own = ", ".join(f"{name} ({path})" for name, path in evaluation.own_models.items())
        others = ", ".join(name for name in evaluation.models if name not in evaluation.own_models)
        print_line(f"your own: {own}" + (f"; of --models_dir: {others}" if others else ""), file=sys.stderr)
    if evaluation.client is not None or not evaluation.needs_layer:
        return
    for name, model in evaluation.models.items():
        if cam_layer(model, evaluation.settings.layer) is None:
            print_line(
                f"{name} has no layer '{CAM_LAYER}'; its class activation maps are of {model.layer(None)} (--layer)",
                file=sys.stderr,
            )


def _pair(metric: str, first: _Measured, second: _Measured, drawn: int, clusters: Sequence[str]) -> InputScores:
    """Score every method on one pair of measurements."""
    correct = scores.both_correct(first.predicted, first.labels, second.predicted, second.labels)
    values, facts, sources = {}, {}, []
    for source in first.attributions:
        if source.control == GROUND_TRUTH.name or source not in second.attributions:
            continue
        found = FUNCTIONS[metric](first.attributions[source], second.attributions[source], correct)
        flat = int((first.flat[source] | second.flat[source])[correct].sum())
        fact: dict[str, Any] = {"drawn": drawn, "flat": flat}
        if not len(found):
            fact["reason"] = "no image is classified correctly by both"
        elif undefined := int(np.isnan(found).sum()):  # one of the authors' means of such values is no number
            found = np.full(len(found), np.nan)
            fact["reason"] = f"{undefined} maps are flat, which upstream turns into 0 / 0"
        values[source.name], facts[source.name] = found, fact
        sources.append(source)
    title = f"{_HEADINGS[metric]}\n{_counts(drawn, correct, ' by both')}"
    return InputScores(
        {"metric": metric},
        [f"image {row}" for row in np.flatnonzero(correct)],
        values,
        [cluster for cluster, counted in zip(clusters, correct, strict=True) if counted],
        title,
        sources=sources,
        facts=facts,
    )


def _counts(drawn: int, correct: np.ndarray, by: str = "") -> str:
    return f"{drawn} images drawn, {int(correct.sum())} classified correctly{by} and counted"
