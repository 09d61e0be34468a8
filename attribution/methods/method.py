"""What an attribution method is: a function with a name, defaults and a method card."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType

from attribution.errors import BadInput, listed
from attribution.methods.completeness import SumLaw
from attribution.methods.queries import RequiredQueries


@dataclasses.dataclass(frozen=True)
class MethodCard:
    """What a user should know of a method before choosing it.

    Attributes
    ----------
    citation
        Where it was published.
    requirements
        What it requires of the model.
    cost
        ModelQueries per input: F is a forward pass, G a forward and backward pass (about 2.6 F).
    randomness
        What is drawn, and from which seed.
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
        Method card; ``None`` for a user's own method.
    library
        The library whose code this is, where it is not this project's; see ``attribution.methods.third_party``.
    query
        ``"input gradient"``, ``"layer gradient"`` or ``"squared gradients"``, where it asks its passes for that and
        can share them with others.
    is_random
        Whether the seed changes the maps.
    drops_channels
        Its maps have no channel axis.
    family
        The signal it is made of, shared by its variants: "class activation" for all that weight a layer's channels.
        Methods of one family rank side by side, so tests of agreement count a family once. None for a custom method,
        which is then a family by itself.
    sum_law
        What the sum of a map must be; ``None`` where there is no such law.
    """

    name: str
    title: str
    function: Callable
    card: MethodCard | None = None
    library: str | None = None
    query: str | None = None
    is_random: bool = False
    drops_channels: bool = False
    family: str | None = None
    sum_law: SumLaw | None = None

    @property
    def defaults(self) -> Mapping:
        """Parameters and their default values, read from the function itself."""
        parameters = list(inspect.signature(self.function).parameters.values())[1:]
        return MappingProxyType(
            {
                parameter.name: parameter.default
                for parameter in parameters
                if parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
            }
        )

    def library_version(self) -> str | None:
        """Return the installed version of the library whose method it is; None of the project's own.

        Raises
        ------
        BadInput
            If that library is not installed.
        """
        try:
            return importlib.metadata.version(self.library) if self.library else None
        except importlib.metadata.PackageNotFoundError as error:
            raise BadInput(
                f"method '{self.name}' is {self.library}'s own, which is not installed: "
                "pip install 'attribution-benchmarks[third-party]'"
            ) from error

    def required_queries(self, parameters: Mapping) -> RequiredQueries:
        """Return what the method will ask of its passes with these parameters, as far as passes can be shared."""
        return RequiredQueries(
            self.query == "input gradient",
            frozenset([parameters["layer"]]) if self.query == "layer gradient" else frozenset(),
            self.query == "squared gradients" or bool(parameters.get("squared")),
        )

    def parameters(self, overrides: Mapping) -> dict:
        """Return the defaults with overrides applied.

        Raises
        ------
        BadInput
            If an override names no parameter, or a parameter without default is missing.
        """
        for name in overrides:
            if name not in self.defaults:
                known = f"its parameters are {listed(self.defaults)}" if self.defaults else "it has none"
                raise BadInput(f"method '{self.name}' has no parameter '{name}'; {known}")
        chosen = {**self.defaults, **overrides}
        missing = [name for name, value in chosen.items() if value is inspect.Parameter.empty]
        if missing:
            raise BadInput(f"method '{self.name}' needs a value for {listed(missing)}")
        return chosen
