"""What a choice says: in sentences, and as one HTML page with the maps of the inputs."""

from __future__ import annotations

import base64
import collections
import io
import json
import math
import pathlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from attribution import plotting
from attribution.files import atomic_write
from attribution.methods.registry import known_method
from attribution_benchmarks.choosing.choice import Choice, shown
from attribution_benchmarks.core.tables import number
from attribution_benchmarks.stats.statistics import Estimate

_HERE = pathlib.Path(__file__).parent
_SHOWN = 4  # inputs whose maps are drawn
_COLUMNS = 4  # methods in one figure


def write(
    choice: Choice,
    directory: pathlib.Path,
    to_come: str = "",
    preprocessing: Any = None,
    words: Mapping[str, np.ndarray] | None = None,
    class_names: Sequence[str] | None = None,
) -> pathlib.Path:
    """Write the page and the scores; return the page's path.

    Parameters
    ----------
    choice
        What the page shows.
    directory
        Where ``index.html`` and ``choice.json`` are written.
    to_come
        What later rounds add, in words; the page reloads itself where it is given.
    preprocessing
        Of pictures, to show them in their colors; see ``attribution.plot``.
    words
        Name of an input -> (positions,) text of its tokens, to show them by.
    class_names
        A name for each class; their numbers where None.
    """
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        loader=jinja2.FileSystemLoader(_HERE),
    )  # fmt: skip
    text = environment.get_template("page.html.jinja").render(
        choice=choice, answer=choice.answer(), limits=choice.limits(), rows=_rows(choice), to_come=to_come,
        refused=_refused(choice.refused), figures=list(_figures(choice, preprocessing, words, class_names)),
        masks={name: _MASKS[name] for name in choice.scores}, refresh=_REFRESH, reloads=_RELOADS,
    )  # fmt: skip
    atomic_write(directory / "choice.json", json.dumps(as_json(choice), indent=1) + "\n")
    atomic_write(directory / "index.html", text)
    return directory / "index.html"


_REFRESH, _RELOADS = '<meta http-equiv="refresh" content="20">', "The page reloads itself."
STOPPED = "The run was stopped; the same command goes on."


def stop(directory: pathlib.Path) -> None:
    """Say on the page of a run that was stopped that nothing follows by itself."""
    path = directory / "index.html"
    if path.exists():
        text = path.read_text(encoding="utf-8")
        atomic_write(path, text.replace(_REFRESH, "").replace(_RELOADS, STOPPED))


_MASKS = {"attribution_localisation": "mass", "iou_at_area": "IoU", "pointing_game": "pointing game"}


def as_json(choice: Choice) -> dict[str, Any]:
    """Return the standings as plain JSON, NaN as null."""

    def plain(value: float) -> float | None:
        return None if math.isnan(value) else value

    return {
        "model": choice.model,
        "inputs": list(choice.names),
        "best": choice.verdict.best.method if choice.verdict.best else None,
        "as_good": [one.method for one in choice.verdict.as_good],
        "methods": [
            {
                "method": one.method,
                **{
                    name: plain(value) for name, value in zip(("agreement", "low", "high"), one.agreement, strict=False)
                },
                "recommended": one.recommended,
                "references": {
                    reference: {"difference": plain(difference), "p_value": plain(p_value)}
                    for reference, (difference, p_value) in one.references.items()
                },
                "passes": choice.passes[one.method],
                "sum_missed": plain(choice.missed[one.method]),
                **{metric: plain(found[one.method].value) for metric, found in choice.scores.items()},
            }
            for one in choice.verdict.standings
        ],
        "baselines": {name: plain(found.value) for name, found in choice.verdict.baselines.items()},
        "refused": dict(choice.refused),
    }


def _bar(found: Estimate) -> tuple[str, float]:
    """Return the numbers of an estimate and the length of its bar in percent."""
    return shown(found), round(100 * max(float(np.nan_to_num(found.value)), 0.0), 1)


def _rows(choice: Choice) -> list[dict[str, Any]]:
    """Return the lines of the table, the highest agreement first: methods, and maps without the network."""
    rows = [*_rows_of_methods(choice), *_rows_of_baselines(choice)]
    return sorted(rows, key=lambda row: -float(np.nan_to_num(row["value"], nan=-1.0)))


def _rows_of_baselines(choice: Choice) -> Iterator[dict[str, Any]]:
    for name, found in choice.verdict.baselines.items():
        numbers, length = _bar(found)
        yield {
            "value": found.value, "title": choice.title(name), "name": "", "numbers": numbers, "length": length,
            "mark": "", "passes": 0, "missed": "", "nearest": "", "masks": [""] * len(choice.scores),
        }  # fmt: skip


def _rows_of_methods(choice: Choice) -> Iterator[dict[str, Any]]:
    nearest = choice.nearest()
    for one in choice.verdict.standings:
        numbers, length = _bar(one.agreement)
        other, similarity = nearest.get(one.method, ("", math.nan))
        yield {
            "value": one.agreement.value,
            "title": choice.title(one.method), "name": one.method, "numbers": numbers, "length": length,
            "mark": "best" if one is choice.verdict.best else "as good" if one.as_good else "",
            "recommended": one.recommended,
            "unbeaten": [choice.title(reference) for reference in one.unbeaten] if choice.verdict.tested else [],
            "passes": choice.passes[one.method],
            "missed": number(100 * choice.missed[one.method], 1),
            "nearest": f"{choice.title(other)}, {similarity:.2f}" if other else "–",
            "masks": [number(found[one.method].value, 2) for found in choice.scores.values()],
        }  # fmt: skip


def _refused(refused: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return reasons with the names of the methods that have them."""
    by_reason = collections.defaultdict(list)
    for name, reason in refused.items():
        first = reason.partition(" ")[0]  # the method, or one that it is made of
        by_reason[reason.replace(first if known_method(first) else name, "it")].append(name)
    return [(", ".join(names), reason) for reason, names in by_reason.items()]


def _figures(
    choice: Choice, preprocessing: Any, words: Mapping[str, np.ndarray] | None, class_names: Sequence[str] | None
) -> Iterator[tuple[str, str, float]]:
    """Yield titles of a few methods, their maps of some inputs as a PNG in a data address, and its relative width."""
    rows = choice.spread(_SHOWN)
    inputs = np.stack([choice.inputs[row] if words is None else words[choice.names[row]] for row in rows])
    classes = [choice.targets[row] if class_names is None else class_names[choice.targets[row]] for row in rows]
    titles = [f"{choice.names[row]}\nclass {name}" for row, name in zip(rows, classes, strict=True)]
    methods = [one.method for one in choice.verdict.standings]
    for start in range(0, len(methods), _COLUMNS):
        some = methods[start : start + _COLUMNS]
        maps = {choice.title(name): _drawn(choice.read_maps(name, rows), inputs.ndim) for name in some}
        figure = plotting.plot(maps, inputs, titles=titles, preprocessing=preprocessing, feature_names=choice.features)
        content = io.BytesIO()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"Glyph .* missing")  # of a name; boxes stand for it
            figure.savefig(content, format="png", dpi=90)
        share = (len(some) + 1) / (_COLUMNS + 1)  # the inputs, or their names, are a column, too
        yield ", ".join(maps), f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}", share


def _drawn(maps: np.ndarray, axes: int) -> np.ndarray:
    """Return maps of inputs with some axes; those of the embedding of tokens are summed."""
    return maps.sum(axis=-1) if axes == 2 < maps.ndim else maps
