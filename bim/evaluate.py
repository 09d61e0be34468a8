"""BIM's models on its sets: loading, attribution of the objects, and the comparison of two of them, image by image."""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from absl import flags
from PIL import Image

import attribution
from attribution.errors import BadInput, listed, printable
from attribution_benchmarks.cli.bundled_models import given_or_bundled
from attribution_benchmarks.core.batch import Batch, LazyBatch, MapSource
from attribution_benchmarks.core.controls import GROUND_TRUTH, Control
from attribution_benchmarks.core.evaluator import Evaluator, PredictionFilter, Results, ShardedRun
from attribution_benchmarks.core.explainer import Explainer
from attribution_benchmarks.core.metric import Metric, PerSampleMetric
from attribution_benchmarks.core.random_weights import RANDOM_WEIGHTS, has_variables, networks
from bim import scores
from bim.attributions import CAM_LAYER, CONTROLS, cam_layer, on_random_networks
from bim.dataset import BimSet, check_same_objects, load_set, resolve_data_dir
from bim.layout import CHANNEL_MEANS, CONTRAST_SETS, MODEL_NAMES, SCENES, cluster
from bim.scores import METRICS, object_attribution, place_mask, two_dimensional

if TYPE_CHECKING:
    from attribution_benchmarks import serving
    from attribution_benchmarks.core.explainer import MapsDirectory, SavedMaps
    from attribution_benchmarks.core.runner import Run

TENSORS = {"inputs": ["input_tensor:0"], "output": "resnet_model/final_dense:0"}  # of the authors' models
PATCH_SET = "bamboo_forest_patch"
PAIRS = {  # (model, set) of the first and of the second member
    "mcs": (("obj", "obj"), ("scene", "scene")),
    "idr": (("scene", "scene"), ("scene", "scene_only")),
    "iir": (("scene_only", "bamboo_forest"), ("scene_only", PATCH_SET)),
}
FUNCTIONS: dict[str, Callable] = {
    "mcs": scores.model_contrast_score,
    "idr": scores.input_dependence_rate,
    "iir": scores.input_independence_rate,
    "rmcs": scores.model_contrast_score,
}
SHARED_MEMBER = ("obj", "obj")  # where metrics of all benchmarks are computed: the object is what matters there


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


def load_classifier(models_dir: str, name: str, tensors: bool = False):
    """Load one of BIM's models, such as ``obj``, from a folder of models; see ``classifier_at``."""
    models_dir = os.fspath(given_or_bundled(models_dir))
    path = os.path.join(models_dir, name)
    if not os.path.isdir(path):
        have = (
            sorted(entry.name for entry in os.scandir(models_dir) if entry.is_dir())
            if os.path.isdir(models_dir)
            else []
        )
        raise BadInput(f"no model '{name}' in {models_dir}; there are {listed(have) if have else 'none'}")
    return classifier_at(path, tensors)


def classifier_at(path: str, tensors: bool = False):
    """Load any SavedModel that can classify BIM's images; return an ``attribution.model.model.Model``.

    ``tensors`` addresses it by the authors' tensor names instead of its signature. Raises ``BadInput`` if it cannot be
    loaded, takes no square colour images of one size, or has not ten classes.
    """
    return checked_classifier(attribution.load_model(path, score="logits", **(TENSORS if tensors else {})), path)


def checked_classifier(model, path: str):
    """Return a model, loaded or served, if it can classify BIM's images; see ``classifier_at``."""
    shape = model.inputs[model.explained_input()].shape
    sizes = None if shape is None else tuple(shape)
    if sizes is None or len(sizes) != 4 or sizes[1] is None or sizes[1] != sizes[2] or sizes[3] != 3:
        raise BadInput(f"{path} takes inputs of shape {shape}; BIM's images are (batch, side, side, 3)")
    if model.num_classes != len(SCENES):
        raise BadInput(f"{path} has {model.num_classes} classes; BIM's sets have {len(SCENES)}")
    return model


def network_inputs(images: np.ndarray, side: int) -> np.ndarray:
    """Return images as BIM's models take them, (N, side, side, 3) float32 RGB minus the channel means.

    Images, (N, H, W, 3) uint8 RGB, of another side are resized bilinearly by Pillow, as the authors do.
    """
    if images.shape[1:3] != (side, side):
        images = np.stack(
            [np.asarray(Image.fromarray(image).resize((side, side), Image.Resampling.BILINEAR)) for image in images]
        )
    return images.astype(np.float32) - CHANNEL_MEANS


def input_side(model) -> int:
    """Return the side of a model's square input in pixels."""
    return int(model.inputs[model.explained_input()].shape[1])


def _object_attribution(maps: np.ndarray, batch: Batch, scores) -> np.ndarray:
    """Return the object's attribution in each map, (N,) in [0, 1], and whether the map is flat, (N,) 0 or 1; (N, 2).

    Maps are (N, H, W, C) or (N, H, W), of the size of the masks, (N, H, W) bool; else ``BadInput``.
    """
    masks = batch.masks["object"]
    if maps.shape[1:3] != masks.shape[1:]:
        raise BadInput(f"maps of {maps.shape[1:]}; BIM reads maps of the network's input size, {masks.shape[1:]}")
    scaled, flat = two_dimensional(np.asarray(maps, np.float32))
    return np.stack([object_attribution(scaled, masks), flat], axis=1)


OBJECT = PerSampleMetric("object_attribution", _object_attribution, width=2)


@dataclasses.dataclass(frozen=True)
class Member:
    """A model on a set, as the metrics compare two of them: ``obj-obj``, ``scene-scene_only``, ..."""

    # ``obj``, ``scene``, ...; model and set are part of each image's key, so no two draw the same random numbers.
    model_name: str
    model: object  # from ``load_classifier``, or served
    images: BimSet  # the set

    @property
    def name(self) -> str:
        """Return "obj-obj": folder of the saved maps, and beginning of the keys."""
        return f"{self.model_name}-{os.path.basename(self.images.directory)}"

    def file(self, row: int) -> str:
        """Return the name of an image's saved map."""
        return f"{self.name}/{os.path.splitext(self.images.names[row])[0]}"

    def batch(self, rows: Sequence[int]) -> Batch:
        """Return some of the images, as the model takes them."""
        side = input_side(self.model)
        return Batch(
            network_inputs(self.images.images(rows), side),
            [f"{self.name}/{self.images.names[row]}" for row in rows],
            masks={
                "object": np.stack([place_mask(self.images.mask(row), self.images.boxes[row], side) for row in rows])
            },
            truth={"file": list(map(self.file, rows))},
        )

    def batches(self, rows: Sequence[int], size: int) -> Iterator[LazyBatch]:
        """Yield some of the images, so many at a time."""
        for start in range(0, len(rows), size):
            part = list(rows[start : start + size])
            digests = self.images.digest(part)
            names = [f"{self.images.names[row]} {digest}" for row, digest in zip(part, digests, strict=True)]
            yield LazyBatch(names, list(map(self.file, part)), lambda part=part: self.batch(part))


def member_key(member: Member) -> dict[str, Any]:
    """Return what stored numbers of a member depend on: its name and model, from a file or from a server."""
    key = {"benchmark": "bim", "model": member.model.fingerprint, "member": member.name}
    if getattr(member.model, "client", None) is not None:
        key["served"] = True  # a served model's scores are its server's, not those of the file behind it
    return key


def members(metric: str) -> tuple[tuple[str, str], ...]:
    """Return the (model, set) pairs whose maps a metric reads."""
    if metric == "rmcs":
        return tuple((name, "dog_bedroom") for name in CONTRAST_SETS)
    return PAIRS.get(metric, (SHARED_MEMBER,))


def own_models(entries: Iterable[str], metrics: Iterable[str], served: bool = False) -> dict[str, str]:
    """Return the models that the user scores in place of members, ``obj=DIR`` as ``{"obj": "DIR"}``.

    ``metrics`` are the metrics of the run; if ``served``, the entries have names of a server's models instead of
    directories. Raises ``BadInput`` if an entry has another form or comes twice, or its name is no member of these
    metrics.
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
    """One method under one metric."""

    metric: str  # "mcs", "idr", "iir", "rmcs", or a metric of all benchmarks
    scene_model: int | None  # for RMCS the number i of the model scene_i
    source: MapSource
    values: np.ndarray  # (n,) one value per counted image; their mean is the score
    rows: np.ndarray  # (n,) places of these images among those drawn
    drawn: int  # number of images drawn
    flat: int  # number of counted images with a map without a scale for either member
    clusters: tuple[str, ...] | None = None  # (n,) ``bim.layout.cluster``
    curves: np.ndarray | None = None  # (n, points), behind the values of a metric with a curve

    @property
    def method(self) -> str:
        """Name of the method, of the method under a control, or of the control."""
        return self.source.name

    @property
    def of_control(self) -> bool:
        """Whether it is of a method under a control."""
        return bool(self.source.method and self.source.control)


def map_folders(run: Run) -> dict[str, pathlib.Path]:
    """Return the folders of ``--precomputed_maps`` by method; empty without it."""
    if not run.flags.precomputed_maps:
        return {}
    from attribution_benchmarks.core.explainer import saved_methods

    return saved_methods(run.flags.precomputed_maps, run.method_names)


def _attach_live_network(model: Any) -> None:
    from bim.models import attach_live_network

    attach_live_network(model)


def _client(flag_values: flags.FlagValues) -> serving.Client:
    from attribution_benchmarks import serving

    return serving.Client(flag_values.server, deadline=flag_values.deadline, retry_timeout=flag_values.retry_timeout)


class BimRun:
    """The models, sets and comparisons of a run; its hooks read it as ``run.data``.

    Parameters
    ----------
    run
        Its metrics and methods are selected.

    Attributes
    ----------
    models, sets
        Those that were loaded, by name.
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

    def __init__(self, run: Run):
        self.run, self.flags = run, run.flags
        self.own_models = own_models(run.flags.models, run.metrics, bool(run.flags.server))
        self.client = _client(run.flags) if run.flags.server else None
        self.data_dir = resolve_data_dir(run.flags.data_dir)
        self.controls = CONTROLS if run.flags.controls else ()
        self.shared = {name: metric for name, metric in run.metrics.items() if name not in METRICS}
        self.upstream = run.flags.compat == "upstream"
        self.models: dict[str, Any] = {}
        self.sets: dict[str, BimSet] = {}
        self._dropped: set[str] = set()
        for model_name, set_name in dict.fromkeys(pair for metric in run.metrics for pair in members(metric)):
            self.model(model_name)
            if set_name != PATCH_SET:
                self.images(set_name)
        if self.client is not None:
            from bim.served import check_methods

            check_methods(self.models.values(), {name: method for name, (method, _) in run.methods.items()})
        self._offer_live_networks()

    def _offer_live_networks(self) -> None:
        """Give the models their live networks if a method of another library needs them; offer them otherwise."""
        needed = any(method.library for method, _ in self.run.methods.values())
        for model in self.models.values():
            if needed:
                _attach_live_network(model)
            else:
                model.live_source = _attach_live_network

    @functools.cached_property
    def map_folders(self) -> dict[str, pathlib.Path]:
        """Folders of the precomputed maps by method; empty without ``--precomputed_maps``."""
        return map_folders(self.run)

    @property
    def method_names(self) -> list[str]:
        """Names of the methods, or of the precomputed maps."""
        return list(self.map_folders or self.run.methods)

    @functools.cached_property
    def maps_directory(self) -> MapsDirectory | None:
        """Where maps are saved; None without ``--save_maps``."""
        fingerprints = {name: model.fingerprint for name, model in self.models.items()}
        return self.run.maps_directory(models=fingerprints, layer=self.flags.layer)

    def model(self, name: str) -> Any:
        """Return a model, loaded once."""
        if name not in self.models:
            if self.client is not None:
                from bim.served import served_classifier, served_name

                self.models[name] = served_classifier(self.client, self.own_models.get(name) or served_name(name))
            elif name in self.own_models:
                self.models[name] = classifier_at(self.own_models[name], tensors=self.upstream)
            else:
                self.models[name] = load_classifier(self.flags.models_dir, name, tensors=self.upstream)
        return self.models[name]

    def images(self, set_name: str) -> BimSet:
        """Return a set, read once."""
        if set_name not in self.sets:
            self.sets[set_name] = load_set(self.data_dir, set_name)
        return self.sets[set_name]

    def member(self, model_name: str, set_name: str) -> Member:
        """Return a model on a set."""
        return Member(model_name, self.model(model_name), self.images(set_name))

    def explainer(self, model: Any, further: Sequence[Control] = ()) -> Explainer | SavedMaps:
        """Return what makes a model's maps by the methods, the controls and further controls."""
        controls = (*self.controls, *further)
        layer = CAM_LAYER if self.map_folders else cam_layer(model, self.flags.layer)
        methods = {
            name: (method, {"layer": layer} if layer != CAM_LAYER and "layer" in method.defaults else {})
            for name, (method, _) in self.run.methods.items()
        }
        controlled = {control.name: on_random_networks(control, methods) for control in controls}
        return self.run.explainer(model, controls, controlled, methods)

    def explainer_of(self, member: Member) -> Explainer | SavedMaps:
        """Return what makes a member's maps, with the controls that only its model or set has.

        These are networks of random weights and, with metrics of all benchmarks, the ground truth.
        """
        truth = (GROUND_TRUTH,) if self._shared_of(member) and self.controls else ()
        count = 0 if self.map_folders or not has_variables(member.model.path) else self.flags.random_networks
        place = MODEL_NAMES.index(member.model_name)
        return self.explainer(member.model, (*truth, *networks([RANDOM_WEIGHTS] if count else [], count, place)))

    def sharded_run(self, model_name: str, set_name: str, rows: Sequence[int] = ()) -> ShardedRun:
        """Return the run of a model through some images of a set."""
        member = self.member(model_name, set_name)
        member.images.draw(rows)  # all at once, in parallel; a batch would draw its own
        predicted = PredictionFilter(
            "prediction",
            lambda batch: member.model.predict(batch.inputs, self.flags.batch_size).tolist(),
            lambda answers, part: (np.ones(len(answers), bool), np.array(answers, np.int64).reshape(len(part.names))),
        )
        evaluator = Evaluator(
            self.explainer_of(member),
            [OBJECT, *(metric.measure for metric in self._shared_of(member).values())],
            member_key(member),
            [Member],
            self.run.store,
            predicted,
            self.maps_directory,
        )
        return ShardedRun(member.name, evaluator, list(rows), self.flags.batch_size, member.batches)

    def sharded_runs(self) -> list[list[ShardedRun]]:
        """Return all sharded runs of the metrics, in groups that can be computed together.

        Each member comes once, unless two metrics need other images of it: then one comes after the other, as in a run
        without Beam, so that batches have the same borders.
        """
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
        return [[self.sharded_run(*pair, rows) for pair, rows in group.items()] for group in groups]

    def drop(self, failed: Mapping[str, Sequence[int]]) -> None:
        """Drop images: member's name -> rows of its set."""
        for name, rows in failed.items():
            images = self.images(name.partition("-")[2])
            self._dropped |= {os.path.splitext(images.names[row])[0] for row in rows}

    def measured(self, model_name: str, set_name: str, rows: Sequence[int]) -> _Measured:
        """Return a model's attributions on some images of a set.

        Raises
        ------
        BadInput
            If an image has no precomputed map.
        """
        member = self.member(model_name, set_name)
        if self.map_folders:
            from attribution_benchmarks.core.explainer import with_all_maps

            files = [member.file(row) for row in rows]
            there = with_all_maps(files, self.map_folders)
            if not all(there):
                raise BadInput(
                    f"{there.count(False)} of {len(files)} images have no map of every method; expected "
                    f"METHOD/{files[there.index(False)]}.npy"
                )
        title = printable(member.name.replace("-", " on "))
        results = self.run.evaluate(self.sharded_run(model_name, set_name, rows), "image", title)
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
        rows = scores.sample_rows(len(names), self.flags.num_imgs, self.flags.seed)
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
