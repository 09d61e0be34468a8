"""Which models and sets each BIM metric compares, and the comparison, image by image."""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from attribution import Method
from attribution.errors import BadInput, listed
from attribution_benchmarks.core.batch import MapSource
from attribution_benchmarks.core.controls import GROUND_TRUTH, Control
from attribution_benchmarks.core.explainer import Explainer
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.core.random_weights import has_variables, networks
from attribution_benchmarks.core.saved_maps import MapsDirectory, SavedMaps, with_all_maps
from attribution_benchmarks.core.sharded_run import ShardedRun
from attribution_benchmarks.core.store import ScoreStore
from bim import layout, scores
from bim.attributions import CAM_LAYER, cam_layer, on_random_networks
from bim.controls import OWN
from bim.dataset import BimSet, check_same_objects, load_set
from bim.layout import CONTRAST_SETS, MODEL_NAMES
from bim.measure import Measured, Member, classifier_at, load_classifier, measure, sharded_run
from bim.scores import METRICS
from bim.served import check_methods, served_classifier, served_name

PATCH_SET = "bamboo_forest_patch"
PAIRS = {  # (model, set) of the first and of the second member
    "MCS": (("obj", "obj"), ("scene", "scene")),
    "IDR": (("scene", "scene"), ("scene", "scene_only")),
    "IIR": (("scene_only", "bamboo_forest"), ("scene_only", PATCH_SET)),
}
FUNCTIONS: dict[str, Callable] = {
    "MCS": scores.model_contrast_score,
    "IDR": scores.input_dependence_rate,
    "IIR": scores.input_independence_rate,
    "RMCS": scores.relative_model_contrast,
}


SHARED_MEMBER = ("obj", "obj")  # where metrics of all benchmarks are computed: the object is what matters there


def members(metric: str) -> tuple[tuple[str, str], ...]:
    """Return the (model, set) pairs whose maps a metric reads."""
    if metric == "RMCS":
        return tuple((name, "dog_bedroom") for name in CONTRAST_SETS)
    return PAIRS.get(metric, (SHARED_MEMBER,))


def own_models(entries, metrics, served: bool = False) -> dict[str, str]:
    """Return the models that the user scores in place of members, ``obj=DIR`` as ``{"obj": "DIR"}``.

    Parameters
    ----------
    entries
        Sequence of ``name=directory``.
    metrics
        Names of the metrics of the run.
    served
        Whether they are names of a server's models instead of directories.

    Raises
    ------
    BadInput
        If an entry has another form or comes twice, or its name is no member of these metrics.
    """
    used = {name for metric in metrics for name, _ in members(metric)}
    found = {}
    for entry in entries:
        name, _, directory = entry.partition("=")
        if name not in MODEL_NAMES or not directory:
            raise BadInput(f"--models has '{entry}'; expected name=directory with a name of {listed(MODEL_NAMES)}")
        if name in found:
            raise BadInput(f"--models names '{name}' twice; one model can take its place")
        if name not in used:
            takers = [metric for metric in METRICS if name in dict(members(metric))]
            raise BadInput(f"model '{name}' has no part in {listed(metrics)}, only in {listed(takers)}")
        if not served and not os.path.isdir(directory):
            raise BadInput(f"--models={entry}: no directory {directory}; expected a SavedModel")
        found[name] = directory
    return found


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One method under one metric.

    Attributes
    ----------
    metric
        ``MCS``, ``IDR``, ``IIR``, ``RMCS``, or the name of a metric of all benchmarks.
    scene_model
        For RMCS the number i of the model scene_i; None otherwise.
    method
        Name of the method or control.
    values
        (n,) one value per counted image; their mean is the score.
    rows
        (n,) places of these images among those drawn.
    drawn
        How many images were drawn.
    flat
        How many of the counted images had a map without a scale for either member.
    clusters
        (n,) which of these images are not independent, by ``bim.layout.cluster``; None where that is not known.
    curves
        (n, points) what is behind the values of a metric with a curve; None for another.
    label
        What ``method`` is, where it is a method under a control; None for any other.
    """

    metric: str
    scene_model: int | None
    method: str
    values: np.ndarray
    rows: np.ndarray
    drawn: int
    flat: int
    clusters: tuple[str, ...] | None = None
    curves: np.ndarray | None = None
    label: MapSource | None = None

    @property
    def metric_name(self) -> str:
        """Return the metric as files have it, ``mcs``."""
        return METRICS[self.metric].name if self.metric in METRICS else self.metric


@dataclasses.dataclass
class Benchmark:
    """The models, sets and scores of one run.

    Attributes
    ----------
    data_dir, models_dir
        Folders of the sets and of the models.
    methods
        Name -> method.
    controls
        Controls of the run.
    shared
        Metrics of all benchmarks, by name.
    store
        Where scores are kept; None keeps none.
    num_imgs
        How many images to draw, or "all".
    seed, batch_size
        Of the run.
    upstream
        Follow the authors' code to the letter.
    progress
        Whether to show progress bars.
    own_models
        Name of a member, such as ``obj``, -> SavedModel to score in its place; ``models_dir`` has the others.
    layer
        Layer of the class activation maps; empty for the authors' ``block_layer4``, or a model's default where it has
        no such layer.
    maps_directory
        Where maps are saved; None saves none.
    from_maps
        Method -> folder of maps to score in place of the models' own.
    random_networks
        How many networks of random weights methods are held against, each in place of each member's network; see
        ``bim.attributions.on_random_networks``. A network without variables has none.
    client : serving.Client or None
        Server to ask in place of files. ``own_models`` then are names of its models; the others are called as
        ``saved_models/models.config`` calls them, ``bim_obj`` and so on.
    """

    data_dir: str
    models_dir: str
    methods: Mapping[str, Method]
    store: ScoreStore | None = None
    controls: Sequence[Control] = ()
    shared: Mapping[str, Metric] = dataclasses.field(default_factory=dict)
    num_imgs: int | str = 10
    seed: int = 0
    batch_size: int = 16
    upstream: bool = False
    progress: bool = False
    own_models: Mapping[str, str] = dataclasses.field(default_factory=dict)
    client: object | None = None
    layer: str = ""
    maps_directory: MapsDirectory | None = None
    from_maps: Mapping[str, pathlib.Path] | None = None
    random_networks: int = 0

    def __post_init__(self):
        self.models = {}
        self.sets = {}
        self.left_out: set[str] = set()

    def model(self, name: str):
        """Return a model, loaded once."""
        if name not in self.models:
            if self.client is not None:
                self.models[name] = served_classifier(self.client, self.own_models.get(name) or served_name(name))
            elif name in self.own_models:
                self.models[name] = classifier_at(self.own_models[name], tensors=self.upstream)
            else:
                self.models[name] = load_classifier(self.models_dir, name, tensors=self.upstream)
        return self.models[name]

    def images(self, set_name: str) -> BimSet:
        """Return a set, read once."""
        if set_name not in self.sets:
            self.sets[set_name] = load_set(self.data_dir, set_name)
        return self.sets[set_name]

    def member(self, model_name: str, set_name: str) -> Member:
        """Return a model on a set."""
        return Member(model_name, self.model(model_name), self.images(set_name))

    def explainer(self, model, further: Sequence[Control] = ()) -> Explainer | SavedMaps:
        """Return what makes a model's maps: its methods and controls and further ones, or maps saved elsewhere."""
        controls = (*self.controls, *further)
        if self.from_maps is not None:
            scores_of = functools.partial(model.scores, batch_size=self.batch_size)
            return SavedMaps(self.from_maps, controls, self.seed, scores_of)
        layer = cam_layer(model, self.layer)
        methods = {
            name: (method, {"layer": layer} if layer != CAM_LAYER and "layer" in method.defaults else {})
            for name, method in self.methods.items()
        }
        controlled = {control.name: on_random_networks(control, methods) for control in controls}
        return Explainer(model, methods, controls, controlled, self.seed, self.batch_size)

    def explainer_of(self, member: Member) -> Explainer | SavedMaps:
        """Return what makes a member's maps, and those that they are held against.

        Those are the maps of networks of random weights and, under metrics of all benchmarks, the truth itself.
        """
        truth = (GROUND_TRUTH,) if self._shared_of(member) and self.controls else ()
        asked = self.random_networks and self.from_maps is None and has_variables(member.model.path)
        place = MODEL_NAMES.index(member.model_name)
        return self.explainer(member.model, (*truth, *networks([OWN] if asked else [], self.random_networks, place)))

    def measured(self, model_name: str, set_name: str, rows) -> Measured:
        """Return a model's attributions on some images of a set.

        Raises
        ------
        BadInput
            If one of the images has no saved map where saved maps are scored.
        """
        member = self.member(model_name, set_name)
        if self.from_maps is not None:
            files = [member.file(row) for row in rows]
            there = with_all_maps(files, self.from_maps)
            if not all(there):
                raise BadInput(
                    f"{there.count(False)} of {len(files)} images have no map of every method; expected "
                    f"METHOD/{files[there.index(False)]}.npy"
                )
        found = measure(
            member, rows, self.explainer_of(member), self.store, self._shared_of(member), self.batch_size,
            self.maps_directory, self.progress,
        )  # fmt: skip
        return found.with_zero_by_zero() if self.upstream else found

    def sharded_run(self, model_name: str, set_name: str, rows: Sequence[int] = ()) -> ShardedRun:
        """Return what ``measured`` explains, as work in batches."""
        member = self.member(model_name, set_name)
        return sharded_run(
            member, rows, self.explainer_of(member), self.store, self._shared_of(member), self.batch_size,
            self.maps_directory,
        )  # fmt: skip

    def rounds(self, metrics: Sequence[str]) -> list[list[ShardedRun]]:
        """Return all that some metrics explain, as works in batches that can be computed together.

        Each member comes once, unless two metrics need other images of it: then one comes after the other, as in a run
        without batches, so that batches have the same borders.
        """
        rounds: list[dict[tuple[str, str], list[int]]] = [{}]
        for metric in metrics:
            if metric in PAIRS:
                both = self.matched(*(set_name for _, set_name in members(metric)))
                needed = dict(zip(members(metric), both, strict=True))
            else:
                needed = {pair: self.drawn(pair[1]) for pair in members(metric)}
            if any(rounds[-1].get(pair, rows) != rows for pair, rows in needed.items()):
                rounds.append({})
            rounds[-1].update(needed)
        return [[self.sharded_run(*pair, rows) for pair, rows in each.items()] for each in rounds]

    def leave_out(self, failed: Mapping[str, Sequence[int]]) -> None:
        """Draw images no more whose batch failed: member's name -> rows of its set."""
        for name, rows in failed.items():
            images = self.images(name.partition("-")[2])
            self.left_out |= {os.path.splitext(images.names[row])[0] for row in rows}

    def _shared_of(self, member: Member) -> Mapping[str, Metric]:
        return self.shared if member.name == "-".join(SHARED_MEMBER) else {}

    def compare(self, metric: str) -> list[Comparison]:
        """Score every method under one metric.

        Raises
        ------
        BadInput
            If a model or a set is missing, or the two sets of a pair do not match.
        """
        if metric == "RMCS":
            rows = self.drawn("dog_bedroom")
            measured = [self.measured(name, "dog_bedroom", rows) for name in CONTRAST_SETS]
            return [
                comparison
                for number, member in enumerate(measured[:-1], start=1)
                for comparison in self._pair(
                    metric, member, measured[-1], len(rows), number, self._clusters("dog_bedroom", rows)
                )
            ]
        if metric not in PAIRS:
            return self._shared(metric)
        (first_model, first_set), (second_model, second_set) = PAIRS[metric]
        rows, second_rows = self.matched(first_set, second_set)
        first = self.measured(first_model, first_set, rows)
        second = self.measured(second_model, second_set, second_rows)
        return self._pair(metric, first, second, len(self.drawn(first_set)), None, self._clusters(first_set, rows))

    def offer_live_networks(self) -> None:
        """Let all loaded models find their live networks when a method of one's own asks for one."""
        from bim.models import attach_live_network

        for model in self.models.values():
            model.live_source = attach_live_network

    def attach_live_networks(self) -> None:
        """Give all loaded models the live networks that methods of other libraries need.

        Raises
        ------
        BadInput
            If a model was exported from another architecture than this project's.
        """
        from bim.models import attach_live_network

        for model in self.models.values():
            attach_live_network(model)

    def check(self, metrics) -> None:
        """Load every model and list that the metrics need, so that what is wrong is said before any work.

        Raises
        ------
        BadInput
            If one is missing or unusable, or a server cannot answer a method; the patches are not looked for, since
            they may yet be made.
        """
        for model_name, set_name in dict.fromkeys(pair for metric in metrics for pair in members(metric)):
            self.model(model_name)
            if set_name != PATCH_SET:
                self.images(set_name)
        if self.client is not None:
            check_methods(self.models.values(), self.methods)

    def drawn(self, set_name: str) -> list[int]:
        """Return the rows of a set that this run draws, without those that are left out."""
        names = self.images(set_name).names
        rows = scores.sample_rows(len(names), self.num_imgs, self.seed)
        return [row for row in rows if os.path.splitext(names[row])[0] not in self.left_out]

    def matched(self, first_set: str, second_set: str) -> tuple[list[int], list[int]]:
        """Return the drawn rows of one set whose images the other set has too, and their rows there."""
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
        return [layout.cluster(names[row]) for row in rows]

    def _shared(self, metric: str) -> list[Comparison]:
        """Score every method under a metric of all benchmarks, on images that the model classifies rightly."""
        rows = self.drawn(SHARED_MEMBER[1])
        found = self.measured(*SHARED_MEMBER, rows)
        correct = found.predicted == found.labels
        clusters = tuple(np.array(self._clusters(SHARED_MEMBER[1], rows))[correct])
        return [
            Comparison(
                metric, None, name, column[correct], np.flatnonzero(correct), len(rows),
                int(found.flat[name][correct].sum()), clusters,
                found.curves[metric][name][correct] if metric in found.curves else None, _own(found, name),
            )
            for name, column in found.shared[metric].items()
        ]  # fmt: skip

    def _pair(self, metric, first: Measured, second: Measured, drawn: int, number, clusters) -> list[Comparison]:
        """Score every method on one pair of measurements."""
        correct = scores.both_correct(first.predicted, first.labels, second.predicted, second.labels)
        return [
            Comparison(
                metric,
                number,
                name,
                FUNCTIONS[metric](first.attributions[name], second.attributions[name], correct),
                np.flatnonzero(correct),
                drawn,
                int((first.flat[name] | second.flat[name])[correct].sum()),
                tuple(cluster for cluster, counted in zip(clusters, correct, strict=True) if counted),
                label=_own(first, name),
            )
            for name in first.attributions
            if name != GROUND_TRUTH.name and name in second.attributions
        ]


def _own(measured: Measured, name: str) -> MapSource | None:
    """Return the label of a method under a control, None of any other."""
    label = measured.made_by.get(name)
    return label if label and label.method and label.control else None
