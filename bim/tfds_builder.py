"""BIM's sets as TensorFlow Datasets: ``bim/obj``, ``bim/scene``, ``bim/scene_only`` and the others.

    import tensorflow_datasets as tfds
    import bim.tfds_builder
    data = tfds.load("bim/obj", split="validation")

gives the embedded drawings. For sets that were constructed from photographs, name their directory:

    config = tfds.download.DownloadConfig(manual_dir="data/bim")
    tfds.load("bim/obj", data_dir="another/directory", download_and_prepare_kwargs={"download_config": config})
"""

from __future__ import annotations

import os

import numpy as np
import tensorflow_datasets as tfds

from bim import dataset, layout, scores

_CITATION = """\
@article{yang2019benchmarking,
  title   = {Benchmarking Attribution Methods with Relative Feature Importance},
  author  = {Yang, Mengjiao and Kim, Been},
  journal = {arXiv preprint arXiv:1907.09701},
  year    = {2019}
}"""
CONFIGS = (*layout.MODEL_NAMES, "dog_bedroom", "bamboo_forest")


class Bim(tfds.core.GeneratorBasedBuilder):
    """Objects pasted on scenes, with the place of each object.

    Features: ``image`` (128, 128, 3) uint8, ``label``, ``name``, ``box`` (row0, col0, row1, col1 in pixels,
    zeros without object), ``mask`` (128, 128) bool. Splits: ``validation``, and ``train`` where the set has
    training images; these have no box and no mask.
    """

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [  # noqa: RUF012  the name and the form are TFDS's
        tfds.core.BuilderConfig(name=name, description=f"BIM, set {name}") for name in CONFIGS
    ]

    _source = ""  # directory of the sets; empty for the embedded ones

    def _info(self) -> tfds.core.DatasetInfo:
        """Return the features."""
        side = layout.IMAGE_SIDE
        classes = layout.OBJECTS if self.builder_config.name == "obj" else layout.SCENES
        return self.dataset_info_from_configs(
            features=tfds.features.FeaturesDict(
                {
                    "image": tfds.features.Image(shape=(side, side, 3), dtype=np.uint8),
                    "label": tfds.features.ClassLabel(names=list(classes)),
                    "name": tfds.features.Text(),
                    "box": tfds.features.Tensor(shape=(4,), dtype=np.int64),
                    "mask": tfds.features.Tensor(shape=(side, side), dtype=np.bool_, encoding="zlib"),
                }
            ),
            supervised_keys=("image", "label"),
            citation=_CITATION,
            homepage="https://arxiv.org/abs/1907.09701",
            disable_shuffling=True,
        )

    def download_and_prepare(self, *, download_dir=None, download_config=None, **options) -> None:
        """Prepare the sets of ``download_config.manual_dir``, or the embedded ones when there is none.

        TFDS reuses what it finds prepared in ``data_dir``, whatever its source: give each source one of its
        own.
        """
        manual = getattr(download_config, "manual_dir", None)
        self._source = os.fspath(manual) if manual else ""
        super().download_and_prepare(download_dir=download_dir, download_config=download_config, **options)

    def _split_generators(self, dl_manager) -> dict:
        """Return the validation images, and the training images where there are any."""
        directory = dataset.resolve_data_dir(self._source)
        splits = {"validation": self._validation(directory)}
        train = os.path.join(directory, self.builder_config.name, "train")
        if os.path.isdir(train) and any(os.listdir(os.path.join(train, name)) for name in os.listdir(train)):
            splits["train"] = self._train(directory)
        return splits

    def _generate_examples(self, directory: str):
        """Yield the validation images; the splits have generators of their own."""
        return self._validation(directory)

    def _validation(self, directory: str):
        images = dataset.load_set(directory, self.builder_config.name)
        images.draw(range(len(images)))  # all at once, in parallel
        for row, name in enumerate(images.names):
            box = images.boxes[row]
            mask = np.zeros((layout.IMAGE_SIDE, layout.IMAGE_SIDE), bool)
            if box.any():
                mask = scores.place_mask(images.mask(row), box, layout.IMAGE_SIDE)
            label = int(images.labels[row])
            yield row, {"image": images.images([row])[0], "label": label, "name": name, "box": box, "mask": mask}

    def _train(self, directory: str):
        images, labels = dataset.load_train(directory, self.builder_config.name)
        names = dataset.train_names(directory, self.builder_config.name)
        empty = np.zeros((layout.IMAGE_SIDE, layout.IMAGE_SIDE), bool)
        for row, (image, label, name) in enumerate(zip(images, labels, names, strict=True)):
            yield row, {"image": image, "label": int(label), "name": name, "box": np.zeros(4, np.int64), "mask": empty}
