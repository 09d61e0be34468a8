"""Metrics of other libraries on this project's maps and models: Quantus and Xplique.

Parameters follow a class as in an address, ``quantus:FaithfulnessCorrelation?subset_size=4&nr_runs=50``; those not
given are the library's own. Both are given one value for each position, the sum over channels, and a model that returns
the run's scores. Each input is scored alone, with its own seed, so that no value depends on the other inputs of a
batch.

**Quantus** (Hedström et al., JMLR 2023) prepares and scores the maps by its own code, with the channels first. Curves
are averaged. Classes that compare inputs (Sufficiency, Consistency), need Keras layers (MPRT and its variants,
InputInvariance, RelativeRepresentationStability) or mosaics (Focus), or return no number an input (SensitivityN, ROAD,
Continuity) are not offered. IROF needs ``numpy.trapz``, which NumPy 2.4 no longer has; ``irof`` is the same metric.

**Xplique** (Fel et al., 2022): 2.0 declares TensorFlow 2.18 to 2.20 with CUDA and an OpenCV with windows, so it is no
extra of this package: it is installed beside TensorFlow 2.20, or without its requirements (``XPLIQUE_INSTALL``).
MuFidelity draws from TensorFlow's global generator, whose seed it leaves set. Classes that explain inputs or randomize
Keras models are not offered.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import urllib.parse
import warnings
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from attribution.errors import BadInput, installation, listed
from attribution.model import batching
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.metric import Metric, PerSampleMetric, mask_of
from attribution_benchmarks.metrics.imputation import Explain, Scores
from attribution_benchmarks.metrics.map_values import evidence

QUANTUS = "quantus:"
_OF_MASKS = (
    "AUC", "AttributionLocalisation", "PointingGame", "RelevanceMassAccuracy", "RelevanceRankAccuracy",
    "TopKIntersection",
)  # fmt: skip
_EXPLAINING = (
    "AvgSensitivity", "LocalLipschitzEstimate", "MaxSensitivity", "RandomLogit", "RelativeInputStability",
    "RelativeOutputStability",
)  # fmt: skip
QUANTUS_NAMES = (
    "Completeness", "Complexity", "EffectiveComplexity", "FaithfulnessCorrelation", "FaithfulnessEstimate",
    "Infidelity", "Monotonicity", "MonotonicityCorrelation", "NonSensitivity", "PixelFlipping", "RegionPerturbation",
    "Selectivity", "Sparseness", *_OF_MASKS, *_EXPLAINING,
)  # fmt: skip
_RATES = ("Completeness", "Monotonicity", "PointingGame", "AverageIncreaseMetric")  # 0 or 1 for an input
_SHARES = ("AUC", "AttributionLocalisation", "RelevanceRankAccuracy", "Sparseness", "TopKIntersection")
_CORRELATIONS = (
    "FaithfulnessCorrelation", "FaithfulnessEstimate", "MonotonicityCorrelation", "MuFidelity", "RandomLogit",
)  # fmt: skip
_NOT_NEGATIVE = (
    "AvgSensitivity", "Complexity", "EffectiveComplexity", "Infidelity", "LocalLipschitzEstimate", "MaxSensitivity",
    "NonSensitivity", "RelativeInputStability", "RelativeOutputStability",
)  # fmt: skip
_BOUNDS = {  # class of either library -> least and most it can be
    **dict.fromkeys(_SHARES, (0.0, 1.0)),
    **dict.fromkeys(_CORRELATIONS, (-1.0, 1.0)),
    **dict.fromkeys(_NOT_NEGATIVE, (0.0, np.inf)),
}


def quantus_metric(name: str) -> Metric:
    """Return a metric of Quantus, ``quantus:CLASS`` or ``quantus:CLASS?parameter=value&...``.

    Values are Python literals or words. Raises ``BadInput`` if Quantus is not installed, the class is not offered, or
    it does not take the parameters.
    """
    kind, parameters = _parsed(name, "Quantus", QUANTUS_NAMES)
    try:
        quantus: Any = importlib.import_module("quantus")
    except ImportError as error:
        raise BadInput(f"--metrics={name} needs Quantus: {installation('quantus')} ({error})") from error
    scorer = _QuantusScorer(kind, parameters)
    try:
        direction = scorer.metric(quantus).score_direction.value
    except Exception as error:  # Quantus raises whatever it likes
        raise BadInput(f"--metrics={name}: {kind} does not take these parameters ({error})") from error
    better = "less" if direction == "lower" else "more"
    explaining = kind in _EXPLAINING
    return Metric(
        name,
        f"{kind} (Quantus)",
        better=better,  # type: ignore[arg-type]
        about=f"Quantus's {name.removeprefix(QUANTUS)}. {better.capitalize()} is better.",
        source=f"Quantus {quantus.__version__}",
        measure=PerSampleMetric(name, scorer, digits=6, of_controls=not explaining, needs_explainer=explaining),
        rate=kind in _RATES,
        masks=kind in _OF_MASKS,
        on_request=True,
        bounds=None if parameters.keys() & {"concept_influence", "weighted"} else _BOUNDS.get(kind),
    )


def _parsed(name: str, library: str, offered: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Return the class and the parameters of ``library:CLASS?parameter=value&...``; ``BadInput`` if not offered."""
    kind, _, query = name.partition(":")[2].partition("?")
    if kind not in offered:
        raise BadInput(f"--metrics={name}: no such metric of {library} is offered; choose of {listed(sorted(offered))}")
    return kind, {key: _value(text) for key, text in urllib.parse.parse_qsl(query, keep_blank_values=True)}


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):  # the last two: nested too deeply
        return text


@dataclasses.dataclass(frozen=True)
class _QuantusScorer:
    """A function of maps that a class of Quantus computes; see ``PerSampleMetric``.

    NaN for a map that Quantus refuses: one of equal values, or of negative ones alone.
    """

    kind: str
    parameters: dict[str, Any]

    def metric(self, quantus: Any) -> Any:
        """Return an object of the class."""
        return getattr(quantus, self.kind)(**{"disable_warnings": True, "return_aggregate": False, **self.parameters})

    def __call__(self, maps: np.ndarray, batch: Batch, queries: Any) -> np.ndarray:
        """Return one value for each input, (N,) float64; of curves the mean."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a removed position had the baseline's value, and the like
            return np.array(
                [self._of_one(maps[row : row + 1], batch.take([row]), queries) for row in range(len(batch))]
            )

    def _of_one(self, maps: np.ndarray, batch: Batch, queries: Any) -> float:
        """Return the value of one input, by Quantus's own steps with another model."""
        metric = self.metric(importlib.import_module("quantus"))
        model = _StandIn(batch, queries)
        state = np.random.get_state()  # noqa: NPY002 (Quantus draws from it)
        np.random.seed(batching.generator(0, batch.seeds[0], "quantus").integers(2**32))  # noqa: NPY002
        try:
            data = metric.general_preprocess(
                model=None, x_batch=_first(batch.pictures), y_batch=model.targets, a_batch=_map(maps, batch),
                s_batch=mask_of(batch)[:, np.newaxis] if batch.masks else None, channel_first=True,
                explain_func=model.explain, explain_func_kwargs=None, model_predict_kwargs=None, softmax=None,
                device=None, custom_batch=None,
            )  # fmt: skip
            (one,) = metric.generate_batches({**data, "model": model}, 1)
            found = metric.evaluate_batch(**metric.batch_preprocess(one))
        except _RefusedMap:
            return np.nan
        except BadInput:
            raise
        except Exception as error:  # Quantus raises whatever it likes
            reason = " ".join(str(error).split()) or type(error).__name__
            raise BadInput(
                f"Quantus's {self.kind} failed on inputs of shape {batch.pictures.shape[1:]}: {reason}"
            ) from error
        finally:
            np.random.set_state(state)  # noqa: NPY002
        return float(np.mean(np.asarray(found, np.float64)))


class _StandIn:
    """What Quantus needs of a model, for one input: predictions of changed inputs, and their maps."""

    def __init__(self, batch: Batch, queries: Any):
        self.batch, self.queries = batch, queries
        self.scores = getattr(queries, "scores", queries)
        self.targets = np.asarray(batch.targets, np.int64)

    def get_model(self) -> _StandIn:
        """Return what ``explain`` is called with."""
        return self

    def shape_input(self, x: np.ndarray, *_: Any, **__: Any) -> np.ndarray:
        """Return inputs unchanged: the channels stay first."""
        return x

    def predict(self, x: np.ndarray, **_: Any) -> np.ndarray:
        """Return the scores of one changed input, (1, classes) float64."""
        return np.asarray(self.scores(self._changed(x)), np.float64)

    def explain(self, model: Any, inputs: np.ndarray, targets: np.ndarray, **_: Any) -> np.ndarray:
        """Return the map of one changed input and class."""
        explain: Explain = self.queries
        changed = dataclasses.replace(self.batch, inputs=self._changed(inputs), targets=np.asarray(targets))
        return _map(explain(changed), changed)

    def _changed(self, x: np.ndarray) -> Any:
        pictures = self.batch.pictures
        last = np.moveaxis(x, 1, -1) if pictures.ndim > 2 else x
        return self.batch.with_pictures(last.reshape(pictures.shape).astype(pictures.dtype))


def _first(pictures: np.ndarray) -> np.ndarray:
    """Return inputs with the channels first; a vector's features are positions of one channel."""
    return np.moveaxis(pictures, -1, 1) if pictures.ndim > 2 else pictures[:, np.newaxis]


class _RefusedMap(Exception):
    """A map that Quantus refuses."""


def _map(maps: np.ndarray, batch: Batch) -> np.ndarray:
    values = evidence(maps, batch)[:, np.newaxis]
    if np.ptp(values) == 0 or (values < 0).all():
        raise _RefusedMap
    return values


XPLIQUE = "xplique:"
# What it imports and this package does not, then itself without the versions that it declares.
XPLIQUE_INSTALL = "pip install tf_keras scikit-image tensorflow-probability deprecated && pip install --no-deps xplique"
_OF_MAPS: dict[str, Literal["more", "less"]] = {"Complexity": "less", "Sparseness": "more"}
XPLIQUE_NAMES: dict[str, Literal["more", "less"]] = {  # name -> which is better
    **_OF_MAPS,
    "AverageDropMetric": "less", "AverageGainMetric": "more", "AverageIncreaseMetric": "more", "Deletion": "less",
    "Insertion": "more", "MuFidelity": "more",
}  # fmt: skip


def xplique_metric(name: str) -> Metric:
    """Return a metric of Xplique, ``xplique:CLASS`` or ``xplique:CLASS?parameter=value&...``.

    Values are Python literals or words. Raises ``BadInput`` if Xplique is not installed, or the class is not offered.
    """
    kind, parameters = _parsed(name, "Xplique", tuple(XPLIQUE_NAMES))
    try:
        importlib.import_module("xplique.metrics")
    except ImportError as error:
        raise BadInput(f"--metrics={name} needs Xplique: {XPLIQUE_INSTALL} ({error})") from error
    return Metric(
        name,
        f"{kind} (Xplique)",
        XPLIQUE_NAMES[kind],
        f"Xplique's {name.removeprefix(XPLIQUE)}. {XPLIQUE_NAMES[kind].capitalize()} is better.",
        source="Xplique",
        rate=kind in _RATES,
        measure=PerSampleMetric(name, _XpliqueScorer(kind, parameters), digits=6),
        on_request=True,
        bounds=_BOUNDS.get(kind),
    )


@dataclasses.dataclass(frozen=True)
class _XpliqueScorer:
    """A function of maps that a class of Xplique computes; see ``PerSampleMetric``."""

    kind: str
    parameters: dict[str, Any]

    def __call__(self, maps: np.ndarray, batch: Batch, scores: Scores) -> np.ndarray:
        """Return one value for each input, (N,) float64."""
        values = evidence(maps, batch).astype(np.float32)
        return np.array([self._of_one(values[row : row + 1], batch.take([row]), scores) for row in range(len(batch))])

    def _of_one(self, maps: np.ndarray, batch: Batch, scores: Scores) -> float:
        import tensorflow as tf

        made: Any = getattr(importlib.import_module("xplique.metrics"), self.kind)
        tf.random.set_seed(int(batching.generator(0, batch.seeds[0], "xplique").integers(2**31)))

        def model(inputs: Any) -> Any:
            changed = np.asarray(inputs, batch.pictures.dtype)
            return tf.constant(scores(batch.take([0] * len(changed)).with_pictures(changed)), tf.float32)

        try:
            if self.kind in _OF_MAPS:
                # Without the dataset of batches in which Xplique's __call__ wraps a single map.
                return float(np.mean(made(**self.parameters).detailed_evaluate(tf.constant(maps))))
            classes = model(batch.pictures).shape[1]
            targets = np.eye(classes, dtype=np.float32)[batch.targets]
            return float(made(model, batch.pictures, targets, **self.parameters)(maps))
        except Exception as error:  # Xplique raises whatever it likes
            reason = " ".join(str(error).split()) or type(error).__name__
            shape = batch.pictures.shape[1:]
            raise BadInput(f"Xplique's {self.kind} failed on inputs of shape {shape}: {reason}") from error
