"""Run a library's cells on the networks that ``networks.write`` wrote, in an environment with that library.

A script beside this one has ``cells_of(file)``, with the arrays of a network to functions of the maps by the names of
their cells, channels last, and calls ``main``: ``SCRIPT.py FOLDER TARGET`` writes ``TARGET/NAME.npz`` with the scores
and maps of each network, and ``TARGET/record.json`` with errors and versions. Of a random cell there are several maps
of each input in a row.
"""

import importlib.metadata
import json
import pathlib
import sys
import warnings

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

REPEATS = 200  # of a random cell


def main(cells_of, packages):
    """Run the cells of every network in a folder; ``packages`` are those whose versions are recorded."""
    warnings.simplefilter("ignore")
    folder, target = map(pathlib.Path, sys.argv[1:3])
    target.mkdir(exist_ok=True)
    errors = {}
    for path in sorted(folder.glob("*.npz")):
        maps = {}
        for name, cell in cells_of(np.load(path)).items():
            np.random.seed(0)  # noqa: NPY002, which libraries read
            try:
                maps[name] = np.asarray(cell())
            except Exception as error:
                errors[f"{path.stem} {name}"] = " ".join(f"{type(error).__name__}: {error}".split())
        np.savez(target / path.name, **maps)
    versions = {name: importlib.metadata.version(name) for name in packages}
    (target / "record.json").write_text(json.dumps({"versions": versions, "errors": errors}, indent=1))


def blocks(spatial, side):
    """Return the numbers of square blocks of positions (H, W)."""
    rows, columns = np.indices(spatial) // side
    return rows * (columns.max() + 1) + columns


def layers_and_weights(file):
    """Return the kinds of a network's layers, and a function that returns as many of its next weights."""
    weights = iter([file[name] for name in sorted(file.files) if name.startswith("weight_")])
    return json.loads(str(file["layers"])), lambda count: [next(weights) for _ in range(count)]


def score_function(file):
    """Return the function from inputs (N, ...) to scores (N, classes) that a network computes, in NumPy."""
    kinds, taken = layers_and_weights(file)
    weights = [taken({"conv": 2, "dense": 2, "norm": 4}.get(kind, 0)) for kind in kinds]

    def scores(x):
        x = np.asarray(x, np.float32)
        for kind, values in zip(kinds, weights, strict=True):
            x = _APPLIED[kind](x, *values)
        return x

    return scores


def _convolved(x, kernel, bias):
    windows = sliding_window_view(x, kernel.shape[:2], axis=(1, 2))  # (N, H, W, C, h, w)
    return np.tensordot(windows, kernel, axes=([4, 5, 3], [0, 1, 2])) + bias


def _pooled(x, reduced):
    return reduced(sliding_window_view(x, (2, 2), axis=(1, 2))[:, ::2, ::2], axis=(4, 5))


_APPLIED = {
    "conv": _convolved,
    "norm": lambda x, scale, shift, mean, variance: scale * (x - mean) / np.sqrt(variance + 1e-3) + shift,
    "relu": lambda x: np.maximum(x, 0),
    "max": lambda x: _pooled(x, np.max),
    "average": lambda x: _pooled(x, np.mean),
    "flatten": lambda x: x.reshape(len(x), -1),
    "global": lambda x: x.mean(axis=(1, 2)),
    "dense": lambda x, kernel, bias: x @ kernel + bias,
}
