"""The builder passes the checks of TensorFlow Datasets and holds the very arrays of ``svea.mnist1d``."""

import pathlib

import numpy as np
import tensorflow_datasets as tfds

from svea import mnist1d, mnist1d_tfds


class TestMnist1d(tfds.testing.DatasetBuilderTestCase):
    DATASET_CLASS = mnist1d_tfds.Mnist1d
    SPLITS = {"train": mnist1d.TRAIN_SIGNALS, "test": mnist1d.TEST_SIGNALS}  # noqa: RUF012 - as the base class has it
    EXAMPLE_DIR = pathlib.Path(__file__).parent  # nothing is downloaded; the base class wants some directory

    def test_session(self, *arguments, **options):
        return super().test_session(*arguments, **options)

    test_session.__test__ = False  # TensorFlow's base class names a context manager like a test


def test_the_prepared_data_are_the_generated_arrays_in_another_order(tmp_path):
    builder = mnist1d_tfds.Mnist1d(data_dir=tmp_path)
    builder.download_and_prepare()
    for name in ("train", "test"):
        expected = getattr(mnist1d.load(), name)
        found = tfds.as_numpy(builder.as_dataset(split=name, batch_size=-1))
        assert found["signal"].dtype == np.float32 and found["label"].dtype == np.int64
        order, expected_order = np.lexsort(found["signal"].T), np.lexsort(expected.signals.T)
        np.testing.assert_array_equal(found["signal"][order], expected.signals[expected_order])
        np.testing.assert_array_equal(found["label"][order], expected.labels[expected_order])
