"""A choice as an HTML page with a figure of maps."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attribution import plotting
from attribution.files import atomic_write
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
    """Write ``index.html`` and ``maps.png``.

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
    text = templates(pathlib.Path(__file__).parent).get_template("page.html.jinja").render(
        choice=choice, rows=_rows(choice), figure=FIGURE
    )  # fmt: skip
    atomic_write(directory / "index.html", text)


def _rows(choice: Choice) -> list[dict[str, Any]]:
    """Return the lines of the table, the highest agreement first: methods, and maps without the network."""
    verdict = choice.verdict
    none = {"name": "", "above": "", "mark": "", "passes": ""}
    rows = [
        {"value": found.value, "title": choice.title(name), "numbers": shown(found), **none}
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
