"""The two contracts of this package: what a model must answer to be explained, and what a method may ask about inputs.

A model that was loaded from a file (``attribution.model.model.Model``) and one behind a server
(``attribution_benchmarks.serving.ServedModel``) are both ``ScoredModel``. ``attribution.methods.queries.ModelQueries``
are ``ExportableQueries`` of arrays, ``attribution.export.methods.GraphQueries`` of symbolic tensors: a method that
uses nothing else runs on both unchanged and can be exported.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

Inputs = np.ndarray | Mapping[str, np.ndarray]  # (N, ...) of a model with one input, or by the inputs' names
NodeRules = Mapping[str, str]  # node of the graph -> name of the gradient that takes the place of the true one
Rules = Callable[[Any, str, str], NodeRules]  # from (graph, input node, score node)


class BackwardResult(Protocol):
    """What one backward pass gives: see ``attribution.model.model.Backward``."""

    @property
    def scores(self) -> np.ndarray:
        """``(rows, classes)`` float32."""

    @property
    def input_gradient(self) -> np.ndarray | None:
        """Of the input's shape, where it was asked for."""

    @property
    def values(self) -> Mapping[str, np.ndarray]:
        """Layer name -> values."""

    @property
    def gradients(self) -> Mapping[str, np.ndarray]:
        """Layer name -> gradients, of the values' shape."""


class ScoredModel(Protocol):
    """A model with one score per class, whose answers can be explained; see ``attribution.model.model.Model``.

    Attributes
    ----------
    score
        ``"logits"`` or ``"probabilities"``: what is explained.
    inputs
        Name -> what has the input's ``shape``, the batch first.
    num_classes
        Number of scores per input.
    counts
        Rows and passes that went through the model.
    live, live_source
        The live Keras network, where a method needs one and was given it, and what builds it; see ``peers``.
    """

    score: str
    num_classes: int
    counts: collections.Counter
    live: Any
    live_source: Any

    @property
    def path(self) -> Any:
        """Where the model is."""

    @property
    def inputs(self) -> Mapping[str, Any]:
        """The signature's inputs by name; each has a ``shape``."""

    @property
    def graph(self) -> Any:
        """What rules of the backward pass may look at."""

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
        """Return the node of a layer by its name, or of the last convolution's activation."""

    def has_own_pass(self, layer: str) -> bool:
        """Return whether a layer is asked for in passes of its own."""

    def feed(self, inputs: Inputs) -> dict[str, np.ndarray]:
        """Check inputs and return them by name."""

    def batch_size(self, wanted: int) -> int:
        """Return the rows per pass."""

    def chunks(self, total: int, batch_size: int) -> Iterator[tuple[np.ndarray, int]]:
        """Yield row indices for one pass each, and how many of them are no padding."""

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
    ) -> BackwardResult:
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


class ExportableQueries(Protocol):
    """The queries that a method may make of a batch, on arrays or symbolic tensors (``attribution.methods.queries``).

    Attributes
    ----------
    model
        What is explained.
    inputs
        ``(N, ...)`` float32.
    """

    model: ScoredModel
    inputs: Any

    @property
    def scores(self) -> Any:
        """``(N, classes)``."""

    @property
    def targets(self) -> Any:
        """``(N,)`` int32: the classes to explain."""

    @property
    def target_scores(self) -> Any:
        """``(N,)``: the score of each input's target."""

    def input_gradient(self, rules: Rules | None = None) -> Any:
        """Return the gradient of the target score, of the inputs' shape."""

    def layer_gradient(self, layer: str | None = None) -> tuple[Any, Any]:
        """Return a layer's values and the gradient of the target score with respect to them."""

    def relevance(self, composite: Any) -> Any:
        """Return the relevance of the inputs, of their shape."""
