"""The TFDS builder gives the sets as they are on disk."""

import numpy as np
import pytest
import tensorflow_datasets as tfds

from bim import data, layout, scores, tfds_builder


@pytest.mark.parametrize("name", ["obj", "scene3", "bamboo_forest"])
def test_every_image_comes_with_its_label_box_and_mask(sets, tmp_path, name):
    config = tfds.download.DownloadConfig(manual_dir=sets)
    options = {"data_dir": str(tmp_path), "download_and_prepare_kwargs": {"download_config": config}}
    found = list(tfds.as_numpy(tfds.load(f"bim/{name}", split="validation", **options)))
    images = data.load_set(sets, name)
    assert [example["name"].decode() for example in found] == list(images.names)
    assert [example["label"] for example in found] == images.labels.tolist()
    for row in range(0, len(images), 13):
        assert found[row]["box"].tolist() == images.boxes[row].tolist()
        np.testing.assert_array_equal(found[row]["image"], images.images([row])[0])
        if images.boxes[row].any():
            np.testing.assert_array_equal(
                found[row]["mask"], scores.place_mask(images.mask(row), images.boxes[row], layout.IMAGE_SIDE)
            )
        else:
            assert not found[row]["mask"].any()


def test_there_is_a_configuration_for_every_set():
    assert {config.name for config in tfds_builder.Bim.BUILDER_CONFIGS} >= set(layout.MODEL_NAMES)
