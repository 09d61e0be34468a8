"""The base of the benchmarks' TensorFlow Datasets: the data of a directory, or the embedded ones."""

from __future__ import annotations

import abc
import os
from collections.abc import Iterable
from typing import Any

import tensorflow_datasets as tfds


class Builder(tfds.core.GeneratorBasedBuilder, skip_registration=True):  # type: ignore[misc, call-arg]
    """A builder whose splits are iterables of (key, example).

    TFDS reuses what it finds prepared in ``data_dir``, whatever its source: give each source one of its own.
    """

    VERSION = tfds.core.Version("1.0.0")
    source = ""  # directory of the data; empty for the embedded ones
    citation, homepage, supervised_keys = "", "", None

    @abc.abstractmethod
    def features(self) -> dict[str, Any]:
        """Return the features of an example."""

    def _info(self) -> tfds.core.DatasetInfo:
        """Return the features, and where the data come from."""
        return self.dataset_info_from_configs(
            features=tfds.features.FeaturesDict(self.features()),
            supervised_keys=self.supervised_keys,
            citation=self.citation,
            homepage=self.homepage,
            disable_shuffling=True,
        )

    def download_and_prepare(self, *, download_dir: Any = None, download_config: Any = None, **options: Any) -> None:
        """Prepare the data of ``download_config.manual_dir``, or the embedded ones when there is none."""
        manual = getattr(download_config, "manual_dir", None)
        self.source = os.path.abspath(manual) if manual else ""
        super().download_and_prepare(download_dir=download_dir, download_config=download_config, **options)

    def _generate_examples(self, examples: Iterable[tuple[int, dict[str, Any]]]) -> Iterable[Any]:
        """Return the examples of a split."""
        return examples
