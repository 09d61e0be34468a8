"""Text of the report about a benchmark: data in one TOML file beside the benchmark, checked when it is loaded."""

from __future__ import annotations

import dataclasses
import os
import sys
import typing
from collections.abc import Collection, Mapping
from typing import Any

from attribution.errors import listed, shortened
from attribution.reading import opened

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


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
    """

    about: str = ""
    paper: str = ""
    method_note: str = ""
    beside_paper: str = ""
    reasons: Mapping[str, str] = dataclasses.field(default_factory=dict)
    more_metrics: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ReportText:
        """Return the text of a TOML file.

        Raises
        ------
        BadInput
            If the file cannot be read, has an unknown key, or has a value of another type.
        """
        with opened(path, "report text") as file:
            table, kinds = tomllib.load(file), typing.get_type_hints(cls)
            for key, value in table.items():
                if key not in kinds:
                    raise ValueError(f"unknown key '{key}'; expected one of {listed(kinds)}")
                if kinds[key] is str:
                    _check(value, str, "text", key)
                    continue
                _check(value, dict, "a table", key)
                for name, text in value.items():
                    _check(text, str, "text", f"{key}.{name}")
            return cls(**table)

    def about_others(self, about: str, scored: Collection[str], **reasons: str) -> ReportText:
        """Return the text for other networks of a benchmark, for which other methods are scored or have reasons."""
        kept = {name: why for name, why in self.reasons.items() if name not in scored}
        return dataclasses.replace(self, about=about, reasons={**kept, **reasons}, more_metrics={})


def _check(value: Any, kind: type, expected: str, key: str) -> None:
    """Raise ``ValueError`` if a value is of another type."""
    if not isinstance(value, kind):
        raise ValueError(f"'{key}' is {shortened(repr(value), 40)}; expected {expected}")
