"""What a choice says: in sentences, and as one HTML page with the maps of the inputs."""

from __future__ import annotations

import collections
import json
import math
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from attribution.files import atomic_write
from attribution.methods.registry import known_method
from attribution_benchmarks.choosing.cards import cards
from attribution_benchmarks.choosing.choice import Choice, shown
from attribution_benchmarks.core.tables import number
from attribution_benchmarks.report.formatting import templates
from attribution_benchmarks.stats.statistics import Estimate

_HERE = pathlib.Path(__file__).parent
BASELINE = "baseline.npy"  # next to the page


def write(
    choice: Choice,
    directory: pathlib.Path,
    to_come: str = "",
    preprocessing: Any = None,
    words: Mapping[str, np.ndarray] | None = None,
    class_names: Sequence[str] | None = None,
    commands: Sequence[str] = (),
) -> None:
    """Write the page and the scores.

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
    commands
        Lines that give the map of the first input by the method that the answer names.
    """
    text = templates(_HERE).get_template("page.html.jinja").render(
        choice=choice, answer=[*choice.answer(), *choice.start()], commands=commands,
        limits=choice.limits(), rows=_rows(choice), to_come=to_come,
        refused=_refused(choice.refused), cards=list(cards(choice, preprocessing, words, class_names, not to_come)),
        masks={name: _MASKS[name] for name in choice.scores}, refresh=_REFRESH, reloads=_RELOADS,
    )  # fmt: skip
    if choice.started and choice.baseline is not None:
        baseline = choice.baseline
        atomic_write(directory / BASELINE, lambda stream: np.save(stream, baseline))
    atomic_write(directory / "choice.json", json.dumps(as_json(choice), indent=1) + "\n")
    atomic_write(directory / "index.html", text)


_REFRESH, _RELOADS = '<meta http-equiv="refresh" content="20">', "The page reloads itself."
STOPPED = "The run was stopped."


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
    nearest, groups = choice.nearest(), {group[0]: group for group in choice.groups}
    for one in choice.verdict.standings:
        if one.method not in groups:
            continue
        numbers, length = _bar(one.agreement)
        other, similarity = nearest.get(one.method, ("", math.nan))
        yield {
            "value": one.agreement.value,
            "title": choice.title_of_group(groups[one.method]), "name": one.method,
            "numbers": numbers, "length": length,
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


def in_python(choice: Choice, model: str, directory: pathlib.Path | None) -> str:
    """Return the line that computes the map of the first input by the method that the answer names; empty without one.

    ``model`` is a Python expression.
    """
    if not (method := known_method(choice.taken)):
        return ""
    parts = [repr(choice.taken), model, "first_input", f"{int(choice.targets[0])}"]
    parts += [f"explain_input={choice.explained!r}"] if choice.explained else []
    parts += [f"seed={choice.seed}, keys=[{choice.names[0]!r}]"] if method.is_random else []
    if parameter := choice.started.get(choice.taken):
        start = f"np.load({str(directory / BASELINE)!r})" if directory else "choice.baseline"
        parts.append(f"{parameter}={start}")
    return f"attribution.explain({', '.join(parts)})"
