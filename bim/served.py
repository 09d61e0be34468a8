"""BIM's models behind a server: their names there, which methods a server can answer, and a comparison of two.

The comparison is of accuracy, explanations, model contrast, latency and throughput, on the same images.
"""

from __future__ import annotations

import copy
import dataclasses
import os
import time
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

import attribution
from attribution import Method
from attribution.errors import BadInput, listed
from attribution_benchmarks import serving
from attribution_benchmarks.core import tables
from attribution_benchmarks.stats import correlation, statistics
from bim import scores
from bim.classifiers import checked_classifier, input_side, network_inputs
from bim.dataset import BimSet
from bim.layout import MODEL_NAMES

PERCENTILES = (50, 90, 99)
LABEL_SETS = ("obj", "scene")  # the same images with two kinds of labels


def served_name(member: str) -> str:
    """Return what ``saved_models/models.config`` calls one of BIM's models: ``obj`` is ``bim_obj`` there."""
    return f"bim_{member}"


def served_classifier(client: serving.Client, name: str) -> serving.ServedModel:
    """Return a served model, ``name`` or ``name@version``, that can classify BIM's images.

    Raises ``BadInput`` if the server refuses or is away, or the model takes other inputs or has other classes.
    """
    model = serving.ServedModel(client, name, score="logits")
    return checked_classifier(model, model.path)


def local_twin(models_dir: str, name: str, model) -> str | None:
    """Return the directory of the file that a served model was exported from, if it is here."""
    path = os.path.join(models_dir, name)
    if not os.path.isdir(path):
        return None
    from attribution.savedmodel import paths

    return path if paths.fingerprint(path) == model.fingerprint else None


def check_methods(models: Iterable[serving.ServedModel], methods: Mapping[str, Method]) -> None:
    """Refuse methods that a served model cannot answer, before any request.

    Each method is rehearsed on one made-up input, with made-up answers of the shapes that the server promises. Raises
    ``BadInput`` if a method needs what a model does not have, or needs the network itself.
    """
    rehearsed = set()
    for model in models:
        kind = (repr(model.sheet and dataclasses.replace(model.sheet, source="")), repr(model.signatures))
        if kind in rehearsed:
            continue
        rehearsed.add(kind)
        understudy = copy.copy(model)
        understudy.client = _MadeUp(model.signatures)
        spec = model.inputs[model.explained_input()]
        image = np.random.default_rng(0).normal(0, 50, (1, *spec.shape[1:])).astype(np.float32)
        for name, method in methods.items():
            if method.library:
                raise BadInput(
                    f"method '{name}' is {method.library}'s own code, which no server answers; score the file"
                )
            try:
                attribution.explain(method, understudy, image, batch_size=16)
            except BadInput as error:
                raise BadInput(f"method '{name}': {error}") from error


class _MadeUp:
    """A client whose answers are numbers of the right shapes."""

    def __init__(self, signatures):
        self._signatures = signatures

    def predict(self, model, signature, arrays, outputs):
        """Return an array for each output."""
        rows = len(next(iter(arrays.values())))
        likely = max((array.shape for array in arrays.values()), key=len)  # where a shape is not known: the input's
        answer = {}
        for name in outputs:
            spec = self._signatures[signature].outputs[name]
            known = likely if spec.shape is None else spec.shape
            shape = [rows, *(likely[axis] if size is None else size for axis, size in enumerate(known[1:], start=1))]
            numbers = np.random.default_rng(1).normal(size=shape)
            answer[name] = numbers.astype(spec.dtype) if spec.is_float else np.zeros(shape, spec.dtype)
        return answer


@dataclasses.dataclass(frozen=True)
class Compared:
    """Results of two models on the same N images."""

    names: tuple[str, str]
    kinds: tuple[str, str]  # labels that each model predicts, "obj" or "scene"
    predicted: np.ndarray  # (2, N) int64
    labels: np.ndarray  # (2, N) int64
    attributions: dict[str, np.ndarray]  # method -> (2, N) float64 in [0, 1]: mean of each scaled map over the object
    # Method -> (N,) Spearman correlation between the models' scaled maps of an image; NaN if a map is constant.
    correlations: dict[str, np.ndarray]


def kinds_of(names: Sequence[str], given: Sequence[str]) -> tuple[str, str]:
    """Return the labels that each of two models predicts, objects or scenes, as given or from BIM's names of models.

    Raises ``BadInput`` if neither gives them.
    """
    if given:
        if len(given) != 2 or not set(given) <= set(LABEL_SETS):
            raise BadInput(
                f"--labels={','.join(given)}: expected one of {listed(LABEL_SETS)} for each of the two models"
            )
        return given[0], given[1]
    members = [name.partition("@")[0].removeprefix("bim_") for name in names]
    unknown = [name for name, member in zip(names, members, strict=True) if member not in MODEL_NAMES]
    if unknown:
        raise BadInput(f"unknown labels of {listed(unknown)}; expected --labels=obj,scene, one for each model")
    return tuple("obj" if member == "obj" else "scene" for member in members)


def compare(
    models,
    names: Sequence[str],
    kinds: Sequence[str],
    sets: Mapping[str, BimSet],
    rows: Sequence[int],
    methods: Mapping[str, Method],
    seed: int = 0,
    batch_size: int = 16,
    progress: bool = False,
) -> Compared:
    """Compute predictions and explanations of two models for the same images.

    Parameters
    ----------
    models
        Two served or loaded models.
    names, kinds
        See ``Compared``.
    sets, rows
        ``obj`` and ``scene``, with the same images, and indices of the images to compare.
    methods
        Name -> method; each explains the model's own predictions, with the same ``seed`` for both models.
    batch_size
        Images in one request.
    progress
        Whether to show a progress bar.

    Raises
    ------
    BadInput
        If the models take images of different sizes, so that their maps cannot be correlated.
    """
    import tqdm

    sides = [input_side(model) for model in models]
    if sides[0] != sides[1]:
        raise BadInput(
            f"{names[0]} takes images of {sides[0]} pixels and {names[1]} of {sides[1]}; expected equal sizes"
        )
    batches = [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]
    done = [
        _compare_batch(models, sets["obj"], batch, sides[0], methods, seed, batch_size)
        for batch in tqdm.tqdm(batches, "images", leave=False, disable=not progress)
    ]
    predicted, attributions, correlations = zip(*done, strict=True)
    return Compared(
        names=tuple(names),
        kinds=tuple(kinds),
        predicted=np.concatenate(predicted, axis=1),
        labels=np.stack([sets[kind].labels[list(rows)] for kind in kinds]),
        attributions={name: np.concatenate([batch[name] for batch in attributions], axis=1) for name in methods},
        correlations={name: np.concatenate([batch[name] for batch in correlations]) for name in methods},
    )


def _compare_batch(
    models, images: BimSet, rows: Sequence[int], side: int, methods: Mapping[str, Method], seed: int, batch_size: int
) -> tuple[np.ndarray, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return ``predicted``, ``attributions`` and ``correlations`` of ``Compared`` for a batch of images."""
    inputs = network_inputs(images.images(rows), side)
    keys = [images.names[row] for row in rows]
    masks = np.stack([scores.place_mask(images.mask(row), images.boxes[row], side) for row in rows])
    predicted = np.stack([model.predict(inputs, batch_size) for model in models])
    maps = [
        attribution.explain_many(methods, model, inputs, targets, batch_size=batch_size, seed=seed, keys=keys)
        for model, targets in zip(models, predicted, strict=True)
    ]
    attributions, correlations = {}, {}
    for name in methods:
        first, second = (scores.two_dimensional(of_model[name])[0] for of_model in maps)
        attributions[name] = np.stack([scores.object_attribution(scaled, masks) for scaled in (first, second)])
        correlations[name] = np.array(
            [correlation.spearman(one.ravel(), other.ravel()) for one, other in zip(first, second, strict=True)]
        )
    return predicted, attributions, correlations


def time_requests(models, inputs: np.ndarray, requests: int, clock=time.perf_counter) -> np.ndarray:
    """Measure the seconds of requests for the scores of the same inputs, alternating between two models.

    Each model answers ``requests`` timed requests of ``inputs``, (rows, side, side, 3) float32, after one to warm up.
    Returns (2, requests) seconds, including the connection and both conversions; ``clock`` returns seconds.
    """
    seconds = np.empty((2, requests + 1))
    for request in range(requests + 1):
        for number, model in enumerate(models):
            start = clock()
            model.scores(inputs, batch_size=len(inputs))
            seconds[number, request] = clock() - start
    return seconds[:, 1:]


def score_rows(compared: Compared, seconds: np.ndarray, batch_size: int) -> list[dict]:
    """Return all results in long form, with intervals over the images.

    ``seconds`` are from ``time_requests``, of requests of ``batch_size`` images. Rows have the keys of ``core.tables``
    and ``model``: a name, or both names for a comparison. Latencies are in milliseconds, the throughput in images per
    second of one connection.
    """
    both = ", ".join(compared.names)
    correct = compared.predicted == compared.labels
    counted = correct.all(axis=0)
    rows = []

    def add(model, method, metric, values, reason):
        values = np.asarray(values, np.float64)
        is_share = metric in ("accuracy", "agreement")
        estimate = statistics.mean_interval(values, rate=1.0 if is_share else None, bounds=(-1.0, 1.0))
        rows.append(
            {"model": model, "method": method, "metric": metric, "value": estimate.value, "low": estimate.low,
             "high": estimate.high, "n": len(values), "paper": None, "kind": "method",
             **({} if len(values) else {"reason": reason})}
        )  # fmt: skip

    for number, name in enumerate(compared.names):
        add(name, "prediction", "accuracy", correct[number], "no image")
    add(both, "prediction", "agreement", compared.predicted[0] == compared.predicted[1], "no image")
    for method, correlations in compared.correlations.items():
        defined = correlations[np.isfinite(correlations)]
        add(both, method, "correlation", defined, "every map is constant")
    for method, values in compared.attributions.items():
        contrast = scores.model_contrast_score(values[0], values[1], counted)
        add(both, method, "mcs", contrast, "no image is classified correctly by both")
    for name, times in zip(compared.names, seconds, strict=True):
        figures = {f"latency_p{share}_ms": 1000 * np.percentile(times, share) for share in PERCENTILES}
        figures["images_per_second"] = batch_size * len(times) / times.sum()
        for metric, value in figures.items():
            rows.append(
                {"model": name, "method": "prediction", "metric": metric, "value": float(value), "low": None,
                 "high": None, "n": len(times), "paper": None, "kind": "method"}
            )  # fmt: skip
    return rows


def report(rows: list[dict], compared: Compared, titles: Mapping[str, str], batch_size: int) -> str:
    """Return the results as text: both models side by side, then their comparison."""
    found = {(row["model"], row["method"], row["metric"]): row for row in rows}
    both = ", ".join(compared.names)

    def side_by_side(metric, title, write):
        return [title, *(write(found[name, "prediction", metric]) for name in compared.names)]

    timed = found[compared.names[0], "prediction", "images_per_second"]["n"]
    body = [side_by_side("accuracy", "accuracy %", lambda row: _with_interval(row, 100, 1))]
    body += [
        side_by_side(f"latency_p{share}_ms", f"latency, {share}th percentile, ms", lambda row: f"{row['value']:.1f}")
        for share in PERCENTILES
    ]
    body.append(side_by_side("images_per_second", "images per second", lambda row: f"{row['value']:.1f}"))
    agreement = found[both, "prediction", "agreement"]
    lines = [
        tables.text_table(["", *compared.names], body),
        f"{agreement['n']} images; {timed} requests of {batch_size} images to each model, one after another",
        f"same class predicted: {_with_interval(agreement, 100, 1)} %",
    ]
    if compared.kinds[0] != compared.kinds[1]:
        lines.append("one model predicts objects and the other scenes: equal class numbers have no meaning")
    body = [
        [
            titles[method],
            _with_interval(found[both, method, "correlation"], 1, 3),
            _with_interval(found[both, method, "mcs"], 1, 3),
        ]
        for method in compared.attributions
    ]
    counted = int((compared.predicted == compared.labels).all(axis=0).sum())
    lines += [
        "",
        tables.text_table(["method", "rank correlation of maps", f"contrast: {compared.names[0]} minus other"], body)
        + f"contrast of the {counted} images that both classify correctly; intervals of 95 %",
    ]
    reasons = dict.fromkeys(f"{titles[row['method']]}: {row['reason']}" for row in rows if "reason" in row)
    return "\n".join([*lines, *reasons, ""])


def _with_interval(row, scale: float, decimals: int) -> str:
    """Return a value with its interval, or a dash."""
    if not row["n"]:
        return "–"
    value, low, high = (f"{scale * row[key]:.{decimals}f}" for key in ("value", "low", "high"))
    return f"{value} ({low}, {high})"
