"""BIM's sets as TensorFlow Datasets: ``bim/obj``, ``bim/scene``, ``bim/scene_only`` and the others.

    import tensorflow_datasets as tfds
    import bim.tfds_builder
    data = tfds.load("bim/obj", split="validation")

gives the embedded drawings. For sets that were constructed from photographs, name their directory:

    config = tfds.download.DownloadConfig(manual_dir="data/bim")
    tfds.load("bim/obj", data_dir="another/directory", download_and_prepare_kwargs={"download_config": config})
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import tensorflow_datasets as tfds

from attribution_benchmarks.core.tfds_builder import Builder
from bim import layout, scores
from bim.data import BimSet, load_set, resolve_data_dir


class Bim(Builder):
    """Objects pasted on scenes, with the place of each object.

    Features: ``image`` (128, 128, 3) uint8, ``label``, ``name``, ``box`` (row0, col0, row1, col1 in pixels,
    zeros without object), ``mask`` (128, 128) bool. The split is ``validation``.
    """

    BUILDER_CONFIGS = [  # noqa: RUF012  the name and the form are TFDS's
        tfds.core.BuilderConfig(name=name, description=f"BIM, set {name}")
        for name in (*layout.MODEL_NAMES, "dog_bedroom", "bamboo_forest")
    ]

    citation = "Yang and Kim, Benchmarking Attribution Methods with Relative Feature Importance, 2019"
    supervised_keys = ("image", "label")
    homepage = "https://arxiv.org/abs/1907.09701"

    def features(self) -> dict:
        """Return the features."""
        side = layout.IMAGE_SIDE
        classes = layout.OBJECTS if self.builder_config.name == "obj" else layout.SCENES
        return {
            "image": tfds.features.Image(shape=(side, side, 3), dtype=np.uint8),
            "label": tfds.features.ClassLabel(names=list(classes)),
            "name": tfds.features.Text(),
            "box": tfds.features.Tensor(shape=(4,), dtype=np.int64),
            "mask": tfds.features.Tensor(shape=(side, side), dtype=np.bool_, encoding="zlib"),
        }

    def _split_generators(self, dl_manager) -> dict:
        """Return the validation images."""
        images = load_set(resolve_data_dir(self.source), self.builder_config.name)
        return {"validation": self._validation(images)}

    def _validation(self, images: BimSet) -> Iterator[tuple[int, dict]]:
        images.draw(range(len(images)))  # all at once, in parallel
        for row, name in enumerate(images.names):
            box, mask = images.boxes[row], np.zeros((layout.IMAGE_SIDE, layout.IMAGE_SIDE), bool)
            if box.any():
                mask = scores.place_mask(images.mask(row), box, layout.IMAGE_SIDE)
            label = int(images.labels[row])
            yield row, {"image": images.images([row])[0], "label": label, "name": name, "box": box, "mask": mask}
