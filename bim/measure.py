"""Object attributions of a model on images of a set: explained in batches, kept in a store."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

import attribution
from attribution.errors import BadInput, listed
from attribution_benchmarks.cli.bundled_models import given_or_bundled
from attribution_benchmarks.core.batch import Batch, LazyBatch, MapSource
from attribution_benchmarks.core.evaluator import Evaluator, PredictionFilter, Results
from attribution_benchmarks.core.explainer import Explainer
from attribution_benchmarks.core.metric import Metric, PerSampleMetric
from attribution_benchmarks.core.store import ScoreStore
from bim.dataset import BimSet
from bim.layout import CHANNEL_MEANS, SCENES
from bim.scores import object_attribution, place_mask, two_dimensional

if TYPE_CHECKING:
    from attribution_benchmarks.core.explainer import MapsDirectory, SavedMaps

TENSORS = {"inputs": ["input_tensor:0"], "output": "resnet_model/final_dense:0"}  # of the authors' models


@dataclasses.dataclass(frozen=True)
class Measured:
    """What one model does on n images of one set."""

    predicted: np.ndarray  # (n,) int64
    labels: np.ndarray  # (n,) int64
    # By source: (n,) float64 in [0, 1], the mean of the scaled map over the object; (n,) bool, maps without a scale
    # (see ``scores.two_dimensional``).
    attributions: dict[MapSource, np.ndarray]
    flat: dict[MapSource, np.ndarray]
    shared: dict[str, dict[MapSource, np.ndarray]]  # metric of all benchmarks -> source -> (n, width) float64

    def with_zero_by_zero(self) -> Measured:
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


def measured(member: Member, rows: Sequence[int], results: Results, shared: Mapping[str, Metric]) -> Measured:
    """Return the numbers of a member's images, some rows of its set.

    ``results`` are of ``member_evaluator`` for these images, with the metrics of all benchmarks, ``shared``, by name.
    """
    numbers = {source: results.numbers(source, OBJECT) for source in results.sources}
    return Measured(
        np.array(results.predictions, np.int64).reshape(len(rows)),
        member.images.labels[list(rows)],
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


def member_key(member: Member) -> dict[str, Any]:
    """Return what stored numbers of a member depend on: its name and model, from a file or from a server."""
    key = {"benchmark": "bim", "model": member.model.fingerprint, "member": member.name}
    if getattr(member.model, "client", None) is not None:
        key["served"] = True  # a served model's scores are its server's, not those of the file behind it
    return key


def member_evaluator(
    member: Member,
    explainer: Explainer | SavedMaps,
    store: ScoreStore | None,
    shared: Mapping[str, Metric],
    batch_size: int,
    maps_directory: MapsDirectory | None = None,
) -> Evaluator:
    """Return what explains a model's predictions and measures how much falls on the objects.

    ``shared`` are metrics of all benchmarks to compute as well, by name; ``batch_size`` images are in one pass. For
    ``explainer``, ``store`` and ``maps_directory`` see ``evaluator.Evaluator``.
    """
    return Evaluator(
        explainer,
        [OBJECT, *(metric.measure for metric in shared.values())],
        member_key(member),
        [Member],
        store,
        PredictionFilter(
            "prediction",
            lambda batch: member.model.predict(batch.inputs, batch_size).tolist(),
            lambda answers, part: (np.ones(len(answers), bool), np.array(answers, np.int64).reshape(len(part.names))),
        ),
        maps_directory,
    )
