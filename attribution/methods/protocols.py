"""The interface of a model that methods explain: loaded from a file, or behind a server.

``attribution.model.model.Model`` and ``attribution_benchmarks.serving.ServedModel`` implement ``ScoredModel``.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

Inputs = np.ndarray | Mapping[str, np.ndarray]  # (N, ...) of a model with one input, or by the inputs' names
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
    """A model with one score per class; see ``attribution.model.model.Model``.

    Attributes
    ----------
    score
        ``"logits"`` or ``"probabilities"``: the scores that are explained.
    num_classes
        Number of scores per input.
    counts
        Rows and passes that went through the model.
    live, live_source
        The live Keras network, once a method needs it, and the function that builds it; see ``third_party``.
    """

    score: str
    num_classes: int
    counts: collections.Counter[str]
    live: Any
    live_source: Any

    @property
    def path(self) -> Any:
        """Directory or address of the model."""

    @property
    def inputs(self) -> Mapping[str, Any]:
        """The signature's inputs by name; each has a ``shape``."""

    @property
    def graph(self) -> Any:
        """The graph, for rules of the backward pass."""

    @property
    def logits(self) -> str:
        """Name of the tensor of logits."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 that changes with the model."""

    def explained_input(self, explain_input: str | None = None) -> str:
        """Return the name of the input to explain."""

    def input_node(self, explain_input: str | None = None) -> str:
        """Return the graph's node of that input."""

    def layer(self, name: str | None = None, explain_input: str | None = None) -> str:
        """Return the node of a layer by its name, by default of the last layer before pooling and head."""

    def has_own_pass(self, layer: str) -> bool:
        """Return whether a layer cannot share a pass with others."""

    def feed(self, inputs: Inputs) -> dict[str, np.ndarray]:
        """Check inputs and return them by name."""

    def batch_size(self, wanted: int) -> int:
        """Return the rows per pass."""

    def chunks(self, total: int, batch_size: int) -> Iterator[tuple[np.ndarray, int]]:
        """Yield the row indices of each pass, and how many of them are not padding."""

    def scores(self, inputs: Inputs, batch_size: int = 32) -> np.ndarray:
        """Return the scores of all classes, ``(N, num_classes)`` float32."""

    def predict(self, inputs: Inputs, batch_size: int = 32) -> np.ndarray:
        """Return the class of the highest score, ``(N,)`` int64."""

    def forward(self, feed: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the scores of one chunk."""

    def backward(
        self,
        feed: Mapping[str, np.ndarray],
        targets: np.ndarray,
        explain_input: str,
        layers: Sequence[str] = (),
        of_input: bool = True,
        rules: NodeRules | None = None,
    ) -> Backward:
        """Return scores and gradients of one chunk."""

    def multipliers(
        self, feed: Mapping[str, np.ndarray], baseline: np.ndarray, targets: np.ndarray, explain_input: str
    ) -> np.ndarray:
        """Return DeepLIFT's multipliers of one chunk's input."""

    def relevance(
        self,
        feed: Mapping[str, np.ndarray],
        targets: np.ndarray,
        explain_input: str,
        composite: Any,
        layers: Sequence[str] | None = None,
    ) -> Any:
        """Return the relevance of one chunk's input, or of layers by node name."""
