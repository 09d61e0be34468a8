"""The TFDS builders give what the reader gives."""

import numpy as np
import pytest
import tensorflow_datasets as tfds

import clevr_xai.tfds_builder  # noqa: F401  registers the builders
from clevr_xai import masks
from clevr_xai.data import Dataset
from clevr_xai.generation import generate


@pytest.mark.parametrize("kind", ["simple", "complex"])
def test_examples_of_a_named_directory(kind, tmp_path):
    source = tmp_path / "source"
    settings = generate.Settings(seed=4, num_images=1, width=48, height=32, samples=1)
    generate.generate(source, settings, kinds=(kind,))
    config = tfds.download.DownloadConfig(manual_dir=source)
    loaded, info = tfds.load(
        f"clevr_xai/{kind}",
        split="test",
        data_dir=tmp_path / "prepared",
        with_info=True,
        download_and_prepare_kwargs={"download_config": config},
    )
    data = Dataset(kind, source)
    (batch,) = data.batches(100)
    examples = list(tfds.as_numpy(loaded))
    assert len(examples) == len(data) == info.splits["test"].num_examples
    for row, example in enumerate(examples):
        assert example["question"].decode() == batch.questions[row]
        assert info.features["answer"].int2str(example["answer"]) == batch.answers[row]
        np.testing.assert_array_equal(example["image"], batch.images[row])
        for name in masks.GROUND_TRUTHS[kind]:
            np.testing.assert_array_equal(example["masks"][name], batch.masks[name][row])
            assert example["available"][name] == batch.available[name][row]


def test_without_a_directory_it_is_the_embedded_set():
    builder = tfds.builder("clevr_xai/simple", data_dir="unused")
    (split,) = builder._split_generators(None).values()
    key, example = next(iter(split))
    data = Dataset("simple")
    assert key == 0 and example["question"] == data.questions[0]["question"]
    assert builder.info.features["answer"].num_classes == 28
