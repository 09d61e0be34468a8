"""A served model with the interface of a loaded one.

Every served model has scores. Gradients, gradients of a layer and modified gradients come from the signatures that
``attribution.export`` adds. Methods built on them (SmoothGrad, Integrated Gradients, Grad-CAM) are computed locally, by
the same code and with the same random numbers as for a local model.

An exported model also has a signature that returns a description in JSON: its methods with their parameters, the
explained score, the layer of class activation maps, and the fingerprint of the original SavedModel.
"""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import inspect
import json
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from attribution import METHODS, batching, resolve_method
from attribution.batching import Backward, Expected, Inputs, NodeRules, checked_feed
from attribution.errors import BadInput, listed
from attribution.export import plain
from attribution.export.signatures import EXPLAIN, LAYER, SCORES, SHEET, SHEET_VERSION, TARGETS
from attribution.methods.registry import Method
from attribution_benchmarks.serving._client import Client
from attribution_benchmarks.serving._protocols import ServerError, parse_model_name

# Exported methods that are the gradient with another rule for ReLUs (``attribution.methods.modified_relu``).
_RULES = {"AttributionGuidedRelu": "guided_backprop", "AttributionDeconvnetRelu": "deconvnet"}
_DEFAULT = ("serving_default", "serve")


@dataclasses.dataclass(frozen=True)
class _Sheet:
    """Description of an exported model."""

    source: str  # fingerprint of the SavedModel that was exported
    score: str  # the explained score, "logits" or "probabilities"
    wrt: str  # name of the explained input
    layer: str | None  # node of the layer of class activation maps; None if none were exported
    layer_is_default: bool  # whether that layer is the default of the methods
    methods: Mapping[str, Mapping]  # label -> name and parameters of a method, as in JSON


def _parse_sheet(text: bytes) -> _Sheet:
    """Return the description from its JSON form, whose unknown keys are ignored; ``ServerError`` if it is invalid."""
    try:
        plain = json.loads(text)
        if plain["sheet"] != SHEET_VERSION:
            raise ValueError(f"it has version {plain['sheet']} instead of {SHEET_VERSION}; export the model again")
        sheet = _Sheet(**{field.name: plain[field.name] for field in dataclasses.fields(_Sheet)})
        known = [(one["method"], one["parameters"].items()) for one in sheet.methods.values()]
        if not all(isinstance(one, str) for one in (sheet.source, sheet.wrt, *(method for method, _ in known))):
            raise TypeError("a name is not text")
        return sheet
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ServerError("INVALID_REPLY", f"the description of the explanations cannot be read: {error}") from error


class _UnseenGraph:
    """Graph of a served model for rules of the backward pass: one ReLU that represents all."""

    nodes = types.MappingProxyType({"relu": types.SimpleNamespace(op="Relu")})

    def between(self, source, target):
        """Return the nodes between two nodes."""
        return list(self.nodes)


class ServedModel:
    """A model behind a server, with the served part of the interface of ``attribution.model.model.Model``.

    Parameters
    ----------
    client
        Client of the server.
    name
        ``name`` or ``name@version``; by default the latest version.
    score
        ``"logits"`` or ``"probabilities"``: the score to explain. An exported model must explain it; for other models
        it is the output of the signature.
    signature
        Signature of the scores, for a model that was not exported with explanations.

    Raises
    ------
    BadInput
        If the model has no signature of scores, or explains another score; a ``ServerError`` if the server refuses or
        is unavailable.
    """

    def __init__(self, client: Client, name: str, *, score: str = "logits", signature: str | None = None):
        self.client = client
        requested = parse_model_name(name)
        self.score = score
        self.path = f"{client.address}/{name}"
        self.version, self.signatures = client.signatures(requested)
        # A newer version loaded during a run must not be used by it.
        self.name = dataclasses.replace(requested, version=self.version)
        self.sheet = self._read_sheet()
        if self.sheet is not None and self.sheet.score != score and (self.sheet.score, score) != ("output", "logits"):
            raise BadInput(f"{self.path} explains {self.sheet.score}, not {score}; export it with --score={score}")
        self._signature = SCORES if self.sheet is not None else self._score_signature(signature)
        specs = self.signatures[self._signature]
        self.inputs = dict(specs.inputs)
        if fixed := [name for name, spec in self.inputs.items() if spec.shape and spec.shape[0] is not None]:
            raise BadInput(f"{self.path} takes a fixed number of rows of '{fixed[0]}'; export it with any number")
        self._output = self._score_output(specs)
        self.options = {"score": score, "signature": self._signature}  # as of ``attribution.model.model.Model``
        self.counts = collections.Counter()
        self.num_classes = self._number_of_classes(specs.outputs[self._output])
        self.graph, self.logits = _UnseenGraph(), "scores"

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the original SavedModel if it is known, or a hash of the scores of fixed inputs.

        Scores are rounded before hashing, so that the hash does not depend on the machine.
        """
        if self.sheet is not None:
            return self.sheet.source
        scores = self.scores(self._probe(), batch_size=4)
        digits = 3 - int(np.floor(np.log10(max(np.abs(scores).max(), np.finfo(np.float32).tiny))))
        rounded = np.round(scores.astype(np.float64), digits) + 0.0  # no negative zeros
        return hashlib.sha256(rounded.astype("<f8").tobytes()).hexdigest()

    def exported(self, method: str, parameters: Mapping) -> str | None:
        """Return the label of a method exported with these parameters, or ``None``."""
        if self.sheet is None:
            return None
        wanted = self._comparable(json.loads(json.dumps(plain(parameters), default=repr)))
        for label, known in self.sheet.methods.items():
            if known["method"] == method and self._comparable(known["parameters"]) == wanted:
                return label
        return None

    def maps(self, label: str, inputs: Inputs, targets: Any) -> np.ndarray:
        """Return the maps of the exported method of a label, float32 as from ``attribution.explain``.

        ``inputs`` have N rows, see ``feed``; ``targets`` are (N,) int, -1 for the predicted class.
        """
        arrays = self._with_targets(self.feed(inputs), targets)
        self.counts.update(explained=len(targets), requests=1)
        return self.client.predict(self.name, EXPLAIN + label, arrays, ["map"])["map"]

    # The interface of attribution.model.model.Model:

    def explained_input(self, explain_input: str | None = None) -> str:
        """Return the input to explain: the given one, the exported one, or the only floating-point one."""
        if self.sheet is not None:
            if explain_input not in (None, self.sheet.wrt):
                raise BadInput(f"{self.path} explains its input '{self.sheet.wrt}', not '{explain_input}'")
            return self.sheet.wrt
        floats = [name for name, spec in self.inputs.items() if spec.is_float]
        if explain_input is None and len(floats) == 1:
            return floats[0]
        if explain_input not in floats:
            raise BadInput(
                f"{self.path} has the inputs {listed(self.inputs)}; name a floating-point one with explain_input="
            )
        return explain_input

    def feed(self, inputs: Inputs) -> dict[str, np.ndarray]:
        """Check inputs against the signature and return them by name, in the signature's types."""
        expected = {name: Expected(spec.dtype, spec.allows_rows, spec.shown()) for name, spec in self.inputs.items()}
        return checked_feed(inputs, expected, self.path)

    def batch_size(self, wanted: int | None = None) -> int:
        """Return the rows per request, the given number or 32."""
        if wanted is not None and int(wanted) < 1:
            raise BadInput(f"batch_size must be at least 1, not {wanted}")
        return int(wanted or 32)

    def chunks(self, total: int, batch_size: int | None) -> Iterator[tuple[np.ndarray, int]]:
        """Yield row indices for one request each (``attribution.batching.chunks``)."""
        return batching.chunks(total, self.batch_size(batch_size))

    def scores(self, inputs: Inputs, batch_size: int | None = None) -> np.ndarray:
        """Return the scores of all classes, ``(N, num_classes)`` float32."""
        feed = self.feed(inputs)
        total = len(next(iter(feed.values())))
        scores = np.empty((total, self.num_classes), np.float32)
        for rows, real in self.chunks(total, batch_size):
            scores[rows[:real]] = self.forward({name: array[rows] for name, array in feed.items()})[:real]
        return scores

    def probabilities_of(self, scores: np.ndarray) -> np.ndarray:
        """Return scores as probabilities; raise ``BadInput`` unless that is what the model explains."""
        if self.score != "probabilities":
            raise BadInput(f"probabilities are needed; export {self.path} with --score=probabilities")
        return scores

    def predict(self, inputs: Inputs, batch_size: int | None = None) -> np.ndarray:
        """Return the class of the highest score, ``(N,)`` int64."""
        return self.scores(inputs, batch_size).argmax(axis=1)

    def forward(self, feed: Mapping[str, np.ndarray]) -> np.ndarray:
        """Request the scores of one chunk, ``(rows, num_classes)``."""
        scores = self.client.predict(self.name, self._signature, feed, [self._output])[self._output]
        scores = np.asarray(scores, np.float32).reshape(len(scores), -1)
        if scores.shape[1] != self.num_classes:
            raise ServerError(
                "INVALID_REPLY", f"{scores.shape[1]} scores per input instead of {self.num_classes}", self.path
            )
        self.counts.update(forward=len(scores), forward_passes=1)
        return scores

    def backward(
        self,
        feed: Mapping[str, np.ndarray],
        targets: np.ndarray,
        explain_input: str,
        layers: Sequence[str] = (),
        of_input: bool = True,
        rules: NodeRules | None = None,
    ) -> Backward:
        """Request gradients of one chunk; see ``attribution.model.model.Model.backward``.

        In ``scores`` of the result, only the target's score is known; those of other classes are -inf.
        """
        label = self._gradient_under(dict(rules or {}))
        arrays = self._with_targets(feed, targets)
        answers = {}
        if of_input or not layers:
            answers[""] = self.client.predict(self.name, EXPLAIN + label, arrays, ["map", "target", "score"])
        for layer in layers:
            answers[layer] = self.client.predict(self.name, LAYER, arrays, ["values", "gradients", "target", "score"])
        self.counts.update(backward=len(targets), backward_passes=len(answers))
        first = next(iter(answers.values()))
        scores = np.full((len(targets), self.num_classes), -np.inf, np.float32)
        if not np.isin(first["target"], np.arange(self.num_classes)).all():
            raise ServerError("INVALID_REPLY", f"a target that is none of {self.num_classes} classes", self.path)
        scores[np.arange(len(targets)), first["target"]] = first["score"]
        return Backward(
            scores=scores,
            input_gradient=answers[""]["map"] if of_input else None,
            values={layer: answers[layer]["values"] for layer in layers},
            gradients={layer: answers[layer]["gradients"] for layer in layers},
        )

    def multipliers(
        self,
        feed: Mapping[str, np.ndarray],
        baseline: np.ndarray,
        targets: np.ndarray,
        explain_input: str,
        cross: bool = True,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Raise BadInput, as ``relevance``."""
        return self.relevance(feed, targets, explain_input, None)

    def relevance(
        self,
        feed: Mapping[str, np.ndarray],
        targets: np.ndarray,
        explain_input: str,
        composite: Any,
        layers: Sequence[str] | None = None,
    ) -> Any:
        """Raise BadInput: relevance is only served as complete maps; see ``as_served``."""
        raise BadInput(
            f"{self.path} does not have this method with these parameters; add it by python -m attribution.export "
            "--methods=..., or use the SavedModel"
        )

    def layer(self, name: str | None = None, explain_input: str | None = None) -> str:
        """Return the node of a layer by its name, or of the default layer of class activation maps.

        Raises ``BadInput`` if no such layer was exported.
        """
        if self.sheet is None or self.sheet.layer is None:
            raise BadInput(
                f"{self.path} does not have gradients of a layer; add them by python -m attribution.export "
                "--methods=grad_cam,..."
            )
        if self._is_layer(name):
            return self.sheet.layer
        wanted = "the default layer" if name is None else f"layer '{name}'"
        raise BadInput(f"{self.path} has gradients of '{self.sheet.layer}', not of {wanted}; export with --layer=")

    def has_own_pass(self, layer: str) -> bool:
        """Return whether a layer needs separate passes: never, since each is a separate request anyway."""
        return False

    def input_node(self, explain_input: str | None = None) -> str:
        """Return the name of the explained input; see ``_UnseenGraph``."""
        return self.explained_input(explain_input)

    def __repr__(self):
        return f"ServedModel({self.path!r}, score={self.score!r}, version={self.version})"

    def _gradient_under(self, rules: Mapping[str, str]) -> str:
        """Return the label of the exported gradient, the plain one or that of rules for ReLUs."""
        method = _RULES.get(rules["relu"]) if rules else "gradient"
        if method is None:
            raise BadInput(f"{self.path} cannot change its backward pass by '{rules['relu']}'; use the SavedModel")
        label = self.exported(method, {})
        if label is None:
            have = listed(self.sheet.methods) if self.sheet else "none"
            raise BadInput(
                f"{self.path} does not have '{method}', which this method needs; it has {have}. Add it by "
                f"python -m attribution.export --methods={method},..."
            )
        return label

    def _with_targets(self, feed, targets):
        return {**feed, TARGETS: np.asarray(targets, np.int32)}

    def _is_layer(self, name: str | None) -> bool:
        """Return whether a name of a layer means the exported one; see ``attribution.graph.layers``."""
        layer = self.sheet.layer
        if layer is None or name is None:
            return layer is not None and self.sheet.layer_is_default
        return f"/{name.split(':')[0]}/" in f"/{layer}/"

    def _comparable(self, parameters: Mapping) -> dict:
        """Return parameters in which the exported layer is named by its node."""
        named = "layer" in parameters and self._is_layer(parameters["layer"])
        return {**parameters, "layer": self.sheet.layer} if named else dict(parameters)

    def _read_sheet(self) -> _Sheet | None:
        if SHEET not in self.signatures:
            return None
        rows = self.client.predict(self.name, SHEET, {"rows": np.zeros(1, np.int32)}, ["sheet"])["sheet"]
        try:
            return _parse_sheet(rows[0])
        except ServerError as error:
            raise error.about(self.path) from error

    def _score_signature(self, wanted: str | None) -> str:
        """Return the signature of the scores: the given one, a default one, or the only one."""
        usual = wanted or next((name for name in _DEFAULT if name in self.signatures), None)
        if usual is None and len(self.signatures) == 1:
            usual = next(iter(self.signatures))
        if usual not in self.signatures:
            missing = f"has no signature '{usual}'" if usual else "has no default signature"
            raise BadInput(f"{self.path} {missing}; its signatures are {listed(self.signatures)}")
        return usual

    def _score_output(self, specs) -> str:
        if len(specs.outputs) != 1:
            raise BadInput(f"{self.path} has the outputs {listed(specs.outputs)}; expected only scores")
        return next(iter(specs.outputs))

    def _number_of_classes(self, spec) -> int:
        shape = spec.shape or (None,) * 3
        if len(shape) > 2 or shape[1:] == (None,):
            raise BadInput(f"{self.path} returns {spec.shown()}; expected scores of shape (batch, classes)")
        return shape[1] if len(shape) == 2 else 1

    def _probe(self) -> dict[str, np.ndarray]:
        """Return a few fixed inputs: standard normal numbers, or zeros for integers."""
        generator, feed = np.random.default_rng(0), {}
        for name, spec in self.inputs.items():
            shape = (4, *(size or 8 for size in (spec.shape or (None,))[1:]))
            feed[name] = (
                generator.standard_normal(shape).astype(spec.dtype) if spec.is_float else np.zeros(shape, spec.dtype)
            )
        return feed


def as_served(method: str | Method) -> Method:
    """Return a method, given by itself or its name, that requests complete maps if a served model has them.

    That is for the same parameters; otherwise, and for local models, the method itself requests scores and gradients.
    The maps are the same; one request replaces many.
    """
    if isinstance(method, str):
        method = resolve_method(method)
    # A method of the same name can differ: BIM's Grad-CAM is not the registry's.
    known = METHODS.get(method.name)
    if known is None or known.function is not method.function:
        return method

    def served(passes, **parameters):
        exported = getattr(passes.model, "exported", None)
        label = exported(method.name, parameters) if exported else None
        if label is None or len(passes.model.inputs) > 1:
            return method.function(passes, **parameters)
        return passes.model.maps(label, passes.inputs, passes.targets)

    function: Any = served
    function.__signature__ = inspect.signature(method.function)  # it has the method's defaults
    function.__doc__ = method.function.__doc__
    return dataclasses.replace(method, function=function)
