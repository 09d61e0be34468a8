"""XAI-TRIS: which tetromino is in the noise (Clark et al., Machine Learning 113, 2024), on networks with exact truth.

Images are T and L tetrominoes of 8 x 8 pixels. Positions, mixing weights and the smoothing of correlated backgrounds
are those of the paper; images are scaled so that a background has a root mean square of 1.

The paper's truth is the mask of the tetrominoes. A network may use other pixels, such as suppressors that carry the
same noise, so the truth here is the exact Shapley values of the network's logit, and the mask is a second question.
They are counted: a network is a sum over hidden units, each of which reads at most twelve pixels. Shapley values are
additive, and a pixel that a unit does not read gets nothing from it, so the values of each unit are counted over the
coalitions of its own pixels, at most 4,096. Absent pixels are zero.
"""

from __future__ import annotations

import dataclasses
import pathlib
from typing import cast

import numpy as np

from attribution.errors import BadInput
from attribution.methods.perturbation import positions
from attribution.savedmodel.paths import find_saved_model
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.bundled_models import default_model
from attribution_benchmarks.core.controls import EDGE_DETECTOR, GROUND_TRUTH, RANDOM, UNIFORM, Control
from attribution_benchmarks.core.definition import Benchmark
from attribution_benchmarks.core.evaluation import Run
from attribution_benchmarks.core.examples import Examples
from attribution_benchmarks.core.metric import mask_of, of_maps
from attribution_benchmarks.core.random_weights import RANDOM_WEIGHTS
from attribution_benchmarks.core.report_text import ReportText
from attribution_benchmarks.core.settings import ExampleSettings
from attribution_benchmarks.exact.definition import DATA, METHODS, OutputsEvaluation
from attribution_benchmarks.exact.metrics import (
    DESCRIPTIONS,
    MOST_FEATURES,
    OVERALL,
    coalitions,
    of_problem,
    shapley_values,
)
from attribution_benchmarks.metrics.imputation import Scores
from attribution_benchmarks.metrics.localisation import shared_with_highest
from attribution_benchmarks.metrics.map_values import flat, magnitude

SIDE = 8
PROBLEMS = DATA["tetrominoes"]
NAMES = tuple(f"{problem}_{background}" for background in ("white", "correlated") for problem in PROBLEMS)
NETWORKS = 20  # trained, with the seeds from 0 on; seed 0 is the benchmark's own
_SMOOTHING = 3.0  # standard deviation in pixels
_SHAPES = (np.array([[1, 0], [1, 1], [1, 0]]), np.array([[1, 0], [1, 0], [1, 1]]))  # T, L
_CORNERS = ((1, 1), (4, 5))


def draw(name: str, count: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw images of one of ``NAMES``.

    Returns images, (count, 8, 8, 1) float32, labels, (count,) int64, class 0 and class 1 in turn, and the tetrominoes
    that are there, (count, 8, 8) bool.
    """
    problem, _, background = name.rpartition("_")
    labels = np.arange(count) % 2
    patterns = np.stack([_pattern(problem, int(label), generator) for label in labels])
    noise = _unit(_noise(background, count, generator))
    share = PROBLEMS[problem]["signal"][background]
    if problem == "multiplicative":
        images = _unit(1 - share * patterns) * noise * SIDE
    else:
        images = share * _unit(patterns) + (1 - share) * noise
    return (SIDE * images[..., np.newaxis]).astype(np.float32), labels, patterns != 0


def _pattern(problem: str, label: int, generator: np.random.Generator) -> np.ndarray:
    found = np.zeros((SIDE, SIDE))
    if problem == "xor":
        first = generator.choice((-1, 1))
        for shape, corner, sign in zip(_SHAPES, _CORNERS, (first, first if label == 0 else -first), strict=True):
            _put(found, sign * shape, corner)
    elif problem == "translations_rotations":
        shape = np.rot90(_SHAPES[label], int(generator.integers(4)))
        _put(found, shape, [generator.integers(SIDE - size + 1) for size in shape.shape])
    else:
        _put(found, _SHAPES[label], _CORNERS[label])
    return found


def _put(image: np.ndarray, shape: np.ndarray, corner) -> None:
    (row, column), (height, width) = corner, shape.shape
    image[row : row + height, column : column + width] += shape


def _noise(background: str, count: int, generator: np.random.Generator) -> np.ndarray:
    from scipy.ndimage import gaussian_filter

    noise = generator.normal(size=(count, SIDE, SIDE))
    return gaussian_filter(noise, (0, _SMOOTHING, _SMOOTHING)) if background == "correlated" else noise


def _unit(images: np.ndarray) -> np.ndarray:
    return images / np.linalg.norm(images, axis=(1, 2), keepdims=True)


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
    pixels = np.lib.stride_tricks.sliding_window_view(np.arange(side**2).reshape(side, side), kernel.shape[:2])
    pixels = pixels.reshape(-1, kernel[..., 0].size)  # of each position
    found = np.zeros((side**2, len(pixels), kernel.shape[2]))
    found[pixels, np.arange(len(pixels))[:, np.newaxis]] = kernel.reshape(-1, kernel.shape[2])
    return found


_MOST = 100  # images of a problem


def _examples(count: int, seed: int) -> Examples:
    """Draw images, as many of each problem and background, and of each class in turn; at most 100 of each.

    The targets are the true classes: outputs 2k and 2k + 1 of the network are those of ``NAMES[k]``.
    """
    each = min(-(-count // len(NAMES)), _MOST)
    images, labels, masks = [], [], []
    for place, name in enumerate(NAMES):
        drawn, label, mask = draw(name, _MOST, np.random.default_rng([seed, place, 2]))
        images.append(drawn[:each])
        labels.append(2 * place + label[:each])
        masks.append(mask[:each])
    return Examples(
        np.concatenate(images),
        masks={"tetrominoes": np.concatenate(masks)},
        targets=np.concatenate(labels),
        names=[f"{name}-{number:03d}" for name in NAMES for number in range(each)],
    )


def _mask_precision(maps: np.ndarray, batch: Batch, scores: Scores) -> np.ndarray:
    """Return the share of the k pixels of the largest magnitude that are among the k of the mask, (N,).

    Ties count by their expectation.
    """
    mask = mask_of(batch)
    size = flat(mask).sum(axis=1)
    return np.asarray(shared_with_highest(magnitude(maps, batch), mask, size) / size)


def _exact_values(batch: Batch, seed: int) -> np.ndarray:
    """Return the exact Shapley values as maps, (N, positions...)."""
    return np.reshape(batch.truth["shapley"], (len(batch), *positions(batch.pictures.shape)))


EXACT_VALUES = Control(
    "exact_values", "Exact Shapley values", "the truth itself as a map: what a metric gives to it", _exact_values,
    oracle=True,
)  # fmt: skip


class _Evaluation(OutputsEvaluation):
    """The truth is that of the explained network, so it is computed when the network is known."""

    @classmethod
    def load(cls, run: Run) -> _Evaluation:
        """Load the network and the images, and count the Shapley values."""
        loaded, settings = super().load(run), cast(ExampleSettings, run.settings)
        units = read_hidden_units(settings.model or run.benchmark.network)
        values = units.shapley_values(loaded.data.inputs, loaded.data.targets)
        return cls(run, loaded.models, dataclasses.replace(loaded.data, truth={"shapley": values}))


_DEFINED = Benchmark(
    name="xai_tris",
    title="XAI-TRIS",
    report=ReportText.load(pathlib.Path(__file__).with_name("xai_tris_report.toml")),
    metrics=(
        *OVERALL,
        *(
            of_problem(place, name, PROBLEMS[name.rpartition("_")[0]]["about"], classes=2)
            for place, name in enumerate(NAMES)
        ),
        of_maps("mask_precision", _mask_precision, **DESCRIPTIONS["mask_precision"]),
    ),
    controls=(UNIFORM, RANDOM, EDGE_DETECTOR, GROUND_TRUTH, EXACT_VALUES, RANDOM_WEIGHTS),
    methods=METHODS,
    evaluation=_Evaluation.load,
    examples=_examples,
    network=str(default_model("exact/tetrominoes")),
    further_networks=tuple(str(default_model(f"exact/tetrominoes_seed{number}")) for number in range(1, NETWORKS)),
    counts=(8 * len(NAMES), 20 * len(NAMES)),
)
BENCHMARK = dataclasses.replace(_DEFINED, columns=tuple(map(_DEFINED.column, (*OVERALL, _DEFINED.metrics[-1]))))
