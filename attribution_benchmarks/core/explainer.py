"""Makes the maps of a run: methods as asked, methods under controls, and controls that know no network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import attribution
from attribution import Method
from attribution.explain import with_parameters
from attribution.methods.protocols import Inputs
from attribution_benchmarks.core.batch import Batch, MapSource
from attribution_benchmarks.core.controls import Control
from attribution_benchmarks.core.fingerprint import code_fingerprint, method_fingerprint
from attribution_benchmarks.metrics.model_queries import with_targets

_PLAIN = (int, float, str, bool, type(None))


class Explainer:
    """Explains batches with the methods and controls of a run.

    Parameters
    ----------
    model
        What is explained, from a file or a server.
    methods
        Name -> method, or (method, overrides).
    controls
        Those of the run, in the order of the table.
    controlled
        Names of the methods that controls of methods are asked of, or such names by control; all where None.
    seed, batch_size
        Of the run.

    Attributes
    ----------
    sources : tuple of MapSource
        All that is scored: methods, methods under each control, controls.
    lasting : bool
        The keys tell all that maps depend on, so numbers may be kept.
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

        def asked(control: Control) -> list[str]:
            wanted = controlled.get(control.name, ()) if isinstance(controlled, Mapping) else controlled
            return [name for name in self.methods if wanted is None or name in wanted]

        self.sources = (
            *(MapSource(name) for name in self.methods),
            *(MapSource(name, control.name) for control in controls if control.disturb for name in asked(control)),
            *(MapSource(control=control.name) for control in controls if control.maps),
        )

    def scores(self, inputs: Inputs) -> np.ndarray:
        """Return the model's scores of inputs, (N, classes)."""
        return self.model.scores(inputs, self.batch_size)

    def with_targets(self, batch: Batch) -> Batch:
        """Return a batch with its targets set, by default the classes that the model of the run predicts."""
        return with_targets(batch, self.scores)

    def explain_function(self, source: MapSource) -> ExplainFunction:
        """Return what explains other inputs, targets or networks by a source's method."""
        return ExplainFunction(self, source.method)

    def key(self, source: MapSource) -> dict:
        """Return what a source's maps depend on besides model and inputs: method, parameters, control, code, seed."""
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
        """Yield the maps of some sources, control by control, so that no more than one control's are in memory.

        Controls of methods need the batch's targets, see ``with_targets``.
        """
        for control in dict.fromkeys(source.control for source in sources):
            asked = [source for source in sources if source.control == control]
            if control and self.controls[control].maps:
                yield asked[0], self.controls[control].maps(batch, self.seed)
                continue
            model, disturbed = self.model, batch
            if control:
                model, disturbed = self.controls[control].disturb(self.model, batch, self.seed)
            found = self._explained(model, [source.method for source in asked], disturbed)
            for source in asked:
                yield source, found.pop(source.method)

    def _explained(self, model, names: Sequence[str], batch: Batch) -> dict[str, np.ndarray]:
        return attribution.explain_many(
            {name: self.methods[name] for name in names}, model, batch.inputs, batch.targets,
            explain_input=batch.explained, batch_size=self.batch_size, seed=self.seed, keys=batch.seeds, resize=True,
        )  # fmt: skip


class ExplainFunction:
    """Explains by one method, for metrics that compare maps with others; equal to another of the same method."""

    def __init__(self, explainer: Explainer, method: str):
        self.explainer, self.method, self.model = explainer, method, explainer.model

    def scores(self, inputs: Inputs) -> np.ndarray:
        """Return the model's scores of inputs, (N, classes)."""
        return self.explainer.scores(inputs)

    def __call__(self, batch: Batch, model: Any = None) -> np.ndarray:
        """Return maps of a batch, (N, positions...) or with channels; of another model where one is given.

        A batch without targets is explained for the classes that the model of the run predicts, on either model.
        """
        batch = self.explainer.with_targets(batch)
        return self.explainer._explained(model or self.model, [self.method], batch)[self.method]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExplainFunction) and (other.explainer, other.method) == (self.explainer, self.method)

    def __hash__(self) -> int:
        return hash((id(self.explainer), self.method))


def _definition(function: Callable) -> Callable | str:
    """Return a control's function without what it holds, such as a whole data set: ``depends_on`` tells that."""
    if not getattr(function, "__closure__", None):
        return function
    return f"{function.__module__}:{function.__qualname__.partition('.')[0]}"
