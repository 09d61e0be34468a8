"""Inputs that are explained together, and what is known of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

MEMBER = "#"  # before the number of one of several controls of a kind, such as one random network of five


@dataclasses.dataclass(frozen=True)
class MapSource:
    """What a map was made by: a method as asked, a method under a control, or a control that knows no network.

    Attributes
    ----------
    method
        Name of the method; empty for a control that knows no network.
    control
        Name of the control; empty for a method as asked.
    """

    method: str = ""
    control: str = ""

    @property
    def name(self) -> str:
        """Return "gradient", "gradient/wrong_class" or "uniform"."""
        return "/".join(part for part in (self.method, self.control) if part)

    @property
    def kind(self) -> MapSource:
        """Return the source of all controls of its kind: "gradient/random_weights" of "gradient/random_weights#2"."""
        return MapSource(self.method, self.control.partition(MEMBER)[0])


def by_kind(sources: Iterable[MapSource]) -> dict[MapSource, list[MapSource]]:
    """Return sources by their kind: those of one method's random networks together, any other alone."""
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
        N names that what is drawn for an input depends on, besides the run's seed.
    targets
        (N,) int, the classes to explain; None for the predicted ones, which a run with a model fills in before it makes
        maps, so that metrics and controls find them.
    explained
        Name of the input that is explained, where there are several.
    masks
        Name of a ground truth -> (N, positions...) bool, where a map should be.
    truth
        Anything else that metrics and controls need: name -> N values.
    """

    inputs: np.ndarray | Mapping[str, np.ndarray]
    seeds: Sequence
    targets: np.ndarray | None = None
    explained: str | None = None
    masks: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    truth: Mapping[str, Sequence | np.ndarray] = dataclasses.field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.seeds)

    @property
    def pictures(self) -> np.ndarray:
        """What is explained, (N, positions..., channels)."""
        return self.inputs[self.explained] if isinstance(self.inputs, Mapping) else self.inputs

    def with_pictures(self, pictures: np.ndarray) -> np.ndarray | dict[str, np.ndarray]:
        """Return the inputs with others in place of what is explained."""
        return {**self.inputs, self.explained: pictures} if isinstance(self.inputs, Mapping) else pictures

    def take(self, positions: Sequence[int] | np.ndarray) -> Batch:
        """Return some of the inputs."""
        places = np.asarray(positions, np.int64)

        def taken(values):
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
    """A batch before it is read: a run that finds all its scores never reads it.

    Attributes
    ----------
    names
        (N,) names of the inputs in the store; they change with everything that an input's scores depend on.
    files
        (N,) names of the inputs' saved maps; folders and file name without suffix, such as "obj-obj/dog-bedroom-0900".
    load
        Reads the batch.
    """

    names: Sequence[str]
    files: Sequence[str]
    load: Callable[[], Batch]
