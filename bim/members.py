"""Which models on which sets the metrics compare, and what a comparison gives."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from attribution.errors import BadInput
from attribution_benchmarks.core.batch import Batch, LazyBatch
from attribution_benchmarks.core.metric import PerSampleMetric
from bim.classifiers import input_side, network_inputs
from bim.data import BimSet
from bim.layout import CONTRAST_SETS
from bim.scores import object_attribution, place_mask, two_dimensional

PATCH_SET = "bamboo_forest_patch"
PAIRS = {  # (model, set) of the first and of the second member
    "mcs": (("obj", "obj"), ("scene", "scene")),
    "idr": (("scene", "scene"), ("scene", "scene_only")),
    "iir": (("scene_only", "bamboo_forest"), ("scene_only", PATCH_SET)),
}
SHARED_MEMBER = ("obj", "obj")  # where metrics of all benchmarks are computed: the object is what matters there


def members(metric: str) -> tuple[tuple[str, str], ...]:
    """Return the (model, set) pairs whose maps a metric reads."""
    if metric == "rmcs":
        return tuple((name, "dog_bedroom") for name in CONTRAST_SETS)
    return PAIRS.get(metric, (SHARED_MEMBER,))


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
