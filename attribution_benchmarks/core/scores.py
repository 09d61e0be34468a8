"""The scores of an evaluation, which statistics, tables, pictures, the report and comparisons read.

A value belongs to an input, a source of maps (a method, a method under a control, or a control), a metric and a
network. ``InputScores`` holds those of one metric side by side, ``Scores.frame`` has a row for each.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from attribution.errors import BadInput, listed
from attribution.files import atomic_write, check_file
from attribution.reading import read_arrays, read_json
from attribution_benchmarks.core import tables
from attribution_benchmarks.core.batch import MapSource, by_kind
from attribution_benchmarks.core.metric import Metric
from attribution_benchmarks.stats import statistics

if TYPE_CHECKING:
    import pandas

SUFFIXES = (".json", ".csv", ".md", ".txt", ".parquet", ".npz", ".html")
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Scores</title>
<meta name="viewport" content="width=device-width">
<style>body {{ font-family: sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; overflow-x: auto }}
table {{ border-collapse: collapse }}
th, td {{ border-bottom: 1px solid #bbb; padding: .3em .6em; text-align: left; vertical-align: top }}
@media (min-width: 48em) {{ .places td:not(:last-child) {{ white-space: nowrap }} }}
@media (max-width: 48em) {{
.places thead {{ display: none }} .places td {{ display: block; border: 0; padding: .1em 0 }}
.places tr {{ display: block; border-bottom: 1px solid #bbb; padding: .5em 0 }} .places td:empty {{ display: none }}
.places td::before {{ content: attr(data-label) ": "; color: #555 }} }}</style></head>
<body>{}</body></html>
"""
ALONG = "removed"  # key of a row's position on a curve, such as an insertion curve


@dataclasses.dataclass(frozen=True)
class InputScores:
    """Values of several sources for the same inputs by one metric.

    Attributes
    ----------
    where
        ``metric``, and other keys of the rows, such as ``questions``.
    inputs
        (N,) names.
    values
        Name of a source -> (N,) floats, or (N, K) of K networks, NaN for missing values; their mean is its score.
    clusters
        (N,) cluster of each input, such as the image of a question; None for independent inputs.
    table, column
        Title of the printed table and heading of the column that shows them; None for none, and the metric's title.
    sources
        Those of ``values``, in the order of the rows.
    facts
        Name of a source -> further keys of its row.
    curves
        Name of a source -> (N, points), of a metric with a curve.
    kept
        Whether the values are stored with their row.
    brief
        Whether the column shows means alone.
    """

    where: Mapping[str, Any]
    inputs: Sequence[str]
    values: Mapping[str, Sequence[float] | np.ndarray]
    clusters: Sequence[str] | None = None
    table: str | None = ""
    column: str = ""
    sources: Sequence[MapSource] = ()
    facts: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    curves: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    kept: bool = True
    brief: bool = False

    def __post_init__(self) -> None:
        for name, column in [*self.values.items(), ("clusters", self.clusters)]:
            if column is not None and len(column) != len(self.inputs):
                raise ValueError(f"{name!r} has {len(column)} values for {len(self.inputs)} inputs")

    def by_network(self, name: str) -> npt.NDArray[np.float64]:
        """Return the values of a source, (N, K) float64 of K networks."""
        values = np.asarray(self.values[name], np.float64)
        return values[:, None] if values.ndim == 1 else values


def stack(groups: Sequence[InputScores]) -> InputScores:
    """Return the scores of several networks as one group of (N, K) values, NaN where a network has no score.

    Of one group per network and the same metric. Inputs are those of all groups, methods those of the first. One group
    alone may have several networks.
    """
    if len(groups) == 1:
        return groups[0]
    inputs = list(dict.fromkeys(name for group in groups for name in group.inputs))
    values = {name: np.stack([_at(group, name, inputs) for group in groups], axis=1) for name in groups[0].values}
    clusters = None
    if groups[0].clusters is not None:
        known = {name: one for group in groups for name, one in zip(group.inputs, group.clusters or (), strict=True)}
        clusters = [known[name] for name in inputs]
    return InputScores(groups[0].where, inputs, values, clusters, sources=groups[0].sources)


def mean_members(group: InputScores) -> InputScores:
    """Return a group with the mean over the networks of random weights of each method and trained network."""
    values: dict[str, Any] = {}
    sources = []
    for kind, members in by_kind(group.sources).items():
        values[kind.name] = np.mean([group.by_network(member.name) for member in members], axis=0)
        sources.append(kind)
    return dataclasses.replace(group, values=values, sources=sources)


def _at(group: InputScores, name: str, inputs: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return the values of a source for some inputs, (N,); NaN for an input or a source that the group lacks."""
    known = dict(zip(group.inputs, np.asarray(group.values.get(name, ()), np.float64).tolist(), strict=False))
    return np.array([known.get(one, math.nan) for one in inputs])


def kind_of(source: MapSource) -> str:
    """Return the ``kind`` of a row: "method", "control", or "peer" for a method of another library."""
    from attribution import METHODS

    if source.control:
        return "control"
    return "peer" if source.method in METHODS and METHODS[source.method].library else "method"


def summarised(
    group: InputScores,
    metric: Metric,
    published: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda row: {},
) -> list[dict[str, Any]]:
    """Return the rows of a metric: a mean with its interval for each source, then the points of its curves.

    Networks of random weights of one method are one row: of each input's mean over them. Inputs that are undefined for
    one of them are dropped, and counted in ``undefined``.

    Parameters
    ----------
    group
        The values.
    metric
        Its bounds, and whether it is a rate.
    published
        Returns a row's keys of published figures: ``paper``, and ``paper_std`` and ``paper_median`` where they are.

    Returns
    -------
    list of dict
        Rows with ``method``, the keys of ``where``, ``value``, ``low``, ``high``, ``n``, ``paper``, ``kind``,
        ``undefined``, ``std`` (population's), ``median``, ``p20`` and ``p80`` over inputs; ``of``, ``control`` for a
        method under a control; ``networks``, the mean on each, with several networks or random ones; ``reason`` where
        there is no value; ``removed`` on a curve.
    """
    rows = []
    for source, members in by_kind(group.sources).items():
        held = [group.by_network(member.name) for member in members if member.name in group.values]
        if held:
            found = _figures(np.stack(held), source, source in members, group, metric)
            row = {"method": source.name, **group.where, **found, "paper": None}
            facts = {key: value for member in members for key, value in group.facts.get(member.name, {}).items()}
            rows.append({**row, **published(row), **facts})
    rows += [
        {"method": source.name, **group.where, **point, "kind": kind_of(source)}
        for source in group.sources
        if source.name in group.curves
        for point in curve_points(metric, group.curves[source.name], group.clusters)
    ]
    return list(map(tables.plain, rows))


def _figures(values: np.ndarray, source: MapSource, single: bool, group: InputScores, metric: Metric) -> dict[str, Any]:
    """Return the figures of a source's (members, N, networks) values; ``single`` says that its one member is itself."""
    defined = np.isfinite(values).any(axis=2).all(axis=0)
    known = values[:, defined]
    clusters = None if group.clusters is None else np.asarray(group.clusters)[defined]
    of_method = bool(source.method and source.control)
    each = known[0] if not of_method else np.nanmean(known, axis=2).T if known.size else known[:, :, 0].T
    estimate = statistics.mean_interval(each, clusters=clusters, rate=metric.hit, bounds=metric.bounds)
    found: dict[str, Any] = {**estimate._asdict(), "kind": kind_of(source)}
    if of_method:
        found |= {"of": source.method, "control": source.control}
    if each.shape[1] > 1 or not single:
        found["networks"] = np.nanmean(each, axis=0).tolist() if each.size else [math.nan] * each.shape[1]
    spread = np.nanmean(each, axis=1) if each.size else np.full(1, math.nan)
    p20, median, p80 = np.percentile(spread, [20, 50, 80]).tolist()
    found |= {"undefined": int((~defined).sum()), "std": float(spread.std()), "median": median, "p20": p20, "p80": p80}
    if not defined.any():
        found["reason"] = "undefined for every input"
    return found


def curve_points(
    metric: Metric, curves: npt.NDArray[np.float64], clusters: statistics.Clusters = None
) -> list[dict[str, Any]]:
    """Return the mean curve of some inputs with its intervals, one row per point; none without inputs.

    ``curves`` are (N, points) numbers of a metric with ``curve``; inputs with NaN are dropped. ``clusters`` is the
    cluster of each input; None for independent inputs. Rows have ``metric``, ``value``, ``low``, ``high``, ``n``,
    ``paper`` and ``removed``.
    """
    curves = np.asarray(curves, np.float64)
    known = np.isfinite(curves).all(axis=1)
    curves = curves[known]
    if not len(curves):
        return []
    kept = None if clusters is None else np.asarray(clusters)[known]
    found = statistics.means(curves, kept)
    low, high = np.nan_to_num(found.intervals(), nan=np.inf)  # clipped below
    least, most = metric.bounds or (-np.inf, np.inf)
    means = curves.mean(axis=0)
    return [
        {
            "metric": curve_name(metric), "value": float(mean), "low": float(np.clip(min(a, mean), least, most)),
            "high": float(np.clip(max(b, mean), least, most)), "n": len(curves), "paper": None, ALONG: share,
        }
        for mean, a, b, share in zip(means, low, high, metric.curve, strict=True)
    ]  # fmt: skip


def curve_name(metric: Metric) -> str:
    """Return the name of a metric's curve in rows, such as ``insertion_curve``."""
    return f"{metric.name}_curve"


@dataclasses.dataclass(frozen=True)
class Scores:
    """Scores of methods and baselines on one or more benchmarks; printed, they are tables.

    Attributes
    ----------
    rows
        Means with their intervals, a dictionary each; see ``summarised``.
    groups
        The values of the inputs, by metric.
    titles
        Printed name of each source.
    text, markdown
        The printed tables.
    manifest
        Provenance, see ``core.manifest.describe_run``; ``skipped`` has what was not scored, and why.
    """

    rows: Sequence[dict[str, Any]] = ()
    groups: Sequence[InputScores] = ()
    titles: Mapping[str, str] = dataclasses.field(default_factory=dict)
    text: str = ""
    markdown: str = ""
    manifest: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @staticmethod
    def joined(parts: Iterable[Scores]) -> Scores:
        """Return several scores as one, in their order; provenance is that of the first."""
        parts = list(parts)
        return Scores(
            [row for part in parts for row in part.rows],
            [group for part in parts for group in part.groups],
            {name: title for part in parts for name, title in part.titles.items()},
            "".join(part.text for part in parts),
            "".join(part.markdown for part in parts),
            parts[0].manifest if parts else {},
        )

    @property
    def sources(self) -> list[MapSource]:
        """Methods, methods under controls, and controls."""
        return list(dict.fromkeys(source for group in self.groups for source in group.sources))

    @property
    def frame(self) -> pandas.DataFrame:
        """A row for each input, method, control, metric and network, with ``value`` (NaN where undefined).

        Other columns are ``input``, ``cluster``, ``network`` (a number from 0) and the keys of ``where``.
        """
        import pandas

        parts = [
            pandas.DataFrame(
                {
                    **group.where, "method": source.method, "control": source.control, "network": network,
                    "input": list(group.inputs), "cluster": group.clusters, "value": column,
                }
            )
            for group in self.groups
            for source in group.sources
            for network, column in enumerate(group.by_network(source.name).T)
        ]  # fmt: skip
        return pandas.concat(parts, ignore_index=True) if parts else pandas.DataFrame()

    def summary(self) -> pandas.DataFrame:
        """Return ``rows`` as a table."""
        import pandas

        return pandas.DataFrame(self.rows)

    def compare(self, first: str, second: str = "") -> pandas.DataFrame:
        """Return paired differences over the inputs and networks that two methods have, by metric.

        Parameters
        ----------
        first, second
            Methods or controls, by name or printed name: ``first`` minus ``second``. With one name, every method minus
            that one.

        Returns
        -------
        pandas.DataFrame
            The keys of ``where``, ``method``, ``minus``, ``difference``, its 95 % interval ``low`` and ``high``,
            ``p_value`` (Holm's correction for the number of methods) and ``n``.

        Raises
        ------
        BadInput
            If there is no such method or control.
        """
        import pandas

        names = {title: name for name, title in self.titles.items()} | {one.name: one.name for one in self.sources}
        for name in filter(None, (first, second)):
            if name not in names:
                raise BadInput(f"nothing to compare with '{name}'; scored are {listed(self.titles or names)}")
        other = names[second or first]
        every = [source.name for source in self.sources if not source.control and source.name != other]
        compared = [names[first]] if second else every
        rows = []
        for group in self.groups:
            values = {name: group.by_network(name) for name in (*compared, other) if name in group.values}
            pairs = [(name, other) for name in compared if name in values and other in values]
            rows += [
                {
                    **group.where, "method": pair.first, "minus": pair.second, "difference": pair.difference,
                    "low": pair.low, "high": pair.high, "p_value": pair.p_corrected, "n": pair.n,
                }
                for pair in statistics.compare_pairs(values, pairs, group.clusters)
            ]  # fmt: skip
        return pandas.DataFrame(rows)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a file in the format of its suffix, whole or not at all.

        ``.json`` has everything and is read by ``load``; ``.npz`` the values of the inputs as float32, titles and
        manifest, which ``load`` reads, too; ``.parquet`` the frame; ``.csv`` the summary; ``.md`` and ``.txt`` the
        printed tables; ``.html`` a page of what a notebook shows. ``BadInput`` for another suffix.
        """
        check_output(os.fspath(path))
        suffix = pathlib.Path(path).suffix.lower()
        if suffix == ".parquet":
            atomic_write(path, self.frame.to_parquet)
            return
        if suffix == ".npz":
            atomic_write(path, lambda file: np.savez_compressed(file, **self._arrays()))
            return
        content = {
            ".json": lambda: self._json(),
            ".csv": lambda: tables.to_csv(self.rows),
            ".md": lambda: f"{self.markdown}\n```json\n{tables.json_of(self.manifest, indent=1)}\n```\n",
            ".txt": lambda: self.text,
            ".html": lambda: _PAGE.format(self._repr_html_()),
        }[suffix]()
        atomic_write(path, content)

    def _json(self) -> str:
        """Return everything as JSON, a row or a group on a line."""
        lists = {"rows": self.rows, "groups": map(_plain, self.groups)}
        rest = {
            "benchmark": self.manifest.get("benchmark"), "manifest": self.manifest, "titles": self.titles,
            "text": self.text, "markdown": self.markdown,
        }  # fmt: skip
        lines = [f'"{key}": {tables.json_of(value, allow_nan=False)}' for key, value in rest.items()]
        for key, values in lists.items():
            joined = ",\n  ".join(tables.json_of(value, allow_nan=False) for value in values)
            lines.append(f'"{key}": [\n  {joined}\n ]')
        return "{\n " + ",\n ".join(lines) + "\n}\n"

    def _arrays(self) -> dict[str, Any]:
        """Return the values of each group, (sources, N, K) float32, and everything else as the bytes of JSON."""
        groups = [{key: value for key, value in _plain(group).items() if key != "values"} for group in self.groups]
        about = {"manifest": self.manifest, "titles": self.titles, "groups": groups}
        found = {
            f"values{number}": np.stack([group.by_network(source.name) for source in group.sources]).astype(np.float32)
            for number, group in enumerate(self.groups)
        }
        return {"about": np.frombuffer(tables.json_of(about).encode(), np.uint8), **found}

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Scores:
        """Read what ``save`` wrote as JSON or NPZ; raise ``BadInput`` if the file is damaged."""
        try:
            if pathlib.Path(path).suffix.lower() == ".npz":
                return _from_arrays(read_arrays(path))
            document = read_json(path)
            return Scores(
                document["rows"],
                [_group(one) for one in document["groups"]],
                document["titles"],
                document["text"],
                document["markdown"],
                document["manifest"],
            )
        except (BadInput, ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadInput(f"{path} holds no scores ({error}); remove it to compute it again") from error

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        shown = self.summary()
        wanted = [
            name for name in ("benchmark", "metric", "method", "value", "low", "high", "n", "paper") if name in shown
        ]
        return str(shown[wanted].to_html(index=False))


def check_output(path: str, suffixes: Sequence[str] = SUFFIXES, flag: str = "output") -> None:
    """Raise ``BadInput``, before any work is done, if a file could not be written; an empty ``path`` means no file."""
    check_file(flag, path or "", suffixes)


def _plain(group: InputScores) -> dict[str, Any]:
    """Return a group as JSON, NaN as null; ``facts`` and curves are in the rows."""
    return {
        "where": dict(group.where),
        "inputs": [str(name) for name in group.inputs],
        "clusters": None if group.clusters is None else [str(name) for name in group.clusters],
        "sources": [[source.method, source.control] for source in group.sources],
        "values": {name: _finite(np.asarray(column, np.float64).tolist()) for name, column in group.values.items()},
    }


def _from_arrays(arrays: Mapping[str, np.ndarray]) -> Scores:
    about = json.loads(arrays["about"].tobytes())
    groups = []
    for number, one in enumerate(about["groups"]):
        sources = [MapSource(*names) for names in one["sources"]]
        values = {source.name: each for source, each in zip(sources, arrays[f"values{number}"], strict=True)}
        groups.append(InputScores(one["where"], one["inputs"], values, one["clusters"], sources=sources))
    return Scores(groups=groups, titles=about["titles"], manifest=about["manifest"])


def _group(one: Mapping[str, Any]) -> InputScores:
    values = {name: _floats(column) for name, column in one["values"].items()}
    sources = [MapSource(*names) for names in one["sources"]]
    return InputScores(one["where"], one["inputs"], values, one["clusters"], sources=sources)


def _floats(column: Sequence[Any]) -> list[Any]:
    """Return numbers, or lists of numbers, null as NaN."""
    return [_floats(one) if isinstance(one, list) else math.nan if one is None else float(one) for one in column]


def _finite(column: list[Any]) -> list[Any]:
    """Return numbers, or lists of numbers, NaN as null."""
    return [_finite(one) if isinstance(one, list) else one if math.isfinite(one) else None for one in column]
