"""Fixtures of several folders of tests."""

import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from attribution.reading import read_json
from attribution_benchmarks.core import fingerprint, manifest
from attribution_benchmarks.core.store import FILE, ScoreStore

# TensorFlow uses oneDNN by default on processors with AVX-512 only. Without it, it has no gradients of grouped
# convolutions. It reads this variable at its first operation. BIM's training is tested without it: with it, TensorFlow
# 2.21 damages memory when it trains on some processors.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

# By default, the collector of garbage takes up to a tenth of the time: graphs of TensorFlow are many objects.
gc.set_threshold(50_000, 20, 20)

ROOT = str(Path(__file__).parents[1])
SLOW = {name: place for place, name in enumerate(Path(__file__).with_name("slow.txt").read_text().splitlines()[1:])}
FILES = {name.partition("::")[0]: place for name, place in reversed(SLOW.items())}
EXHAUSTIVE = set(Path(__file__).with_name("exhaustive.txt").read_text().splitlines()[1:])
WHEN_NAMED = {
    "versions": "installs TensorFlow for minutes",
    "families": "explains all families for minutes",
    "exhaustive": "runs all cases of a kind for minutes",
}


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(config, items):
    """Mark slow tests, and begin with the files that take longest: no process has one left when the others are done."""
    for item in items:
        if not EXHAUSTIVE.isdisjoint((item.nodeid, item.nodeid.partition("[")[0])):
            item.add_marker("exhaustive")
        for name, what in WHEN_NAMED.items():
            if item.get_closest_marker(name) and name not in config.option.markexpr:
                item.add_marker(pytest.mark.skip(f"{what}; -m {name} runs it"))
        if not SLOW.keys().isdisjoint((item.nodeid.partition("[")[0], item.nodeid.partition("::")[0])):
            item.add_marker("slow")
    items.sort(key=lambda item: FILES.get(item.nodeid.partition("::")[0], len(SLOW)))


def pytest_collection_finish():
    """Let the collector of garbage look no more at what is imported."""
    gc.freeze()


@pytest.fixture(autouse=True)
def nothing_stays_deterministic():
    """Undo what training sets for its whole process: TensorFlow would refuse random operations without a seed."""
    yield
    if config := sys.modules.get("tensorflow.python.framework.config"):
        config.disable_op_determinism()


@pytest.fixture(autouse=True)
def custom_code_is_forgotten(monkeypatch):
    """Forget custom code that a test has loaded; take tests for a library, and files for older than the process."""
    origin = fingerprint._origin
    monkeypatch.setattr(
        fingerprint, "_origin", lambda module, file: origin(module, file) or "library" * (ROOT in f"{file}")
    )
    monkeypatch.setattr(fingerprint, "STARTED", float("inf"))
    before = set(sys.modules)
    yield
    for name in sys.modules.keys() - before:
        if not origin(name, getattr(sys.modules[name], "__file__", "") or os.__file__):
            del sys.modules[name]
    manifest._print.cache_clear()
    manifest.UNIDENTIFIED.clear()


@pytest.fixture
def interruptible():
    """Let what a test starts be interrupted, even where the tests themselves ignore that.

    A shell starts what runs in its background with interrupts ignored, and every process hands that on.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def quick_python(tmp_path_factory):
    """Path of a program that takes the arguments of Python and has TensorFlow imported; see ``quick_python.py``."""
    folder = tmp_path_factory.mktemp("quick")
    file = Path(__file__).with_name("quick_python.py")
    program = folder / "python"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -IS {file} run {folder}/socket "$@"\n')
    program.chmod(0o755)
    command = [sys.executable, "-I", file, "serve", folder / "socket"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout.readline() == b"ready\n"
        yield program
        server.stdin.close()


@pytest.fixture
def rewrite_scores():
    """Return a function that replaces records of a store by others, which have a valid checksum.

    It takes the store's directory and a function from (key of a series, record) to the new record.
    """

    def rewrite(directory, change):
        contents = ScoreStore(directory).contents()
        for file in directory.glob(f"{FILE}*"):
            file.unlink()
        for header, records in contents.items():
            key = json.loads(header)
            changed = {name: change(key, record) for name, record in records.items()}
            ScoreStore(directory).series(**key).append(changed)

    return rewrite


@pytest.fixture(scope="session")
def small_network(tmp_path_factory):
    """Base path of a small Relation Network of 64 pixels as a SavedModel, weights random, normalization at work."""
    import keras
    import numpy as np

    from clevr_xai import relation_network

    keras.utils.set_random_seed(1)
    network = relation_network.build((16,) * 4, (16, 16), channels=6, image_size=64)
    generator = np.random.default_rng(4)
    for variable in network.variables:
        values = generator.normal(0, 0.3, variable.shape)
        if "variance" in variable.path or "gamma" in variable.path:
            variable.assign(np.abs(values) + 0.5)
        elif any(word in variable.path for word in ("bias", "beta", "moving_mean")):
            variable.assign(values)
    path = tmp_path_factory.mktemp("small") / "relation_network"
    relation_network.export(network, path)
    return path


@pytest.fixture(scope="module")
def loaded_models():
    return {}


@pytest.fixture
def load_once(loaded_models, monkeypatch):
    """Let commands that run several times in a module share their loaded networks, as long as no file changes.

    To load a network and to trace its functions is most of a run on few inputs.
    """
    import attribution

    load = attribution.load_model

    def load_or_find(path, **settings):
        files = [(file, file.stat().st_mtime_ns, file.stat().st_size) for file in sorted(Path(path).rglob("*"))]
        key = (os.path.realpath(path), *files, repr(sorted(settings.items())))
        if key not in loaded_models:
            loaded_models[key] = load(path, **settings)
        return loaded_models[key]

    for module in (attribution, attribution.loading):  # commands call the latter
        monkeypatch.setattr(module, "load_model", load_or_find)


@pytest.fixture
def eager():
    """Return a context that runs models eagerly: for a few steps that is faster than to trace their graphs."""

    import tensorflow as tf

    @contextlib.contextmanager
    def context():
        tf.config.run_functions_eagerly(True)
        try:
            yield
        finally:
            tf.config.run_functions_eagerly(False)

    return context


@pytest.fixture(scope="session")
def answered(small_network, tmp_path_factory):
    """Directory of 12 embedded questions of each kind with the small network's answers, the last one's wrong."""
    import numpy as np

    from clevr_xai import layout
    from clevr_xai.data import EMBEDDED, KINDS, Dataset
    from clevr_xai.network import Answering

    network = Answering(small_network)
    directory = tmp_path_factory.mktemp("answered")
    for kind in KINDS:
        data = Dataset(kind, size=network.size)
        rows = np.arange(12)
        (batch,) = data.batches(12, rows)
        places = network.model.predict(network.inputs(batch.images, batch.questions))
        places[-1] = (places[-1] + 1) % len(network.answers)
        questions_ = [dict(data.questions[row], answer=network.answers[places[row]]) for row in rows]
        layout.write_json(directory / layout.QUESTIONS.format(kind=kind), {"questions": questions_})
    for name in (f"{layout.SCENES}.gz", layout.IMAGES, layout.MASKS):
        (directory / name).symlink_to(EMBEDDED / name)
    return directory


@pytest.fixture(scope="session")
def embedded_scenes():
    from clevr_xai import layout
    from clevr_xai.data import EMBEDDED

    return read_json(EMBEDDED / f"{layout.SCENES}.gz")["scenes"]
