"""Inputs that are explained together with the truth about them, and the sources of their maps."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

MEMBER = "#"  # before the number of one of several controls of a kind, such as one random network of five


@dataclasses.dataclass(frozen=True)
class MapSource:
    """The source of a map: a method, a method under a control condition, or a model-independent control."""

    method: str = ""  # name of the method; empty for a model-independent control
    control: str = ""  # name of the control; empty for a method alone

    @property
    def name(self) -> str:
        """Return "gradient", "gradient/wrong_class" or "uniform"."""
        return "/".join(part for part in (self.method, self.control) if part)

    @property
    def kind(self) -> MapSource:
        """Return the source of all controls of its kind: "gradient/random_weights" of "gradient/random_weights#2"."""
        return MapSource(self.method, self.control.partition(MEMBER)[0])


def by_kind(sources: Iterable[MapSource]) -> dict[MapSource, list[MapSource]]:
    """Group sources by their kind: those of one method's random networks together, any other alone."""
    found: dict[MapSource, list[MapSource]] = {}
    for source in sources:
        found.setdefault(source.kind, []).append(source)
    return found


@dataclasses.dataclass(frozen=True)
class Batch:
    """N inputs and the truth about them.

    Attributes
    ----------
    inputs
        (N, ...) array, or a mapping from the model's input names to such arrays.
    seeds
        N names; the random numbers of an input depend on its name and the run's seed.
    targets
        (N,) int, the classes to explain; None for the predicted ones, which ``Explainer.with_targets`` fills in before
        maps are made.
    explained
        Name of the input that is explained, where there are several; empty for a model with one.
    masks
        Name of a ground truth -> (N, positions...) bool, where a map should be.
    truth
        Anything else that metrics and controls need: name -> N values.
    """

    inputs: np.ndarray | Mapping[str, np.ndarray]
    seeds: Sequence[Any]
    targets: np.ndarray | None = None
    explained: str = ""
    masks: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    truth: Mapping[str, Sequence[Any] | np.ndarray] = dataclasses.field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.seeds)

    @property
    def pictures(self) -> np.ndarray:
        """The explained input, (N, positions..., channels)."""
        return self.inputs[self.explained] if isinstance(self.inputs, Mapping) else self.inputs

    def with_pictures(self, pictures: np.ndarray) -> np.ndarray | dict[str, np.ndarray]:
        """Return the inputs with another explained input, in its type; whole numbers are rounded, and clipped to it."""
        dtype = self.pictures.dtype
        if np.issubdtype(dtype, np.integer) and not np.issubdtype(pictures.dtype, np.integer):
            limits = np.iinfo(dtype)
            pictures = np.clip(np.rint(pictures), limits.min, limits.max)
        pictures = pictures.astype(dtype, copy=False)
        return {**self.inputs, self.explained: pictures} if isinstance(self.inputs, Mapping) else pictures

    def take(self, positions: Sequence[int] | np.ndarray) -> Batch:
        """Return some of the inputs."""
        places = np.asarray(positions, np.int64)

        def taken(values: Any) -> Any:
            return values[places] if isinstance(values, np.ndarray) else [values[place] for place in places]

        return dataclasses.replace(
            self,
            inputs={name: array[places] for name, array in self.inputs.items()}
            if isinstance(self.inputs, Mapping)
            else self.inputs[places],
            seeds=taken(self.seeds),
            targets=None if self.targets is None else self.targets[places],
            masks={name: mask[places] for name, mask in self.masks.items()},
            truth={name: taken(values) for name, values in self.truth.items()},
        )


@dataclasses.dataclass(frozen=True)
class LazyBatch:
    """A batch before it is read; it is not read if all its scores are stored."""

    # (N,) names of the inputs in the store; they change with everything that an input's scores depend on.
    names: Sequence[str]
    # (N,) names of the inputs' saved maps; folders and file name without suffix, such as "obj-obj/dog-bedroom-0900".
    files: Sequence[str]
    load: Callable[[], Batch]  # reads the batch


def memoize_last(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that remembers its last result, for identical arguments.

    All maps of a batch are measured one after the other, and each map by one metric after the other. What does not
    depend on the map, or is part of several metrics, is computed once.
    """
    last: list[tuple[tuple[Any, ...], Any]] = []

    @functools.wraps(function)
    def remembered(*arguments: Any) -> Any:
        # Bound methods are created each time they are named, so functions are compared by value, all else by identity.
        if not last or not all(a is b or (callable(a) and a == b) for a, b in zip(last[0][0], arguments, strict=True)):
            last[:] = [(arguments, function(*arguments))]
        return last[0][1]

    return remembered


@dataclasses.dataclass(frozen=True)
class ModelScores:
    """A model's scores as metrics query them, ``scores(inputs)`` (N, classes), and what their probabilities are."""

    model: Any
    batch_size: int = 32

    def __call__(self, inputs: Any) -> np.ndarray:
        """Return the scores of inputs, (N, classes)."""
        return np.asarray(self.model.scores(inputs, self.batch_size))

    def probabilities_of(self, scores: np.ndarray) -> np.ndarray:
        """Return scores as probabilities; raise ``BadInput`` if the model's are not known to have any."""
        return np.asarray(self.model.probabilities_of(scores))


@memoize_last
def originals(batch: Batch, scores: Callable[[Any], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores of a batch's inputs, (N, classes), and the explained class of each, (N,) int64."""
    found = np.asarray(scores(batch.inputs), np.float64)
    return found, found.argmax(axis=1) if batch.targets is None else np.asarray(batch.targets, np.int64)


def with_targets(batch: Batch, scores: Callable[[Any], np.ndarray]) -> Batch:
    """Return a batch with its targets, or else the predicted classes, as targets.

    Maps of one input are compared across networks, noise and controls. All must explain the same class, so it is fixed
    before the first map is computed; otherwise a random network would explain the class that it predicts.
    """
    return batch if batch.targets is not None else dataclasses.replace(batch, targets=originals(batch, scores)[1])
