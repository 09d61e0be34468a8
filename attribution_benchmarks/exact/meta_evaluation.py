"""Measure which metrics tell a right map from a wrong one, on networks whose truth is known.

    python -m attribution_benchmarks.exact.meta_evaluation --output_dir=meta
    python -m attribution_benchmarks.exact.meta_evaluation --metrics=insertion,my_metric.py:MINE --inputs=5

Each exact map is corrupted in known grades (``exact.corruptions``). A metric that measures whether a map is right ranks
the corrupted maps of an input by their true error. The rank correlation of the two is computed for each input, so that
easy and difficult inputs do not matter. docs/which_metric.md has the results.

Cost: some ten minutes on one core for all metrics and ten inputs of each of 24 networks.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tqdm
from absl import flags

from attribution import cli
from attribution.errors import BadInput, print_text
from attribution.file_io.files import atomic_write
from attribution.file_io.paths import check_directory
from attribution.model import batching
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.metric import Metric, of_maps
from attribution_benchmarks.exact.corruptions import GRADES, KINDS, corrupted
from attribution_benchmarks.exact.known_networks import ExactExplain, KnownNetwork, known_networks
from attribution_benchmarks.exact.metrics import OVERALL, distance
from attribution_benchmarks.metrics.map_values import flat
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY, select_metrics
from attribution_benchmarks.stats import correlation, statistics

FLAGS = flags.FlagValues()
flags.DEFINE_list("metrics", [], "metrics by name, or file.py:NAME; all when empty", flag_values=FLAGS)
flags.DEFINE_integer("inputs", 10, "inputs of each network", 1, 100, flag_values=FLAGS)
flags.DEFINE_string("output_dir", "", "directory for which_metric.json, .md and .png", flag_values=FLAGS)
flags.DEFINE_integer("seed", 0, "of the inputs and of the bootstrap", flag_values=FLAGS)

MAPS = (("noise", 0.0), *((kind, grade) for kind in KINDS for grade in GRADES))  # the first is the truth
REPEATS = 2  # seeds of a metric
_DIGITS = 6  # of a score; a smaller difference is rounding in single precision


def random_score(maps: np.ndarray, batch: Batch, scores: Any) -> np.ndarray:
    """Return a random number for each map, (N,)."""
    places = [zlib.crc32(np.asarray(one).tobytes()) for one in maps]
    keys = zip(places, batch.seeds, strict=True)
    return np.array([batching.generator(place, key, "random score").random() for place, key in keys])


CONTROLS = {  # of the meta-evaluation itself
    "random_score": of_maps("random_score", random_score, title="Random number"),
    **{metric.name: metric for metric in OVERALL},
}


@dataclasses.dataclass(frozen=True)
class Measured:
    """The scores of one metric on one network.

    Attributes
    ----------
    scores
        (repeats, N, maps) float64, more is better; NaN where undefined.
    passes, explanations
        Forward passes and explanations that the metric needs for one map alone.
    """

    scores: np.ndarray
    passes: float
    explanations: float


class _Counted:
    """Counts the inputs that are scored."""

    def __init__(self, scores):
        self.scores, self.rows = scores, 0

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        self.rows += len(inputs)
        return np.asarray(self.scores(inputs))


def measure(metric: Metric, network: KnownNetwork) -> Measured | None:
    """Return the scores of all corrupted maps of a network's inputs; None where the metric is not defined."""
    assert metric.measure is not None
    try:
        found = np.stack([_scores(metric, network, repeat) for repeat in range(REPEATS)])
    except BadInput:
        return None
    counted, explain = _Counted(network.scores), _CountedExplain(network)
    maps, batch = network.exact(network.batch)[0], _batch(metric, network, "alone")
    metric.measure.compute(maps, batch, explain if metric.measure.needs_explainer else counted)
    rows = (counted.rows + explain.rows) / len(batch)
    sign = 1 if metric.better == "more" else -1
    return Measured(sign * found, rows, explain.calls / len(batch))


class _CountedExplain(ExactExplain):
    """Counts the inputs that are scored, too."""

    rows = 0

    def __init__(self, network: KnownNetwork):
        super().__init__(network, *MAPS[0])

    def scores(self, inputs: Any) -> np.ndarray:
        self.rows += len(inputs)
        return super().scores(inputs)


def _batch(metric: Metric, network: KnownNetwork, repeat: object) -> Batch:
    """Return a network's inputs with names that the metric's random numbers depend on."""
    assert metric.measure is not None
    batch = network.batch if metric.measure.needs_explainer else network.of_classes
    return dataclasses.replace(batch, seeds=[f"{key} {repeat}" for key in batch.truth["key"]])


def _scores(metric: Metric, network: KnownNetwork, repeat: int) -> np.ndarray:
    """Return the scores of all corrupted maps, (N, maps) float64, rounded."""
    assert metric.measure is not None
    batch, found = _batch(metric, network, repeat), []
    for kind, grade in MAPS:
        maps = corrupted(*network.exact(network.batch), batch, kind, grade)
        queries = ExactExplain(network, kind, grade) if metric.measure.needs_explainer else network.scores
        found.append(metric.measure.compute(maps, batch, queries)[:, 0])
    return rounded(np.stack(found, axis=1))


def rounded(values: np.ndarray) -> np.ndarray:
    """Return numbers, (N, maps), rounded to a millionth of the largest of each row, so that equal scores are equal."""
    largest = np.nanmax(np.abs(values), axis=1, keepdims=True, initial=0, where=np.isfinite(values))
    unit = 10.0 ** (np.floor(np.log10(np.where(largest > 0, largest, 1.0))) - _DIGITS + 1)
    return np.where(np.isfinite(values), np.round(values / unit) * unit, np.nan)


def true_errors(network: KnownNetwork) -> np.ndarray:
    """Return the distances of all corrupted maps from the truth, (N, maps) in [0, 1]."""
    truth, other = network.exact(network.batch)
    maps = (corrupted(truth, other, network.batch, kind, grade) for kind, grade in MAPS)
    return rounded(np.stack([distance(flat(each), flat(truth)) for each in maps], axis=1))


def agreement(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return Spearman's correlation of each row, (N,), over the columns in which both are known.

    Parameters
    ----------
    first
        (N, maps) scores. Where they are equal they rank nothing, and the correlation is 0.
    second
        (N, maps). Where they are equal there is nothing to rank, and the correlation is NaN.
    """
    found = np.full(len(first), np.nan)
    for row, (one, other) in enumerate(zip(first, second, strict=True)):
        known = np.isfinite(one) & np.isfinite(other)
        if known.sum() > 2 and np.ptp(other[known]) > 0:
            found[row] = np.nan_to_num(correlation.spearman(one[known], other[known]))
    return found


def _differ(first: np.ndarray, second: np.ndarray) -> bool:
    return not np.array_equal(first, second, equal_nan=True)


def wins(scores: np.ndarray, kind: str) -> np.ndarray:
    """Return whether the truth has the better score than a map of grade 1, (N,): 1, 0, or 0.5 for equal scores."""
    truth, other = scores[:, 0], scores[:, MAPS.index((kind, GRADES[-1]))]
    return np.where(np.isfinite(truth - other), (truth > other) + (truth == other) / 2, np.nan)


def summary(
    measured: Mapping[str, Mapping[str, Measured]], errors: Mapping[str, np.ndarray], seed: int = 0
) -> dict[str, dict]:
    """Return the figures of each metric on a group of networks, metric -> ``figures``.

    Parameters
    ----------
    measured
        Metric -> network -> scores, without the networks on which the metric is not defined.
    errors
        Network -> true errors.
    seed
        Of the bootstrap.
    """
    found = {metric: figures(of_networks, errors) for metric, of_networks in measured.items() if of_networks}
    found = {metric: row for metric, row in found.items() if row}
    if found.keys() - CONTROLS.keys():
        _add_ranks(found, seed)
    return found


def figures(of_networks: Mapping[str, Measured], errors: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return the figures of one metric on some networks; empty where it is defined for no input or never varies."""
    first = {name: one.scores[0] for name, one in of_networks.items()}
    every = np.concatenate(list(first.values()))
    agreements = {name: agreement(scores, -errors[name]) for name, scores in first.items()}
    correlated = estimate(agreements)
    if correlated is None or not _differ(every, every[:, :1] + 0 * every):
        return {}
    return {
        "correlation": correlated,
        "by_network": {name: round(float(np.nanmean(column)), 4) for name, column in agreements.items()
                       if np.isfinite(column).any()},
        "truth": float(np.nanmean(every[:, 0])),
        "chance": float(np.nanmean(every[:, MAPS.index(("noise", GRADES[-1]))])),
        **_figures_of_use(list(of_networks.values()), of_networks),
        **_figures_of_kinds(first, errors),
    }  # fmt: skip


def _figures_of_use(measured: Sequence[Measured], names: Iterable[str]) -> dict[str, Any]:
    """Return the retest reliability and the cost of a metric."""
    retest = {name: agreement(*one.scores) for name, one in zip(names, measured, strict=True)}
    return {
        "retest": estimate(retest),
        "deterministic": not any(_differ(*one.scores) for one in measured),
        "passes": float(np.mean([one.passes for one in measured])),
        "explanations": float(np.mean([one.explanations for one in measured])),
    }


def _figures_of_kinds(
    scores: Mapping[str, np.ndarray], errors: Mapping[str, np.ndarray]
) -> dict[str, dict[str, list[float] | None]]:
    """Return the correlation within the grades of each corruption, and the share of maps that the truth beats."""
    found: dict[str, dict[str, list[float] | None]] = {"by_kind": {}, "wins": {}}
    for kind in KINDS:
        places = [0, *(place for place, (one, _) in enumerate(MAPS) if one == kind and place)]
        within = {name: agreement(one[:, places], -errors[name][:, places]) for name, one in scores.items()}
        found["by_kind"][kind] = estimate(within)
        found["wins"][kind] = estimate({name: wins(one, kind) for name, one in scores.items()})
    return found


def estimate(of_inputs: Mapping[str, np.ndarray]) -> list[float] | None:
    """Return the mean of one value for each input of some networks as [value, low, high, inputs, networks].

    The ends are those of a 95 % interval over networks. None where all values are NaN.
    """
    values = np.concatenate(list(of_inputs.values()))
    names = np.repeat(list(of_inputs), [len(column) for column in of_inputs.values()])
    known = np.isfinite(values)
    if not known.any():
        return None
    found = statistics.mean_interval(values[known], clusters=names[known], bounds=(-1.0, 1.0))
    return [*(round(float(each), 4) for each in found[:3]), found.n, len(set(names[known]))]


def _add_ranks(rows: dict[str, dict], seed: int) -> None:
    """Add each metric's rank by its correlation, with a 95 % interval over networks, and its chance to be the first.

    A network on which a metric is not defined does not count for it. Controls are not ranked.
    """
    ranked = [name for name in rows if name not in CONTROLS]
    networks = sorted({network for name in ranked for network in rows[name]["by_network"]})
    means = np.array([[rows[name]["by_network"].get(network, np.nan) for name in ranked] for network in networks])
    known = np.isfinite(means)
    sums, counts = (statistics.bootstrap_means(each, seed=seed) for each in (np.where(known, means, 0), known))
    drawn = np.divide(sums, counts, out=np.full(sums.shape, -np.inf), where=counts > 0)
    ranks = 1 + (drawn[:, np.newaxis, :] > drawn[:, :, np.newaxis]).sum(axis=2)
    place = 1 + (-np.nanmean(means, axis=0)).argsort().argsort()
    for column, name in enumerate(ranked):
        low, high = np.quantile(ranks[:, column], (0.025, 0.975), method="inverted_cdf")
        rows[name]["rank"] = [int(place[column]), int(low), int(high), round(float((ranks[:, column] == 1).mean()), 3)]


def table(found: Mapping[str, Mapping[str, Mapping]], group: str, metrics: Mapping[str, Metric]) -> list[str]:
    """Return the Markdown table of one group of networks, the best metric first."""
    lines = [
        "| rank | metric | correlation with the true error | retest | passes | maps | right map | random map | wins |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    rows = found[group]
    for name in sorted(rows, key=lambda name: -rows[name]["correlation"][0]):
        row, metric = rows[name], metrics[name]
        value, low, high, *_ = row["correlation"]
        place = "{} ({}–{})".format(*row["rank"]) if "rank" in row else ""
        sign = 1 if metric.better == "more" else -1
        retest = "1" if row["deterministic"] else f"{row['retest'][0]:.2f}" if row["retest"] else ""
        cells = (
            place, f"`{name}`", f"{value:.2f} ({low:.2f} to {high:.2f})", retest, f"{row['passes']:.3g}",
            f"{row['explanations']:.3g}", f"{sign * row['truth']:.3g}", f"{sign * row['chance']:.3g}",
            f"{row['wins']['noise'][0]:.2f}" if row["wins"]["noise"] else "",
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def draw(found: Mapping[str, Mapping[str, Mapping]]) -> Any:
    """Return the figure: correlations with intervals, and for each corruption whether a metric sees it."""
    from matplotlib.figure import Figure

    best: dict[str, float] = {}
    for name, row in ((name, row) for rows in found.values() for name, row in rows.items()):
        best[name] = max(row["correlation"][0], best.get(name, -1.0))
    names = sorted(best, key=lambda name: best[name])
    figure = Figure(figsize=(13, 1.6 + 0.24 * len(names)), layout="constrained")
    axes = figure.subplots(1, 1 + len(found), sharey=True, width_ratios=[1.3, *[1] * len(found)])
    _draw_correlations(axes[0], names, found)
    for axis, group in zip(axes[1:], found, strict=True):
        image = _draw_kinds(axis, names, found[group])
        axis.set_title(f"By corruption, {group}")
    figure.colorbar(image, ax=axes[-1], label="rank correlation", aspect=40)
    return figure


def _draw_correlations(axis: Any, names: Sequence[str], found: Mapping[str, Mapping[str, Mapping]]) -> None:
    """Draw each metric's correlation with its interval, one color for each group of networks."""
    for group, color, offset in zip(found, ("tab:blue", "tab:orange"), (-0.14, 0.14), strict=False):
        drawn = [(place + offset, found[group][name]) for place, name in enumerate(names) if name in found[group]]
        places = [place for place, _ in drawn]
        values, lows, highs = np.array([row["correlation"][:3] for _, row in drawn]).T
        axis.hlines(places, lows, highs, color=color, linewidth=1.4)
        axis.plot(values, places, "o", color=color, markersize=4, label=group)
    axis.axvline(0, color="gray", linewidth=0.8)
    axis.set(yticks=range(len(names)), yticklabels=names, xlim=(-1, 1.02), ylim=(-0.7, len(names) - 0.3),
             title="Rank correlation with the true error")  # fmt: skip
    axis.legend(loc="lower right", frameon=False)
    axis.grid(axis="y", linewidth=0.3)


def _draw_kinds(axis: Any, names: Sequence[str], rows: Mapping[str, Mapping]) -> Any:
    """Draw the correlation within each kind of corruption as colors with numbers; return matplotlib's image."""
    seen = np.full((len(names), len(KINDS)), np.nan)
    for place, name in enumerate(names):
        if name in rows:
            seen[place] = [(rows[name]["by_kind"][kind] or [np.nan])[0] for kind in KINDS]
    image = axis.imshow(seen, cmap="RdBu", vmin=-1, vmax=1, aspect="auto")
    axis.set_xticks(range(len(KINDS)), [kind.replace("_", " ") for kind in KINDS], rotation=40, ha="right")
    for row, column in np.argwhere(np.isfinite(seen)):
        value = seen[row, column].round(1) + 0.0  # no negative zero
        color = "white" if abs(value) > 0.6 else "black"
        axis.text(column, row, f"{value:.1f}", ha="center", va="center", fontsize=7, color=color)
    return image


def run(metrics: Mapping[str, Metric], networks: Iterable[KnownNetwork], seed: int = 0) -> dict[str, dict[str, dict]]:
    """Measure metrics on networks, and return the ``summary`` of each group of networks."""
    measured: dict[str, dict[str, dict[str, Measured]]] = {}
    errors = {}
    for network in tqdm.tqdm(list(networks), unit="network"):
        errors[network.name] = true_errors(network)
        of_group = measured.setdefault(network.group, {name: {} for name in metrics})
        for name, metric in metrics.items():
            if found := measure(metric, network):
                of_group[name][network.name] = found
    return {group: summary(of_group, errors, seed) for group, of_group in measured.items()}


def chosen(names: Sequence[str]) -> dict[str, Metric]:
    """Return the metrics of some names, all when empty, with those of ``CONTROLS``."""
    return {**select_metrics(names or METRIC_REGISTRY, {}), **CONTROLS}


def main(flag_values: flags.FlagValues) -> None:
    """Measure, print the tables, and write the files of ``--output_dir``."""
    check_directory("output_dir", flag_values.output_dir)
    metrics = chosen(flag_values.metrics)
    found = run(metrics, known_networks(flag_values.inputs, flag_values.seed), flag_values.seed)
    text = "\n\n".join("\n".join([f"## {group}", "", *table(found, group, metrics)]) for group in found)
    print_text(text + "\n")
    if flag_values.output_dir:
        from attribution_benchmarks.cli.figures import save_figure

        folder = pathlib.Path(flag_values.output_dir)
        record = {"inputs_per_network": flag_values.inputs, "seed": flag_values.seed, "groups": found}
        atomic_write(folder / "which_metric.json", json.dumps(record, indent=1) + "\n")
        atomic_write(folder / "which_metric.md", text + "\n")
        save_figure(draw(found), folder, "which_metric")


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
