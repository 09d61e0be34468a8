"""The interface of a model that methods explain: loaded from a file, or behind a server.

``attribution.model.model.Model`` and ``attribution_benchmarks.serving.ServedModel`` implement ``ScoredModel``.
"""

# ruff: noqa: D102  (attribution.model.model.Model documents the methods)
from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from attribution.savedmodel.inputs import Inputs

NodeRules = Mapping[str, str]  # node of the graph -> name of the registered gradient that replaces the true one
Rules = Callable[[Any, str, str], NodeRules]  # from (graph, input node, score node)


class Backward(NamedTuple):
    """Results of a backward pass over R rows.

    Attributes
    ----------
    scores
        ``(R, classes)`` float32.
    input_gradient
        Of the input's shape; ``None`` unless requested.
    values, gradients
        Layer name to array ``(R, ...)`` of the layer's shape.
    """

    scores: np.ndarray
    input_gradient: np.ndarray | None
    values: Mapping[str, np.ndarray]
    gradients: Mapping[str, np.ndarray]


class ScoredModel(Protocol):
    """A model with one score per class; the methods do what ``attribution.model.model.Model`` documents.

    Attributes
    ----------
    score
        ``"logits"`` or ``"probabilities"``: the scores that are explained.
    num_classes
        Number of scores per input.
    counts
        Rows and passes that went through the model.
    path
        Directory or address of the model.
    inputs
        Inputs of the signature by name; each has a ``shape``.
    graph
        The graph, for rules of the backward pass.
    logits
        Name of the tensor of logits.
    fingerprint
        SHA-256 that changes with the model.
    live, live_source
        The live Keras network, once a method needs it, and the function that builds it; see ``third_party``.
    """

    score: str
    num_classes: int
    counts: collections.Counter[str]
    live: Any
    live_source: Any

    @property
    def path(self) -> Any: ...

    @property
    def inputs(self) -> Mapping[str, Any]: ...

    @property
    def graph(self) -> Any: ...

    @property
    def logits(self) -> str: ...

    @property
    def fingerprint(self) -> str: ...

    def explained_input(self, explain_input: str | None = None) -> str: ...
    def input_node(self, explain_input: str | None = None) -> str: ...
    def layer(self, name: str | None = None, explain_input: str | None = None) -> str: ...
    def has_own_pass(self, layer: str) -> bool: ...
    def feed(self, inputs: Inputs) -> dict[str, np.ndarray]: ...
    def batch_size(self, wanted: int) -> int: ...
    def chunks(self, total: int, batch_size: int) -> Iterator[tuple[np.ndarray, int]]: ...
    def scores(self, inputs: Inputs, batch_size: int = 32) -> np.ndarray: ...
    def predict(self, inputs: Inputs, batch_size: int = 32) -> np.ndarray: ...
    def forward(self, feed: Mapping[str, np.ndarray]) -> np.ndarray: ...
    def backward(
        self,
        feed: Mapping[str, np.ndarray],
        targets: np.ndarray,
        explain_input: str,
        layers: Sequence[str] = (),
        of_input: bool = True,
        rules: NodeRules | None = None,
    ) -> Backward: ...
    def multipliers(
        self,
        feed: Mapping[str, np.ndarray],
        baseline: np.ndarray,
        targets: np.ndarray,
        explain_input: str,
        cross: bool = True,
    ) -> tuple[np.ndarray, np.ndarray]: ...
    def relevance(
        self,
        feed: Mapping[str, np.ndarray],
        targets: np.ndarray,
        explain_input: str,
        composite: Any,
        layers: Sequence[str] | None = None,
    ) -> Any: ...
