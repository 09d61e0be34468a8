"""The builder of TensorFlow Datasets holds the arrays of ``svea.mnist1d``."""

import numpy as np
import tensorflow_datasets as tfds

from svea import mnist1d_tfds


def test_the_prepared_data_are_the_generated_arrays_in_another_order(data, tmp_path):
    assert "mnist1d" in tfds.list_builders()
    builder = mnist1d_tfds.Mnist1d(data_dir=tmp_path)
    builder.download_and_prepare()
    for name in ("train", "test"):
        expected = getattr(data, name)
        found = tfds.as_numpy(builder.as_dataset(split=name, batch_size=-1))
        assert found["signal"].dtype == np.float32 and found["label"].dtype == np.int64
        order, expected_order = np.lexsort(found["signal"].T), np.lexsort(expected.signals.T)
        np.testing.assert_array_equal(found["signal"][order], expected.signals[expected_order])
        np.testing.assert_array_equal(found["label"][order], expected.labels[expected_order])
