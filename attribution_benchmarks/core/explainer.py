"""Make the maps of a run: of methods, of methods under controls, and of model-independent controls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import attribution
from attribution import Method
from attribution.explain import with_parameters
from attribution.methods.protocols import Inputs
from attribution_benchmarks.core.batch import Batch, MapSource, with_targets
from attribution_benchmarks.core.controls import Control
from attribution_benchmarks.core.fingerprint import code_fingerprint, method_fingerprint

_PLAIN = (int, float, str, bool, type(None))


class Explainer:
    """Makes maps of batches by methods and controls.

    Parameters
    ----------
    model
        What is explained, from a file or a server.
    methods
        Name -> method, or (method, overrides).
    controls
        Those of the run, in the order of the table.
    controlled
        Names of the methods to run under controls, or such names by control; all where None.
    seed, batch_size
        Of the run.

    Attributes
    ----------
    sources : tuple of MapSource
        Methods, methods under each control, controls.
    lasting : bool
        ``key`` has everything that maps depend on, so numbers may be stored.
    """

    lasting = True

    def __init__(
        self,
        model,
        methods: Mapping[str, Method | tuple[Method, Mapping]],
        controls: Sequence[Control] = (),
        controlled: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
        seed: int = 0,
        batch_size: int = 32,
    ):
        self.model, self.seed, self.batch_size = model, seed, batch_size
        self.methods = with_parameters(methods)
        self.controls = {control.name: control for control in controls}

        def under(control: Control) -> list[str]:
            wanted = controlled.get(control.name, ()) if isinstance(controlled, Mapping) else controlled
            return [name for name in self.methods if wanted is None or name in wanted]

        self.sources = (
            *(MapSource(name) for name in self.methods),
            *(MapSource(name, control.name) for control in controls if control.disturb for name in under(control)),
            *(MapSource(control=control.name) for control in controls if control.maps),
        )

    def scores(self, inputs: Inputs) -> np.ndarray:
        """Return the model's scores of inputs, (N, classes)."""
        return self.model.scores(inputs, self.batch_size)

    def with_targets(self, batch: Batch) -> Batch:
        """Return a batch with its targets, by default the classes that the model predicts."""
        return with_targets(batch, self.scores)

    def explain_function(self, source: MapSource) -> _ExplainFunction:
        """Return a function that explains other inputs, targets or networks by the method of a source."""
        return _ExplainFunction(self, source.method)

    def key(self, source: MapSource) -> dict:
        """Return what the maps of a source depend on besides model and inputs: method, parameters, control, seed."""
        key: dict = {"method": source.name, "seed": self.seed}
        if source.method:
            parameters = self.methods[source.method][1]
            key["code"] = method_fingerprint(self.methods[source.method][0])
            key["parameters"] = {
                name: value if isinstance(value, _PLAIN) else repr(value) for name, value in parameters.items()
            }
        if source.control:
            control = self.controls[source.control]
            key["control"] = [control.depends_on, code_fingerprint(_definition(control.maps or control.disturb))]
        return key

    def maps(self, sources: Sequence[MapSource], batch: Batch) -> Iterator[tuple[MapSource, np.ndarray]]:
        """Yield the maps of some sources, control by control, so that memory holds those of one control.

        Controls of methods need the batch's targets, see ``with_targets``.
        """
        for control in dict.fromkeys(source.control for source in sources):
            alike = [source for source in sources if source.control == control]
            if control and self.controls[control].maps:
                yield alike[0], self.controls[control].maps(batch, self.seed)
                continue
            model, disturbed = self.model, batch
            if control:
                model, disturbed = self.controls[control].disturb(self.model, batch, self.seed)
            found = self._explained(model, [source.method for source in alike], disturbed)
            for source in alike:
                yield source, found.pop(source.method)

    def _explained(self, model, names: Sequence[str], batch: Batch) -> dict[str, np.ndarray]:
        return attribution.explain_many(
            {name: self.methods[name] for name in names}, model, batch.inputs, batch.targets,
            explain_input=batch.explained, batch_size=self.batch_size, seed=self.seed, keys=batch.seeds, resize=True,
        )  # fmt: skip


class _ExplainFunction:
    """Explains by one method, for metrics that compare maps; equal to another of the same explainer and method."""

    def __init__(self, explainer: Explainer, method: str):
        self.explainer, self.method, self.model = explainer, method, explainer.model

    def scores(self, inputs: Inputs) -> np.ndarray:
        """Return the model's scores of inputs, (N, classes)."""
        return self.explainer.scores(inputs)

    def __call__(self, batch: Batch, model: Any = None) -> np.ndarray:
        """Return maps of a batch, (N, positions...) or with channels, of the run's model or of another.

        A batch without targets is explained for the classes that the run's model predicts, on either model.
        """
        batch = self.explainer.with_targets(batch)
        return self.explainer._explained(model or self.model, [self.method], batch)[self.method]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ExplainFunction) and (other.explainer, other.method) == (self.explainer, self.method)

    def __hash__(self) -> int:
        return hash((id(self.explainer), self.method))


def _definition(function: Callable) -> Callable | str:
    """Return a control's function without its closure, such as a data set, which ``depends_on`` describes."""
    if not getattr(function, "__closure__", None):
        return function
    return f"{function.__module__}:{function.__qualname__.partition('.')[0]}"
