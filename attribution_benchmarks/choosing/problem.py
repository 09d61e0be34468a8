"""The inputs that methods are compared on, with their channels last, and the references of a method."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attribution.errors import BadInput, listed
from attribution.inputs import reads_tokens
from attribution.methods.perturbation import positions
from attribution.model.batching import checked_targets
from attribution_benchmarks.choosing.choice import INPUT_VALUES
from attribution_benchmarks.core.controls import EDGE_DETECTOR, RANDOM, UNIFORM, WRONG_CLASS, Control
from attribution_benchmarks.core.examples import Examples
from attribution_benchmarks.core.random_weights import RANDOM_WEIGHTS, has_variables, with_shuffled_weights


@dataclasses.dataclass(frozen=True)
class Problem:
    """A model and its inputs.

    Attributes
    ----------
    model
        Takes the inputs of ``examples``; the given one, or one whose explained input has its channels last, is a tensor
        inside, or is the vector of several inputs.
    examples
        Checked inputs.
    features
        Names of the numbers of several inputs that are explained together; None otherwise.
    """

    model: Any
    examples: Examples
    features: Sequence[str] | None = None

    @property
    def absent(self) -> np.ndarray | None:
        """Values of the absent features of vectors, (1, features); None for other inputs."""
        background = self.examples.truth.get("background")
        if background is None or np.ndim(self.examples.inputs) > 2 or self.has_tokens:
            return None
        return np.array(background[:1], np.float32)

    @property
    def has_tokens(self) -> bool:
        """Return whether positions are whole numbers, whose maps are those of what the network reads of them."""
        inputs = np.asarray(self.examples.inputs)
        return inputs.dtype.kind in "iu" and inputs.ndim == 2


def problem_of(
    model: Any, inputs: Any, targets: Any, masks: Any, names: Sequence[str] | None, background: Any,
    explain_input: str | None,
) -> Problem:  # fmt: skip
    """Return checked inputs; see ``scoring.rounds``."""
    if names and len(set(names)) < len(names):
        raise BadInput("two inputs have one name; their maps are files of these names, so rename one")
    feed = dict(model.feed(inputs if isinstance(inputs, Mapping) else np.asarray(inputs)))
    features = None
    if reads_tokens(model, explain_input):
        (name,) = feed
        _check_background_of_tokens(name, feed[name], background)
    else:
        model = model.at(explain_input, like=feed)
        feed, name = model.feed_of(feed), model.input
        features = _features(model.joined(feed))
    pictures = np.asarray(feed.pop(name))
    _check_rows(name, pictures, feed)
    if targets is not None:
        targets = checked_targets(targets, len(pictures), model.num_classes)
    examples = Examples(
        pictures,
        {} if masks is None else {"masks": np.asarray(masks, bool)},
        targets,
        _truth(background, pictures),
        tuple(names or ()),
        explained=name if feed else "",
        others=feed,
    )
    return Problem(model, examples, features)


def _check_background_of_tokens(name: str, array: np.ndarray, background: Any) -> None:
    if background is None:
        raise BadInput(
            f"input '{name}' has {array.dtype.name} values, such as tokens, which have no mean; say by background= "
            "(--background=) which value replaces a removed one, such as that of padding or of an unknown word"
        )


def _features(joined: Any) -> list[str] | None:
    """Return a name for each number of inputs that are explained together; None for one input."""
    if joined is None:
        return None
    return [
        name if size == 1 else f"{name} {place}"
        for name, size in zip(joined.shapes, joined.sizes, strict=True)
        for place in range(size)
    ]


def _check_rows(name: str, pictures: np.ndarray, others: Mapping[str, Any]) -> None:
    if not len(pictures):
        raise BadInput("inputs are empty; at least one is needed")
    if np.prod(positions(pictures.shape)) < 2:
        raise BadInput(
            f"'{name}' is one number, and methods are compared by parts of what they explain; name several inputs by "
            "comma, or 'all'"
        )
    if single := [other for other, array in others.items() if np.ndim(array) == 0]:
        raise BadInput(f"input {listed(single)} has no rows; load the model with given={{'{single[0]}': value}}")


def _truth(background: Any, pictures: np.ndarray) -> dict[str, Any]:
    if background is None and pictures.ndim == 2:
        background = pictures.mean(axis=0)  # the features of a table have no common mean
    return {} if background is None else {"background": _as_pictures(background, pictures)}


def _as_pictures(background: Any, pictures: np.ndarray) -> np.ndarray:
    """Return a background for each input."""
    values = np.asarray(background)
    if pictures.dtype.kind in "iu" and not np.array_equal(values, values.astype(pictures.dtype)):
        raise BadInput(f"the background {background} is not a whole number, as the inputs are")
    try:
        return np.broadcast_to(values.astype(pictures.dtype), pictures.shape)
    except ValueError:
        shape = pictures.shape[1:]
        raise BadInput(f"the background has the shape {values.shape}; a number or {shape} is needed") from None


def references(loaded: Any, problem: Problem, seed: int) -> tuple[list[Control], list[str]]:
    """Return the references of a method, and notes on those that a model, as it was loaded, does not allow."""
    controls, notes = [UNIFORM, RANDOM], []
    if not problem.has_tokens:  # the number of a word says nothing of it
        controls.append(EDGE_DETECTOR if np.ndim(problem.examples.inputs) == 4 else INPUT_VALUES)
    try:
        if not has_variables(loaded.path):
            raise BadInput("the file has no variables that could be shuffled")
        other = with_shuffled_weights(loaded.path, seed, loaded.score)
        if (list(other.inputs), other.logits) != (list(loaded.inputs), loaded.logits):
            raise BadInput("the model was loaded with options that choose of its file")
        controls.append(RANDOM_WEIGHTS)
    except BadInput as error:
        notes.append(f"Not tested: whether maps depend on the weights of the network; {error}.")
    if loaded.num_classes > 1:
        controls.append(WRONG_CLASS)
    else:
        notes.append("Not tested: whether maps depend on the class; the model has one.")
    return controls, notes
