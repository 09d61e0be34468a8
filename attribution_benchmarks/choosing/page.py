"""A choice as an HTML page with a figure of maps, and as JSON."""

from __future__ import annotations

import collections
import json
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attribution import plotting
from attribution.files import atomic_write
from attribution.methods.registry import known_method
from attribution_benchmarks.choosing.choice import Choice, shown
from attribution_benchmarks.report.formatting import templates

_INPUTS, _METHODS = 4, 6  # whose maps are drawn
FIGURE = "maps.png"


def write(
    choice: Choice,
    directory: pathlib.Path,
    preprocessing: Any = None,
    words: Mapping[str, np.ndarray] | None = None,
    class_names: Sequence[str] | None = None,
) -> None:
    """Write ``index.html``, ``maps.png`` and ``choice.json``.

    Parameters
    ----------
    choice
        What the page shows, with saved maps.
    directory
        Of the files.
    preprocessing
        Of pictures, to show them in their colors; see ``attribution.plot``.
    words
        Name of an input -> (positions,) text of its tokens, to show them by.
    class_names
        A name for each class; their numbers where None.
    """
    rows = np.unique(np.linspace(0, len(choice.names) - 1, _INPUTS).round().astype(int)).tolist()
    inputs = np.stack([words[choice.names[row]] for row in rows]) if words else choice.inputs[rows]
    classes = [class_names[choice.targets[row]] if class_names else choice.targets[row] for row in rows]
    maps = {one.method: choice.read_maps(one.method, rows) for one in choice.verdict.standings[:_METHODS]}
    if inputs.ndim == 2:  # maps of the embedding of tokens are summed
        maps = {name: found.sum(axis=-1) if found.ndim > 2 else found for name, found in maps.items()}
    titles = [f"{choice.names[row]}, class {known}" for row, known in zip(rows, classes, strict=True)]
    figure = plotting.plot(maps, inputs, titles=titles, preprocessing=preprocessing, feature_names=choice.features)
    atomic_write(directory / FIGURE, lambda stream: figure.savefig(stream, format="png", dpi=100))
    atomic_write(directory / "choice.json", json.dumps(as_json(choice), indent=1) + "\n")
    text = templates(pathlib.Path(__file__).parent).get_template("page.html.jinja").render(
        choice=choice, rows=_rows(choice), refused=_by_reason(choice.refused), figure=FIGURE
    )  # fmt: skip
    atomic_write(directory / "index.html", text)


def as_json(choice: Choice) -> dict[str, Any]:
    """Return the standings as plain JSON, NaN as null."""

    def plain(value: float) -> float | None:
        return None if math.isnan(value) else value

    verdict = choice.verdict
    return {
        "model": choice.model,
        "inputs": list(choice.names),
        "best": verdict.best.method if verdict.best else None,
        "as_good": [one.method for one in verdict.as_good],
        "methods": [
            {
                "method": one.method,
                **dict(zip(("agreement", "low", "high"), map(plain, one.agreement[:3]), strict=True)),
                "recommended": one.recommended,
                "references": {
                    reference: {"difference": plain(difference), "p_value": plain(p_value)}
                    for reference, (difference, p_value) in one.references.items()
                },
                "passes": choice.passes[one.method],
            }
            for one in verdict.standings
        ],
        "baselines": {name: plain(found.value) for name, found in verdict.baselines.items()},
        "refused": dict(choice.refused),
    }


def _rows(choice: Choice) -> list[dict[str, Any]]:
    """Return the lines of the table, the highest agreement first: methods, and maps without the network."""
    verdict = choice.verdict
    rows = [
        {"value": found.value, "title": choice.title(name), "numbers": shown(found)}
        for name, found in verdict.baselines.items()
    ]
    for one in verdict.standings:
        unbeaten = ", ".join(map(choice.title, one.unbeaten)).lower()
        above = f"not above: {unbeaten}" if unbeaten else "not after correction for the number of methods"
        above = "yes" if one.recommended else above if verdict.tested else "not tested"
        mark = "best" if one is verdict.best else "as good" if one.as_good else ""
        rows.append(
            {"value": one.agreement.value, "title": choice.title(one.method), "name": one.method, "above": above,
             "numbers": shown(one.agreement), "mark": mark, "passes": choice.passes[one.method]}
        )  # fmt: skip
    return sorted(rows, key=lambda row: -float(np.nan_to_num(row["value"], nan=-1.0)))


def _by_reason(refused: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return reasons with the names of the methods that have them."""
    by_reason = collections.defaultdict(list)
    for name, reason in refused.items():
        first = reason.partition(" ")[0]  # the method, or one that it is made of
        by_reason[reason.replace(first if known_method(first) else name, "it")].append(name)
    return [(", ".join(names), reason) for reason, names in by_reason.items()]
