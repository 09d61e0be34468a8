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

import os

import numpy as np
import tensorflow_datasets as tfds

from clevr_xai import dataset, masks
from clevr_xai.vocabulary import ANSWERS

_CITATION = """\
@article{arras2022clevrxai,
  title   = {{CLEVR-XAI}: A benchmark dataset for the ground truth evaluation of neural network explanations},
  author  = {Arras, Leila and Osman, Ahmed and Samek, Wojciech},
  journal = {Information Fusion},
  volume  = {81},
  pages   = {14--40},
  year    = {2022}
}"""
_ROWS = 100  # questions read at a time


class ClevrXai(tfds.core.GeneratorBasedBuilder):
    """Questions about rendered scenes with masks of the objects that they are about.

    Features: ``image`` (128, 128, 3) uint8, ``question`` and ``answer`` (a label of the 28 answers),
    ``question_index``, ``image_filename``, and for each ground truth ``masks/NAME`` (128, 128) bool and
    ``available/NAME``, False where the question has no such mask, which then is empty.
    """

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [  # noqa: RUF012  the name and the form are TFDS's
        tfds.core.BuilderConfig(name=kind, description=f"CLEVR-XAI-{kind}") for kind in dataset.KINDS
    ]

    _source = ""  # directory of the data; empty for the embedded set

    def _info(self) -> tfds.core.DatasetInfo:
        """Return the features and where the data came from."""
        names = masks.GROUND_TRUTHS[self.builder_config.name]
        shape = (masks.SIZE, masks.SIZE)
        return self.dataset_info_from_configs(
            features=tfds.features.FeaturesDict(
                {
                    "image": tfds.features.Image(shape=(*shape, 3), dtype=np.uint8),
                    "question": tfds.features.Text(),
                    "answer": tfds.features.ClassLabel(names=list(ANSWERS)),
                    "question_index": np.int64,
                    "image_filename": tfds.features.Text(),
                    "masks": {
                        name: tfds.features.Tensor(shape=shape, dtype=np.bool_, encoding="zlib") for name in names
                    },
                    "available": {name: np.bool_ for name in names},
                }
            ),
            citation=_CITATION,
            homepage="https://github.com/ahmedmagdiosman/clevr-xai",
            disable_shuffling=True,
            metadata=tfds.core.MetadataDict(),
        )

    def download_and_prepare(self, *, download_dir=None, download_config=None, **options) -> None:
        """Prepare the data of ``download_config.manual_dir``, or the embedded set when there is none.

        TFDS reuses what it finds prepared in ``data_dir``, whatever its source: give each source one of its
        own. The source is kept in the dataset's metadata.
        """
        manual_dir = download_config.manual_dir if download_config else None
        self._source = os.path.abspath(manual_dir) if manual_dir else ""
        self.info.metadata["source"] = self._source or "embedded"
        super().download_and_prepare(download_dir=download_dir, download_config=download_config, **options)

    def _split_generators(self, dl_manager):
        """Return the one split there is: CLEVR-XAI is made for evaluation."""
        return {"test": self._generate_examples(dataset.Dataset(self.builder_config.name, self._source))}

    def _generate_examples(self, data: dataset.Dataset):
        """Yield the questions in their order."""
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
