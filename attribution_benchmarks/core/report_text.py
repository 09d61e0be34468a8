"""Text of the report about a benchmark: data in one TOML file beside the benchmark, checked when it is loaded."""

from __future__ import annotations

import dataclasses
import os
import sys
import typing
from collections.abc import Mapping
from typing import Any

from attribution.errors import listed, shortened
from attribution.reading import opened

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclasses.dataclass(frozen=True)
class Trend:
    """Rows of a document that are charted as curves, such as one curve for each method or network.

    Attributes
    ----------
    metric
        As in the rows.
    title, about
        Heading of its charts, and how to read them.
    along, along_title
        The rows' key that a curve runs along, and what that is.
    series
        The rows' key that identifies a curve.
    """

    metric: str
    title: str
    about: str
    along: str
    along_title: str
    series: str = "method"


@dataclasses.dataclass(frozen=True)
class ReportText:
    """What the report says about a benchmark; the fields are the keys of its TOML file.

    Attributes
    ----------
    about, paper
        The question that it answers, in plain sentences; who published it.
    method_note
        How its settings of a method differ from the registry's, such as "Mine takes the absolute gradient".
    beside_paper
        Why figures differ from the paper's, as far as it is known: one sentence or more.
    reasons
        Method -> why it is not scored here.
    more_metrics
        Metric -> how to read it, for metrics in tables that have no column.
    trends
        Rows that are charted as curves.
    """

    about: str = ""
    paper: str = ""
    method_note: str = ""
    beside_paper: str = ""
    reasons: Mapping[str, str] = dataclasses.field(default_factory=dict)
    more_metrics: Mapping[str, str] = dataclasses.field(default_factory=dict)
    trends: tuple[Trend, ...] = ()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ReportText:
        """Return the text of a TOML file.

        Raises
        ------
        BadInput
            If the file cannot be read, has an unknown key, lacks one, or has a value of another type.
        """
        with opened(path, "report text") as file:
            return typing.cast(ReportText, _record(tomllib.load(file), cls, ""))


def _value(value: Any, kind: Any, key: str) -> Any:
    """Return a TOML value as text, a mapping, a tuple or a dataclass of these; ``ValueError`` if it is of no such type.

    ``key`` is that of the value in the file, as in ``pictures.mass.alt``.
    """
    if kind is str:
        return _checked(value, str, "text", key)
    container, of = typing.get_origin(kind), typing.get_args(kind)
    if container is Mapping:
        return {
            name: _value(each, of[1], f"{key}.{name}") for name, each in _checked(value, dict, "a table", key).items()
        }
    if container is tuple:
        entries = _checked(value, list, "an array of tables", key)
        return tuple(_value(each, of[0], f"{key}[{place}]") for place, each in enumerate(entries))
    return _record(_checked(value, dict, "a table", key), kind, f"{key}.")


def _record(table: Mapping[str, Any], kind: Any, prefix: str) -> Any:
    """Return a table as a dataclass; ``ValueError`` if its keys are not the fields of the class."""
    fields, kinds = dataclasses.fields(kind), typing.get_type_hints(kind)
    for name in table:
        if name not in kinds:
            raise ValueError(f"unknown key '{prefix}{name}'; expected one of {listed(kinds)}")
    for field in fields:
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and field.name not in table:
            raise ValueError(f"'{prefix}{field.name}' is missing")
    return kind(**{name: _value(value, kinds[name], f"{prefix}{name}") for name, value in table.items()})


def _checked(value: Any, kind: type, expected: str, key: str) -> Any:
    """Return a value of a type; ``ValueError`` if it is of another."""
    if not isinstance(value, kind):
        raise ValueError(f"'{key}' is {shortened(repr(value), 40)}; expected {expected}")
    return value
