"""Import what every command needs into the fork server. Importing this module is its only use.

TensorFlow is imported, but initializes no device: a forked process could not use it.
"""

import gc
import importlib
import os
import signal

from attribution.tensorflow_log import import_without_devices

_previous = signal.signal(signal.SIGINT, lambda *_: os._exit(130))  # without a traceback
import_without_devices()
importlib.import_module("attribution_benchmarks.core.explainer")
gc.collect()
gc.freeze()  # the collector would touch, and so copy, memory that all commands share
signal.signal(signal.SIGINT, _previous)
