"""CLEVR-XAI as TensorFlow Datasets: ``clevr_xai/simple`` and ``clevr_xai/complex``.

    import tensorflow_datasets as tfds
    import clevr_xai.tfds_builder
    data = tfds.load("clevr_xai/simple", split="test")

gives the embedded set. For the official release, or data of our own generator, name its directory:

    config = tfds.download.DownloadConfig(manual_dir="path/of/CLEVR-XAI")
    tfds.load("clevr_xai/simple", split="test", data_dir="another/directory",
              download_and_prepare_kwargs={"download_config": config})
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import tensorflow_datasets as tfds

from attribution_benchmarks.core.tfds_builder import Builder
from clevr_xai import masks
from clevr_xai.data import Dataset
from clevr_xai.vocabulary import ANSWERS

_ROWS = 100  # questions read at a time


class ClevrXai(Builder):
    """Questions about rendered scenes with masks of the objects that they are about.

    Features: ``image`` (128, 128, 3) uint8, ``question`` and ``answer`` (a label of the 28 answers),
    ``question_index``, ``image_filename``, and for each ground truth ``masks/NAME`` (128, 128) bool and
    ``available/NAME``, False where the question has no such mask, which then is empty.
    """

    BUILDER_CONFIGS = [  # noqa: RUF012  the name and the form are TFDS's
        tfds.core.BuilderConfig(name=kind, description=f"CLEVR-XAI-{kind}") for kind in masks.KINDS
    ]

    citation = "Arras, Osman and Samek, CLEVR-XAI, Information Fusion 81, 14-40, 2022"
    homepage = "https://github.com/ahmedmagdiosman/clevr-xai"

    def features(self) -> dict:
        """Return the features."""
        names = masks.GROUND_TRUTHS[self.builder_config.name]
        shape = (masks.SIZE, masks.SIZE)
        return {
            "image": tfds.features.Image(shape=(*shape, 3), dtype=np.uint8),
            "question": tfds.features.Text(),
            "answer": tfds.features.ClassLabel(names=list(ANSWERS)),
            "question_index": np.int64,
            "image_filename": tfds.features.Text(),
            "masks": {name: tfds.features.Tensor(shape=shape, dtype=np.bool_, encoding="zlib") for name in names},
            "available": {name: np.bool_ for name in names},
        }

    def _split_generators(self, dl_manager) -> dict:
        """Return the one split there is: CLEVR-XAI is made for evaluation."""
        return {"test": self._test(Dataset(self.builder_config.name, self.source))}

    def _test(self, data: Dataset) -> Iterator[tuple[int, dict]]:
        for batch in data.batches(_ROWS):
            for position, row in enumerate(batch.rows):
                question = data.questions[row]
                yield (
                    int(row),
                    {
                        "image": batch.images[position],
                        "question": batch.questions[position],
                        "answer": batch.answers[position],
                        "question_index": question["question_index"],
                        "image_filename": question["image_filename"],
                        "masks": {name: found[position] for name, found in batch.masks.items()},
                        "available": {name: known[position] for name, known in batch.available.items()},
                    },
                )
