"""An attribution method: a function with a name, default parameters and a method card."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import inspect
import numbers
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from attribution.errors import BadInput, listed
from attribution.methods.completeness import SumLaw
from attribution.methods.queries import RequiredQueries

DETERMINISTIC = "None: same input, same map."
SEED_PER_INPUT = "from the run's seed and each input's key"
ARRAYS = ("baseline", "references", "low", "high")  # parameters that may be arrays


@dataclasses.dataclass(frozen=True)
class MethodCard:
    """Facts about a method for its users, after the dimensions of Sokol and Flach (2020).

    Attributes
    ----------
    citation
        Publication.
    requirements
        Properties that the model must have.
    cost
        What an input takes; a gradient is a forward and a backward pass, about 2.6 forward passes.
    randomness
        Random quantities and their seed.
    weaknesses
        Known limits.
    """

    citation: str
    requirements: str
    cost: str
    randomness: str
    weaknesses: str


@dataclasses.dataclass(frozen=True)
class Method:
    """An attribution method.

    Attributes
    ----------
    name
        As typed on a command line.
    title
        As printed in tables.
    function
        ``function(queries, **parameters)``; see ``attribution.methods.queries``.
    card
        Method card; ``None`` for a custom method.
    library
        The library that implements it; ``None`` for this project. See ``attribution.methods.third_party``.
    query
        ``"input gradient"``, ``"layer gradient"`` or ``"squared gradients"``, if the method uses that query, whose
        passes it can share with other methods.
    is_random
        Whether the seed changes the maps.
    drops_channels
        Whether its maps have no channel axis.
    family
        The signal that it uses, shared by its variants: "class activation" for all that weight a layer's channels.
        Methods of one family rank alike, so that tests of agreement count a family once. ``None`` for a custom
        method, which counts as a family.
    parents
        Names of the methods that a custom method varies; the report compares it with them.
    sum_law
        Required sum of a map; ``None`` if the method has no such law.
    needs_positions
        Whether it explains signals and images only: one input with positions, not several inputs together.
    """

    name: str
    title: str
    function: Callable[..., Any]
    card: MethodCard | None = None
    library: str | None = None
    query: str | None = None
    is_random: bool = False
    drops_channels: bool = False
    family: str | None = None
    parents: tuple[str, ...] = ()
    sum_law: SumLaw | None = None
    needs_positions: bool = False

    @property
    def defaults(self) -> Mapping[str, Any]:
        """Parameters and their default values, read from the function's signature."""
        parameters = list(inspect.signature(self.function).parameters.values())[1:]
        named = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return MappingProxyType({one.name: one.default for one in parameters if one.kind in named})

    def library_version(self) -> str | None:
        """Return the installed version of the method's library; ``None`` for this project's methods.

        Raises
        ------
        BadInput
            If that library is not installed.
        """
        try:
            return importlib.metadata.version(self.library) if self.library else None
        except importlib.metadata.PackageNotFoundError as error:
            raise BadInput(
                f"method '{self.name}' needs {self.library}, which is not installed: "
                "pip install 'attribution-benchmarks[third-party]'"
            ) from error

    def required_queries(self, parameters: Mapping[str, Any]) -> RequiredQueries:
        """Return the queries of the method with these parameters, as far as passes can be shared."""
        return RequiredQueries(
            self.query == "input gradient",
            frozenset([parameters["layer"]]) if self.query == "layer gradient" else frozenset(),
            self.query == "squared gradients" or bool(parameters.get("squared")),
        )

    def parameters(self, overrides: Mapping[str, Any]) -> dict[str, Any]:
        """Return the defaults with overrides applied.

        Raises
        ------
        BadInput
            If an override names no parameter, if a parameter without default is missing, or if a parameter of a
            method of this project that is a number by default is not one.
        """
        for name in overrides:
            if name not in self.defaults:
                known = f"its parameters are {listed(self.defaults)}" if self.defaults else "it has none"
                raise BadInput(f"method '{self.name}' has no parameter '{name}'; {known}")
        chosen = {**self.defaults, **overrides}
        missing = [name for name, value in chosen.items() if value is inspect.Parameter.empty]
        if missing:
            raise BadInput(f"method '{self.name}' needs a value for {listed(missing)}")
        return {name: self._checked(name, value) for name, value in chosen.items()}

    def _checked(self, name: str, value: Any) -> Any:
        """Return a parameter's value, a whole number as an int; refuse what is not a number where the default is."""
        default = self.defaults[name]
        if self.card is None or name in ARRAYS or type(default) not in (int, float):
            return value
        whole = type(default) is int
        if whole and isinstance(value, numbers.Integral):
            return int(value)
        if whole or not isinstance(value, numbers.Real):
            kind = "a whole number" if whole else "a number"
            raise BadInput(f"parameter '{name}' of method '{self.name}' must be {kind}, not {value!r}")
        return value
