"""Settings of a benchmark: frozen dataclasses whose fields have a help, bounds and choices.

``evaluate`` takes an instance; the flags of a command are derived from the class, see ``cli.settings_flags``.
"""

from __future__ import annotations

import dataclasses
import math
import operator
import os
import typing
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from attribution.errors import BadInput, listed, shortened
from attribution_benchmarks.core.random_weights import MOST, NETWORKS

ALL = "all"
Count = int | str  # a number of inputs from 1 on, or ``ALL``
Names = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Setting:
    """What is known of a field besides its type and default.

    Attributes
    ----------
    help
        What it is, with the unit if it has one.
    low, high
        Least and greatest value; None where there is none.
    choices
        Allowed values; any where empty.
    makes_files
        Whether it only says which files are written, so that no number depends on it.
    """

    help: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    makes_files: bool = False


def setting(default: Any, help: str, **more: Any) -> Any:
    """Return a field of a ``Settings`` class; further arguments are those of ``Setting``."""
    return dataclasses.field(default=default, metadata={"setting": Setting(help, **more)})


def inherited(base: type[Settings], name: str, default: Any = dataclasses.MISSING, also: str = "") -> Any:
    """Return a field of a base class with another default, or with more help."""
    field = next(each for each in dataclasses.fields(base) if each.name == name)
    described = field.metadata["setting"]
    described = dataclasses.replace(described, help=described.help + also)
    chosen = field.default if default is dataclasses.MISSING else default
    return dataclasses.field(default=chosen, metadata={"setting": described})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Base of all classes of settings.

    Raises ``BadInput`` if a value is of another type, out of bounds, or none of the choices.
    """

    def __post_init__(self) -> None:
        for name, kind, described in described_fields(type(self)):
            object.__setattr__(self, name, _checked(name, getattr(self, name), kind, described))

    def changed(self) -> dict[str, Any]:
        """Return the values by name that are not the default and that numbers depend on."""
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != field.default and not field.metadata["setting"].makes_files
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunSettings(Settings):
    """What every benchmark has; a benchmark's own class adds fields, or gives them other defaults."""

    batch_size: int = setting(32, "inputs in one forward pass of the model; limits the memory", low=1)
    seed: int = setting(
        0, "seed of all random numbers; results are reproducible", low=0, high=2**32 - 1
    )  # of NumPy and Keras

    def replaced(self, **values: Any) -> RunSettings:
        """Return the settings with other values."""
        return dataclasses.replace(self, **values)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MapSettings(RunSettings):
    """Settings of a benchmark that scores maps."""

    layer: str = setting(
        "",
        "layer of the class activation maps, as listed by python -m attribution.inspect; the model's default when "
        "empty",
    )
    random_networks: int = setting(
        0, "networks of shuffled weights, a control of methods; none when 0", low=0, high=MOST
    )
    map_error: float = setting(
        0.0,
        "if above 0, Integrated Gradients takes as many points as this error of a map needs, estimated as a share of "
        "the sum of its absolute values, and at most those it takes otherwise",
        low=0,
        high=0.5,
    )
    save_maps: str = setting("", "directory to save maps in, as METHOD/INPUT.npy", makes_files=True)
    precomputed_maps: str = setting("", "directory of maps to score instead of computing them, as METHOD/INPUT.npy")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExampleSettings(MapSettings):
    """Settings of a benchmark that is one definition: a network and examples."""

    random_networks: int = inherited(MapSettings, "random_networks", NETWORKS)
    model: str = setting("", "SavedModel, or .keras or .h5 file, to explain; the benchmark's default when empty")
    num_imgs: Count = setting(100, "how many inputs to score: a number, or 'all'")


def described_fields(settings: type[Settings]) -> Iterator[tuple[str, Any, Setting]]:
    """Yield name, type and description of each field of a class."""
    kinds = typing.get_type_hints(settings)
    for field in dataclasses.fields(settings):
        yield field.name, kinds[field.name], field.metadata["setting"]


def is_count(kind: Any) -> bool:
    """Return whether a type is ``Count``, or None besides."""
    return {int, str} <= set(typing.get_args(kind))


def _checked(name: str, value: Any, kind: Any, described: Setting) -> Any:
    """Return a value as the type of its field; raise ``BadInput`` if it is invalid."""
    options = typing.get_args(kind) or (kind,)
    if value is None and type(None) in options:
        return None
    expected, convert = next(each for known, each in _KINDS.items() if known in (kind, *options))
    if is_count(kind):
        expected, convert = "a positive number or 'all'", _count
    try:
        found = convert(value)
    except (TypeError, ValueError, OverflowError):
        raise BadInput(f"{name}={shortened(repr(value), 80)}: expected {expected}") from None
    _check_bounds(name, found, described.low, described.high)
    if described.choices and found not in described.choices:
        raise BadInput(f"{name}={found!r}: choose of {listed(described.choices)}")
    return found


def _check_bounds(name: str, value: Any, low: float | None, high: float | None) -> None:
    if (low is not None and value < low) or (high is not None and value > high):
        bounds = f"from {low} on" if high is None else f"from {low} to {high}"
        raise BadInput(f"{name}={value}: expected a number {bounds}")


def _count(value: Any) -> int | str:
    if value == ALL:
        return ALL
    number = int(value) if isinstance(value, str) else _whole(value)
    if number < 1:
        raise ValueError("not positive")
    return number


def _names(value: Any) -> Names:
    if isinstance(value, str):
        raise TypeError("one name, not several")
    return tuple(map(_text, value))


def _text(value: Any) -> str:
    found = os.fspath(value)
    if not isinstance(found, str):
        raise TypeError("bytes")
    return str(found)  # of NumPy, too


def _truth(value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise TypeError("no truth value")
    return bool(value)


def _whole(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError("a truth value is no number")
    return operator.index(value)


def _finite(value: Any) -> float:
    if isinstance(value, bool | np.bool_) or not math.isfinite(value):
        raise ValueError("not finite")
    return float(value)


_KINDS: dict[Any, tuple[str, Callable[[Any], Any]]] = {
    Names: ("a list of names", _names),
    bool: ("True or False", _truth),
    int: ("a whole number", _whole),
    float: ("a finite number", _finite),
    str: ("text", _text),
}
