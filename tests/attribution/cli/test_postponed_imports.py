"""Commands import TensorFlow without what it imports only because it is installed; users' code still finds it."""

import concurrent.futures
import importlib.util
import json
import subprocess
import sys

import pytest

from attribution.postponed_imports import postponed_imports

CODE = """
import json, sys
from attribution.tensorflow_log import quiet_tensorflow
quiet_tensorflow()
import tensorflow as tf
before = [name for name in ("sklearn", "jax", "matplotlib.pyplot") if name in sys.modules]
import keras
found = [
    keras.wrappers.SKLearnClassifier is tf.keras.wrappers.SKLearnClassifier,
    callable(tf.lite.TFLiteConverter.from_saved_model),
    tf.lite is sys.modules["tensorflow._api.v2.lite"],
    callable(tf.compat.v1.lite.TFLiteConverter.from_saved_model),
    tf.compat.v2.lite.Optimize is tf.lite.Optimize,
    callable(keras.visualization.plot_image_gallery),
    sys.modules["keras.src.wrappers.sklearn_wrapper"].sklearn is sys.modules["sklearn"],
    "matplotlib.pyplot" in sys.modules,
]
try:
    import jax
    found.append(sys.modules["tensorflow.lite.python.util"]._jit is jax.jit)
except ImportError:
    pass
print(json.dumps([before, found]))
"""


def test_packages_that_tensorflow_does_not_need_are_imported_at_their_first_use():
    printed = subprocess.run([sys.executable, "-c", CODE], check=True, capture_output=True, text=True).stdout
    before, found = json.loads(printed)
    assert not before
    assert len(found) >= 8 and all(found)


def test_imports_of_another_thread_are_not_postponed(monkeypatch, tmp_path):
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    (tmp_path / "jax.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    with postponed_imports(), concurrent.futures.ThreadPoolExecutor(1) as other:
        with pytest.raises(ModuleNotFoundError, match="not needed yet"):
            importlib.util.find_spec("jax")
        assert other.submit(importlib.util.find_spec, "jax").result().origin == str(tmp_path / "jax.py")
