"""MNIST-1D as a TensorFlow Datasets builder: ``import svea.mnist1d_tfds``, then ``tfds.load("mnist1d")``.

The module is apart from ``svea.mnist1d`` because importing TensorFlow Datasets takes seconds. Nothing is downloaded:
the signals are generated.
"""

import numpy as np
import tensorflow_datasets as tfds

from svea import mnist1d


class Mnist1d(tfds.core.GeneratorBasedBuilder):
    """MNIST-1D: ``signal`` (40,) float32 and ``label`` int64, 4,000 in ``train`` and 1,000 in ``test``."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description="Ten classes of one-dimensional signals: templates of twelve points, padded, dilated, scaled, "
            "shifted, sheared and covered with noise.",
            features=tfds.features.FeaturesDict(
                {
                    "signal": tfds.features.Tensor(shape=(mnist1d.LENGTH,), dtype=np.float32),
                    "label": tfds.features.ClassLabel(num_classes=mnist1d.CLASSES),
                }
            ),
            supervised_keys=("signal", "label"),
            homepage="https://github.com/greydanus/mnist1d",
            citation="Greydanus and Kobak, Scaling Down Deep Learning with MNIST-1D, arXiv:2011.14439",
        )

    def _split_generators(self, dl_manager):
        data = mnist1d.load()
        return {"train": self._generate_examples(data.train), "test": self._generate_examples(data.test)}

    def _generate_examples(self, split: mnist1d.Split):
        for row, (signal, label) in enumerate(zip(split.signals, split.labels, strict=True)):
            yield row, {"signal": signal, "label": int(label)}
