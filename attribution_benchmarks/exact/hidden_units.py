"""Exact Shapley values of a network with one hidden layer whose units read at most twelve inputs each.

The network is a sum over hidden units. Shapley values are additive, and an input that a unit does not read gets nothing
from it. The values of each unit are therefore counted over the coalitions of its own inputs, at most 4,096, however
many inputs the network has. Absent inputs are zero.
"""

from __future__ import annotations

import dataclasses
import pathlib

import numpy as np

from attribution.errors import BadInput
from attribution.file_io.paths import find_saved_model
from attribution_benchmarks.exact.metrics import MOST_FEATURES, coalitions, shapley_values


@dataclasses.dataclass(frozen=True)
class HiddenUnits:
    """The weights of a network Σ_h outputs[h] · relu(x · weights[:, h] + biases[h]) + constant."""

    weights: np.ndarray  # (inputs, units) float; at most twelve of a column are not zero
    biases: np.ndarray  # (units,)
    outputs: np.ndarray  # (units, classes)
    constant: np.ndarray  # (classes,)

    def scores(self, inputs: np.ndarray) -> np.ndarray:
        """Return the scores of (N, ...) inputs, (N, classes) float64."""
        flat = np.asarray(inputs, np.float64).reshape(len(inputs), -1)
        found: np.ndarray = np.maximum(flat @ self.weights + self.biases, 0) @ self.outputs + self.constant
        return found

    def shapley_values(self, inputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return the exact Shapley values of each input's target, of the shape of the inputs, float64."""
        flat = np.asarray(inputs, np.float64).reshape(len(inputs), -1)
        found = np.zeros(flat.shape)
        for unit in range(self.weights.shape[1]):
            read, scale = np.flatnonzero(self.weights[:, unit]), self.outputs[unit, targets]
            rows = np.flatnonzero(scale)
            if len(read) and len(rows):
                parts = flat[np.ix_(rows, read)] * self.weights[read, unit]
                worth = np.maximum(parts @ coalitions(len(read)).T + self.biases[unit], 0)
                found[np.ix_(rows, read)] += scale[rows, np.newaxis] * shapley_values(worth)
        return found.reshape(np.shape(inputs))


def read_hidden_units(path: str | pathlib.Path) -> HiddenUnits:
    """Return the weights of a SavedModel that ``tools/make_tetromino_networks.py`` made.

    Its dense part reads pixels, (pixels, units), and its convolution of windows of 3 x 3 pixels is averaged over
    positions; the kernel is written out as one unit per position here. Raises ``BadInput`` if it is not such a network,
    or a unit reads more than twelve pixels.
    """
    import tensorflow as tf

    file = find_saved_model(path) / "variables" / "variables"
    try:
        reader = tf.train.load_checkpoint(str(file))
        dense, dense_bias, dense_out, kernel, bias, out, constant = (
            np.asarray(reader.get_tensor(f"{name}/.ATTRIBUTES/VARIABLE_VALUE"), np.float64)
            for name in ("dense", "dense_bias", "dense_out", "kernel", "kernel_bias", "kernel_out", "constant")
        )
    except (ValueError, tf.errors.OpError) as error:
        raise BadInput(
            f"{path} is not a network of tetrominoes; tools/make_tetromino_networks.py makes them"
        ) from error
    side = int(np.sqrt(len(dense)))
    windows = _windows(kernel[:, :, 0], side)  # (pixels, positions, filters)
    positions = windows.shape[1]
    units = HiddenUnits(
        np.concatenate([dense, windows.reshape(len(dense), -1)], axis=1),
        np.concatenate([dense_bias, np.tile(bias, positions)]),
        two_classes(np.concatenate([dense_out, np.tile(out / positions, (positions, 1))])),
        two_classes(constant),
    )
    if (units.weights != 0).sum(axis=0).max() > MOST_FEATURES:
        raise BadInput(
            f"{path} has a hidden unit that reads more than {MOST_FEATURES} pixels, so its truth is not known; "
            "tools/make_tetromino_networks.py makes networks without such units"
        )
    return units


def two_classes(log_odds: np.ndarray) -> np.ndarray:
    """Return minus and plus half of log-odds, (..., problems), as logits of classes 0 and 1, (..., 2 · problems)."""
    return np.stack([-log_odds / 2, log_odds / 2], axis=-1).reshape(*log_odds.shape[:-1], -1)


def _windows(kernel: np.ndarray, side: int) -> np.ndarray:
    """Return the matrix of a valid convolution, (side², positions, filters), of a (h, w, filters) kernel."""
    height, width, filters = kernel.shape
    rows, columns = side - height + 1, side - width + 1
    found = np.zeros((side, side, rows, columns, filters))
    for row in range(rows):
        for column in range(columns):
            found[row : row + height, column : column + width, row, column] = kernel
    return found.reshape(side * side, rows * columns, filters)
