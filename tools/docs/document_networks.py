"""Explain families of the zoo by every method, compare with definitions, and write docs/networks.csv and networks.md.

    python -m tools.docs.document_networks residual prelu  # measures these again; "all" is every family
    python -m tools.docs.document_networks                 # writes the page of what docs/networks.csv has

Each family is written when it is complete, so that a stopped run goes on with the names that are missing.

Cost: 16 CPU seconds for a small family such as `residual`; 285 CPU seconds and 12.4 GiB of memory for VGG16.
"""

from __future__ import annotations

import collections
import csv
import io
import os
import sys
from collections.abc import Iterable, Mapping, Sequence

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # without it, some processors compute no grouped convolutions

from attribution import METHODS
from attribution.errors import BadInput, listed
from attribution.files import atomic_write
from attribution_benchmarks.core.tables import markdown_table
from tools.docs.page_parts import ROOT, replace_parts

PAGE = ROOT / "docs" / "networks.md"
CELLS = PAGE.with_suffix(".csv")
STATUSES = ("exact", "rounding", "limit", "complete", "rows", "differs", "refused", "crashes")
_FACTS = ("group", "family", "about", "default layer")  # columns of CELLS; the others are methods


def main(names: Sequence[str]) -> None:
    """Measure the named families, and write the tables of the page from all that are known."""
    if names:
        measure(names)
    replace_parts(PAGE, parts(known_cells()))


def measure(names: Sequence[str]) -> None:
    """Measure families and replace their rows of ``CELLS``; raises ``BadInput`` if there is no such family."""
    sys.path.append(str(ROOT / "tests"))  # the zoo is part of the tests
    from zoo.families import FAMILIES, GROUPS
    from zoo.measure import METHODS as COMPARED
    from zoo.measure import in_general
    from zoo.measure import measure as measured

    if unknown := [name for name in names if name not in (*FAMILIES, "all")]:
        raise BadInput(f"no family '{unknown[0]}'; the families are {listed(FAMILIES)}, or all")
    for name in FAMILIES if "all" in names else names:
        print(name, file=sys.stderr)
        found, family = measured(FAMILIES[name]), FAMILIES[name]
        group = next(title for title, families in GROUPS.items() if family in families)
        facts = dict(zip(_FACTS, (group, name, family.about, found["layer"]), strict=True))
        cells = {method: cell_text(cell, in_general) for method, cell in found["methods"].items()}
        rows = {row["family"]: row for row in known_cells()} | {name: facts | cells}
        write_cells([rows[each] for each in FAMILIES if each in rows], COMPARED)


def cell_text(cell: Mapping, in_general) -> str:
    """Return "exact 2e-07", or "refused: REASON"."""
    if cell["status"] in ("refused", "crashes"):
        return f"{cell['status']}: {in_general(cell['note'])}"
    known = {"": cell["difference"], "float64 ": cell["in_double"], "oracle ": cell["of_oracle"]}
    numbers = [f"{name}{value:.0e}" for name, value in known.items() if value is not None]
    return ", ".join(filter(None, [" ".join([cell["status"], *numbers[:1]]), *numbers[1:], cell["note"]]))


def known_cells() -> list[dict[str, str]]:
    """Return the rows of ``CELLS``."""
    return list(csv.DictReader(io.StringIO(CELLS.read_text("utf-8")))) if CELLS.exists() else []


def write_cells(rows: Sequence[Mapping[str, str]], methods: Iterable[str]) -> None:
    """Write the rows of families."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [*_FACTS, *methods], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    atomic_write(CELLS, text.getvalue())


def parts(rows: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the tables of the page: the numbers of cells by status, of kinds of methods and of families."""
    methods = [name for name in rows[0] if name not in _FACTS]
    cells = [row[method] for row in rows for method in methods]
    zero = sum(cell.startswith("exact") and cell.endswith("all zero") for cell in cells)
    summary = (
        f"**{len(rows)} families** by {len(methods)} methods, {len(cells)} cells; {zero} of the exact ones have maps "
        "that are zero everywhere."
    )
    return {"cells": f"{summary}\n\n{_by_kind(rows, methods)}", "families": _by_family(rows, methods)}


def _status(cell: str) -> str:
    return cell.partition(" ")[0].rstrip(":,")


def _by_kind(rows: Sequence[Mapping[str, str]], methods: Sequence[str]) -> str:
    kinds: dict[str, list[str]] = {}
    for method in methods:
        kinds.setdefault(METHODS[method].family, []).append(method)
    body = [
        [kind, *_counts(row[method] for row in rows for method in some)]
        for kind, some in (kinds | {"all": methods}).items()
    ]
    return markdown_table(["methods", *STATUSES], body)


def _by_family(rows: Sequence[Mapping[str, str]], methods: Sequence[str]) -> str:
    body, group = [], None
    for row in rows:
        if row["group"] != group:
            group = row["group"]
            body.append([f"**{group}**", *[""] * (len(STATUSES) + 1)])
        refused = [method for method in methods if _status(row[method]) == "refused"]
        shown = "all" if len(refused) == len(methods) else ", ".join(refused)
        counts = [count if count != "0" else "" for count in _counts(row[method] for method in methods)]
        body.append([f"{row['family']}: {row['about']}", *counts, shown])
    return markdown_table(["family", *STATUSES, "refused are"], body)


def _counts(cells: Iterable[str]) -> list[str]:
    found = collections.Counter(map(_status, cells))
    return [str(found[status]) for status in STATUSES]


if __name__ == "__main__":
    main(sys.argv[1:])
