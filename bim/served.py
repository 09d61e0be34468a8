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
    from attribution import model_paths

    return path if model_paths.fingerprint(path) == model.fingerprint else None


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
) -> list[dict]:
    """Compare predictions and explanations of two models for the same images.

    Parameters
    ----------
    models, names
        Two served or loaded models, and their names.
    kinds
        Labels that each model predicts, "obj" or "scene".
    sets, rows
        ``obj`` and ``scene``, with the same images, and indices of the images to compare.
    methods
        Name -> method; each explains the model's own predictions, with the same ``seed`` for both models.
    batch_size
        Images in one request.
    progress
        Whether to show a progress bar.

    Returns
    -------
    list of dict
        Rows in long form, with the keys of ``core.tables`` and ``model``, a name or both names: ``accuracy`` of each
        model, ``agreement`` of their predictions if their labels are of one kind, and of each method ``correlation``,
        the rank correlation of their maps of an image, and ``mcs``, the first model's attribution of the object minus
        the second's, over the images that both classify correctly. Intervals are over the images.

    Raises
    ------
    BadInput
        If the models take images of different sizes, so that their maps cannot be correlated.
    """
    import tqdm

    side, other = (input_side(model) for model in models)
    if side != other:
        raise BadInput(f"{names[0]} takes images of {side} pixels and {names[1]} of {other}; expected equal sizes")
    predictions, of_methods = [], {name: [] for name in methods}
    for start in tqdm.trange(0, len(rows), batch_size, desc="images", leave=False, disable=not progress):
        batch, images = rows[start : start + batch_size], sets["obj"]
        inputs = network_inputs(images.images(batch), side)
        keys = [images.names[row] for row in batch]
        masks = np.stack([scores.place_mask(images.mask(row), images.boxes[row], side) for row in batch])
        predictions.append(np.stack([model.predict(inputs, batch_size) for model in models]))
        maps = [
            attribution.explain_many(methods, model, inputs, targets, batch_size=batch_size, seed=seed, keys=keys)
            for model, targets in zip(models, predictions[-1], strict=True)
        ]
        for name, found in of_methods.items():
            pair = [scores.two_dimensional(of_model[name])[0] for of_model in maps]
            same = [correlation.spearman(one.ravel(), other.ravel()) for one, other in zip(*pair, strict=True)]
            found.append(np.stack([*(scores.object_attribution(scaled, masks) for scaled in pair), same]))
    predicted, both = np.concatenate(predictions, axis=1), ", ".join(names)
    correct = predicted == np.stack([sets[kind].labels[list(rows)] for kind in kinds])
    table = [_row(name, "prediction", "accuracy", hits, rate=1.0) for name, hits in zip(names, correct, strict=True)]
    if kinds[0] == kinds[1]:  # else equal numbers of classes have no meaning
        table.append(_row(both, "prediction", "agreement", predicted[0] == predicted[1], rate=1.0))
    for name, found in of_methods.items():
        first, second, same = np.concatenate(found, axis=1)
        table.append(_row(both, name, "correlation", same[np.isfinite(same)]))
        table.append(_row(both, name, "mcs", scores.model_contrast_score(first, second, correct.all(axis=0))))
    return table


def _row(model: str, method: str, metric: str, values: np.ndarray, rate: float | None = None) -> dict:
    """Return the mean of some values with its interval."""
    estimate = statistics.mean_interval(np.asarray(values, np.float64), rate=rate, bounds=(-1.0, 1.0))
    reasons = {"correlation": "every map is constant", "mcs": "no image is classified correctly by both"}
    return {
        "model": model, "method": method, "metric": metric, "value": estimate.value, "low": estimate.low,
        "high": estimate.high, "n": len(values), "paper": None, "kind": "method",
        **({} if len(values) else {"reason": reasons.get(metric, "no image")}),
    }  # fmt: skip


def time_requests(
    models, names: Sequence[str], inputs: np.ndarray, requests: int, clock=time.perf_counter
) -> list[dict]:
    """Measure requests for the scores of the same inputs, alternating between two models.

    Each model answers ``requests`` timed requests of ``inputs``, (rows, side, side, 3) float32, after one to warm up.
    Returns rows as ``compare``: percentiles of the latency in milliseconds, including the connection and both
    conversions, and images per second of one connection. ``clock`` returns seconds.
    """
    seconds = np.empty((2, requests + 1))
    for request in range(requests + 1):
        for number, model in enumerate(models):
            start = clock()
            model.scores(inputs, batch_size=len(inputs))
            seconds[number, request] = clock() - start
    table = []
    for name, times in zip(names, seconds[:, 1:], strict=True):
        figures = {f"latency_p{share}_ms": 1000 * np.percentile(times, share) for share in PERCENTILES}
        figures["images_per_second"] = len(inputs) * requests / times.sum()
        common = {"model": name, "method": "prediction", "low": None, "high": None, "n": requests, "paper": None}
        table += [
            {**common, "metric": metric, "value": float(value), "kind": "method"} for metric, value in figures.items()
        ]
    return table


def report(table: Sequence[Mapping]) -> str:
    """Return the rows of ``compare`` and ``time_requests`` as text."""

    def cells(row) -> list[str]:
        interval = "" if row["low"] is None else f"{row['low']:.3f}, {row['high']:.3f}"
        value = row["reason"] if "reason" in row else f"{row['value']:.3f}"
        return [row["model"], row["method"], row["metric"], value, interval, str(row["n"])]

    return tables.text_table(["model", "method", "measured", "mean", "95 %", "of"], list(map(cells, table)))
