"""BIM's models behind a server: their names there, and which methods a server can answer."""

from __future__ import annotations

import copy
import dataclasses
import os
from collections.abc import Iterable, Mapping

import numpy as np

import attribution
from attribution import Method
from attribution.errors import BadInput
from attribution_benchmarks import serving
from bim.classifiers import checked_classifier


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
    kinds = {
        (repr(model.sheet and dataclasses.replace(model.sheet, source="")), repr(model.signatures)): model
        for model in models
    }
    for model in kinds.values():
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
