"""Numbers and names as text: what tables, sentences and the page share."""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attribution.errors import printable
from attribution_benchmarks.core.definition import Column
from attribution_benchmarks.core.tables import number


@dataclasses.dataclass(frozen=True)
class Names:
    """Printed names of methods and controls."""

    titles: Mapping[str, str]  # method or control -> printed name
    custom: Sequence[str] = ()  # methods of the user
    families: Mapping[str, str] = dataclasses.field(default_factory=dict)  # method -> family

    def __call__(self, name: str) -> str:
        """Return the printed name of a method, a control, or a method under a control condition."""
        method, _, control = name.rpartition("/")
        if name not in self.titles and control in self.titles:
            return f"{self.titles.get(method, method)} under “{self.titles[control]}”"
        return self.titles.get(name, name)

    def is_custom(self, name: str) -> bool:
        """Return whether a method is the user's."""
        return name in self.custom


def shown_path(path: str) -> str:
    """Return a path as given; of an absolute one only the name, so that a shared page reveals no directory."""
    pure = pathlib.PurePath(path)
    return pure.name if pure.is_absolute() else path


def score(value: float | None, column: Column) -> str:
    """Return a score of a column: one decimal for percentages, three otherwise."""
    return number(value, 1 if column.percent else 3)


def known(value: float | None) -> bool:
    """Return whether a number is there and finite."""
    return value is not None and math.isfinite(value)


def anchor(column: Column) -> str:
    """Return the anchor of a column's table."""
    return column.key.replace(" ", "-").replace("_", "-")


def cell_score(row: Mapping | None, column: Column) -> str:
    """Return the score of a row; a dash if there is no row."""
    return score(row["value"] if row else None, column)


def cell_interval(row: Mapping, column: Column) -> str:
    """Return the interval of a row's score."""
    return f"{score(row['low'], column)} to {score(row['high'], column)}"


def rank(value: float) -> str:
    """Return a rank, with one decimal only for ties."""
    return number(value, 1).removesuffix(".0")


def count_of(count: int, noun: str) -> str:
    """Return "1 metric" or "2 metrics"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def count_range(counts: Iterable[int]) -> str:
    """Return "1,000" or "7 to 1,000", the smallest and the largest of some counts; empty if there are none."""
    ordered = sorted(counts)
    return " to ".join(dict.fromkeys(f"{count:,}" for count in (*ordered[:1], *ordered[-1:])))


def percentages(shares: Iterable[float]) -> str:
    """Return "97 to 100 %", the smallest and the largest of some shares."""
    ordered = sorted(shares)
    ends = [f"{100 * share:.0f}" for share in (ordered[0], ordered[-1])]
    return f"{' to '.join(dict.fromkeys(ends))} %"


def enumeration(names: Iterable[str], at_most: int | None = None) -> str:
    """Return "a, b and c"; "a, b and 3 others" if there are more than ``at_most``; "none" if there are none."""
    names = list(names)
    if at_most is not None and len(names) > at_most:
        names = [*names[: at_most - 1], f"{len(names) - at_most + 1} others"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "none"


def templates(folder: pathlib.Path) -> Any:
    """Return the environment of a page's templates, which escapes markup and control characters."""
    import jinja2

    return jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        loader=jinja2.FileSystemLoader(folder),
        finalize=lambda each: "\n".join(map(printable, each.split("\n"))) if type(each) is str else each,
    )  # fmt: skip
