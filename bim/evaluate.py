"""BIM's models on its sets: loading, attribution of the objects, and the comparison of two of them, image by image."""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from attribution.errors import BadInput, print_line, printable
from attribution.methods import third_party
from attribution_benchmarks.core.batch import MapSource
from attribution_benchmarks.core.controls import GROUND_TRUTH, WRONG_CLASS, Control
from attribution_benchmarks.core.evaluation import Evaluation, Run, Section
from attribution_benchmarks.core.evaluator import Evaluator, PredictionFilter, Results, ShardedRun
from attribution_benchmarks.core.explainer import Explainer, MapsDirectory, SavedMaps, with_all_maps
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.random_weights import RANDOM_WEIGHTS, has_variables, networks
from bim import _table, layout, scores
from bim.attributions import CAM_LAYER, CONTROLS, cam_layer, on_random_networks
from bim.classifiers import classifier_at, load_classifier
from bim.dataset import BimSet, check_same_objects, load_set, resolve_data_dir
from bim.layout import CONTRAST_SETS, MODEL_NAMES, cluster
from bim.members import OBJECT, PAIRS, PATCH_SET, SHARED_MEMBER, Comparison, Member, member_key, members
from bim.scores import METRICS
from bim.settings import Settings

if TYPE_CHECKING:
    from attribution_benchmarks import serving

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
    def of(cls, results: Results, labels: np.ndarray, shared: Mapping[str, Metric]) -> _Measured:
        """Return the numbers of images with ``labels``; ``results`` are of ``OBJECT`` and the ``shared`` metrics."""
        numbers = {source: results.numbers(source, OBJECT) for source in results.sources}
        return cls(
            np.array(results.predictions, np.int64).reshape(len(labels)),
            labels,
            {source: column[:, 0] for source, column in numbers.items()},
            {source: column[:, 1].astype(bool) for source, column in numbers.items()},
            {
                name: {
                    source: results.numbers(source, metric.measure)
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
    dropped
        Stems of images that do not count.

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

    def __init__(self, run: Run, dropped: Collection[str] = ()):
        settings: Any = run.settings
        super().__init__(run, {})
        self.own_models = settings.own_models(run.metrics)
        self.client = _client(settings) if settings.server else None
        self.data_dir = resolve_data_dir(settings.data_dir)
        self.controls = CONTROLS if settings.controls else ()
        self.shared = {name: metric for name, metric in run.metrics.items() if name not in METRICS}
        self.upstream = settings.compat == "upstream"
        self.sets: dict[str, BimSet] = {}
        self._dropped = frozenset(dropped)
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

    @functools.cached_property
    def map_folders(self) -> dict[str, pathlib.Path]:
        """Folders of the precomputed maps by method; empty without them."""
        return self.settings.map_folders(self.run.names)

    @property
    def needs_layer(self) -> bool:
        """Whether a method is of a layer."""
        return any("layer" in method.defaults for method, _ in self.run.methods.values())

    @property
    def method_names(self) -> list[str]:
        """Names of the methods, or of the precomputed maps."""
        return list(self.map_folders or self.run.methods)

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
        layer = CAM_LAYER if self.map_folders else cam_layer(model, self.settings.layer)
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
        count = 0 if self.map_folders or not has_variables(member.model.path) else self.settings.random_networks
        place = MODEL_NAMES.index(member.model_name)
        of_class = (WRONG_CLASS,) if count and self.controls else ()
        of_weights = networks([RANDOM_WEIGHTS] if count else [], count, place)
        return self.explainer_with(member.model, (*truth, *of_class, *of_weights))

    def member_run(self, model_name: str, set_name: str, rows: Sequence[int] = ()) -> ShardedRun:
        """Return the run of a model through some images of a set."""
        member = self.member(model_name, set_name)
        member.images.draw(rows)  # all at once, in parallel; a batch would draw its own
        predicted = PredictionFilter(
            "prediction",
            lambda batch: member.model.predict(batch.inputs, self.settings.batch_size).tolist(),
            lambda answers, part: (np.ones(len(answers), bool), np.array(answers, np.int64).reshape(len(part.names))),
        )
        evaluator = Evaluator(
            self.explainer_of(member),
            [OBJECT, *(metric.measure for metric in self._shared_of(member).values())],
            member_key(member),
            [Member],
            self.run.store,
            predicted,
            self.maps,
        )
        return ShardedRun(member.name, evaluator, list(rows), self.settings.batch_size, member.batches)

    def sharded_runs(self) -> list[list[ShardedRun]]:
        """Return all sharded runs of the metrics, in groups that can be computed together.

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
        return [[self.member_run(*pair, rows) for pair, rows in group.items()] for group in groups]

    def sharded_run(self, name: str) -> ShardedRun:
        """Return the run of ``obj-obj`` and so on, without its images."""
        model_name, _, set_name = name.partition("-")
        return self.member_run(model_name, set_name)

    def without(self, failed: Mapping[str, Sequence[int]]) -> BimEvaluation:
        """Return the evaluation without images of all sets, member's name -> rows of its set."""
        names = {name: self.images(name.partition("-")[2]).names for name in failed}
        stems = {os.path.splitext(names[name][row])[0] for name, rows in failed.items() for row in rows}
        return BimEvaluation(self.run, self._dropped | stems)

    def describe_models(self) -> list[str]:
        """Return each model's number of correct predictions on images of its sets."""
        return [self._fit(*pair) for pair in self._members(made=False)]

    def sections(self) -> Iterator[Section]:
        """Compare the models and sets of each metric; the results of a section are its ``Comparison`` objects."""
        metrics = self.run.metrics
        for name, metric in metrics.items():
            patches = self.patches(made_here=not self.settings.data_dir) if name == "iir" else None
            compared = self.compare(name)
            rows = _table.score_rows(compared, self.settings.compared_with, metrics)
            parts = [_table.table(metric, rows, self.titles(compared))]
            if name == "rmcs" and self._any_bundled():
                parts.append(_table.CHOSEN_BY_SCORE + "\n")
            if patches:
                parts.append(patches.summary() + "\n")
            yield Section(
                rows + _table.curve_rows(compared, metrics), "\n".join(parts) + "\n", "",
                _table.image_scores(compared), compared,
            )  # fmt: skip

    def titles(self, results: Sequence[Comparison]) -> dict[str, str]:
        """Return the titles of methods and controls by name."""
        methods = {name: method.title for name, (method, _) in self.run.methods.items()}
        controls = {control.name: control.title for control in (*CONTROLS, GROUND_TRUTH)}
        return {name: methods.get(name, name) for name in self.method_names} | controls

    def data_fingerprints(self, results: Sequence[Comparison]) -> dict[str, str]:
        """Return the fingerprints of the sets by name."""
        return {name: images.fingerprint() for name, images in self.sets.items()}

    def write_figures(self, section: Section, directory: str, formats: Sequence[str]) -> None:
        """Write a figure of scores and one of examples for each metric, and images for a report."""
        from bim import _pictures

        compared = section.results
        places = _pictures.example_places(self, compared, _pictures.NUM_EXAMPLES)
        titles = self.titles(compared)
        _pictures.write_pictures(directory, self, self.run.metrics, section.rows, titles, places, formats)
        _pictures.save_report_examples(directory, self, compared)

    def measured(self, model_name: str, set_name: str, rows: Sequence[int]) -> _Measured:
        """Return a model's attributions on some images of a set.

        Raises
        ------
        BadInput
            If an image has no precomputed map.
        """
        member = self.member(model_name, set_name)
        if self.map_folders:
            files = [member.file(row) for row in rows]
            there = with_all_maps(files, self.map_folders)
            if not all(there):
                raise BadInput(
                    f"{there.count(False)} of {len(files)} images have no map of every method; expected "
                    f"METHOD/{files[there.index(False)]}.npy"
                )
        title = printable(member.name.replace("-", " on "))
        results = self.computed(self.member_run(model_name, set_name, rows), "image", title)
        found = _Measured.of(results, member.images.labels[list(rows)], self._shared_of(member))
        return found.with_zero_by_zero() if self.upstream else found

    def _shared_of(self, member: Member) -> Mapping[str, Metric]:
        return self.shared if member.name == "-".join(SHARED_MEMBER) else {}

    def compare(self, metric: str) -> list[Comparison]:
        """Score every method by one metric; raise ``BadInput`` if the two sets of a pair do not match."""
        if metric == "rmcs":
            return self._contrasts()
        if metric not in PAIRS:
            return self._shared(metric)
        (first_model, first_set), (second_model, second_set) = PAIRS[metric]
        rows, second_rows = self.matched(first_set, second_set)
        first = self.measured(first_model, first_set, rows)
        second = self.measured(second_model, second_set, second_rows)
        return _pair(metric, first, second, len(self.drawn(first_set)), None, self._clusters(first_set, rows))

    def _contrasts(self) -> list[Comparison]:
        """Compare each of the models scene1 to scene9 with scene10."""
        rows = self.drawn("dog_bedroom")
        clusters = self._clusters("dog_bedroom", rows)
        *fewer, last = [self.measured(name, "dog_bedroom", rows) for name in CONTRAST_SETS]
        return [
            comparison
            for number, one in enumerate(fewer, start=1)
            for comparison in _pair("rmcs", one, last, len(rows), number, clusters)
        ]

    def drawn(self, set_name: str) -> list[int]:
        """Return the rows of a set that this run samples, without dropped images."""
        names = self.images(set_name).names
        rows = scores.sample_rows(len(names), self.settings.num_imgs, self.settings.seed)
        return [row for row in rows if os.path.splitext(names[row])[0] not in self._dropped]

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

    def _shared(self, metric: str) -> list[Comparison]:
        """Score every method under a metric of all benchmarks, on images that the model classifies correctly."""
        rows = self.drawn(SHARED_MEMBER[1])
        found = self.measured(*SHARED_MEMBER, rows)
        correct = found.predicted == found.labels
        clusters = tuple(np.array(self._clusters(SHARED_MEMBER[1], rows))[correct])
        return [
            Comparison(
                metric, None, source, numbers[correct, 0], np.flatnonzero(correct), len(rows),
                int(found.flat[source][correct].sum()), clusters,
                numbers[correct, 1:] if self.shared[metric].curve else None,
            )
            for source, numbers in found.shared[metric].items()
        ]  # fmt: skip

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


def _pair(
    metric: str, first: _Measured, second: _Measured, drawn: int, number: int | None, clusters: Sequence[str]
) -> list[Comparison]:
    """Score every method on one pair of measurements."""
    correct = scores.both_correct(first.predicted, first.labels, second.predicted, second.labels)
    return [
        Comparison(
            metric,
            number,
            source,
            FUNCTIONS[metric](first.attributions[source], second.attributions[source], correct),
            np.flatnonzero(correct),
            drawn,
            int((first.flat[source] | second.flat[source])[correct].sum()),
            tuple(cluster for cluster, counted in zip(clusters, correct, strict=True) if counted),
        )
        for source in first.attributions
        if source.control != GROUND_TRUTH.name and source in second.attributions
    ]
