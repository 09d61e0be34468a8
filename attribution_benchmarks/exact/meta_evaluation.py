"""Measure which metrics tell a right map from a wrong one, on networks whose truth is known.

    python -m attribution_benchmarks.exact.meta_evaluation --output_dir=meta
    python -m attribution_benchmarks.exact.meta_evaluation --metrics=insertion,my_metric.py:MINE --inputs=5
    python -m attribution_benchmarks.exact.meta_evaluation --metrics=deletion,quantus:PixelFlipping --inputs=1

Each exact map is corrupted in known grades (``exact.known_networks``). A metric that measures whether a map is right
ranks the corrupted maps of an input by their true error. The rank correlation of the two is computed for each input, so
that easy and difficult inputs do not matter. docs/which_metric.md has the results.

Quantus scores maps and changed inputs one by one. ``--quantus_inputs=2`` adds its metrics that compare with ours
(``QUANTUS``), on the first two inputs of each network.

Cost: 21 CPU minutes on one core for all metrics and seven inputs of each of 24 networks, with two inputs of each by the
metrics of Quantus.
A stopped run with the same ``--output_dir`` resumes after the last network that it completed.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tqdm
from absl import flags

from attribution import cli
from attribution.errors import print_text
from attribution.files import atomic_write, check_directory
from attribution_benchmarks.core.fingerprint import code_and_versions
from attribution_benchmarks.core.metric import Metric, of_maps
from attribution_benchmarks.exact._metric_scores import (
    MAPS,
    KnownMaps,
    Measured,
    TrueErrors,
    first_inputs,
    known_maps,
    measure,
    random_score,
    read_measured,
    true_errors,
    write_measured,
)
from attribution_benchmarks.exact.known_networks import GRADES, KINDS, KnownNetwork, known_networks
from attribution_benchmarks.exact.metrics import OVERALL
from attribution_benchmarks.metrics.faithfulness import SUBSET, SUBSETS
from attribution_benchmarks.metrics.of_libraries import quantus_metric
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY, select_metrics
from attribution_benchmarks.stats import correlation, statistics

FLAGS = flags.FlagValues()
flags.DEFINE_list("metrics", [], "metrics by name, or file.py:NAME; all when empty", flag_values=FLAGS)
flags.DEFINE_integer("inputs", 10, "inputs of each network", 1, 100, flag_values=FLAGS)
flags.DEFINE_integer(
    "quantus_inputs", 0, "inputs of each network for the metrics of Quantus that compare with ours; 0 for none", 0, 100,
    flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_string(
    "output_dir", "", "directory for which_metric.json, .md and .png, and for the networks completed", flag_values=FLAGS
)
flags.DEFINE_integer("seed", 0, "of the inputs and of the bootstrap", flag_values=FLAGS)


CONTROLS = {  # of the meta-evaluation itself
    "random_score": of_maps("random_score", random_score, title="Random number"),
    **{metric.name: metric for metric in OVERALL},
}


class _Counterpart(NamedTuple):
    """The metric here that is nearest to one of Quantus, and the parameters that make them comparable."""

    ours: str
    parameters: str = ""


_SETS = f"subset_size={{fifth}}&nr_runs={SUBSETS}"
# Metrics that compare with ours. MaxSensitivity is left out: it needs exact maps of noisy inputs one by one.
QUANTUS = {
    "quantus:FaithfulnessCorrelation": _Counterpart("faithfulness_correlation", _SETS),
    "quantus:FaithfulnessCorrelation?perturb_baseline=mean": _Counterpart("faithfulness_correlation", _SETS),
    "quantus:FaithfulnessEstimate": _Counterpart("faithfulness_estimate"),
    "quantus:FaithfulnessEstimate?perturb_baseline=mean": _Counterpart("faithfulness_estimate"),
    "quantus:PixelFlipping": _Counterpart("deletion"),
    "quantus:PixelFlipping?perturb_baseline=mean": _Counterpart("deletion"),
    "quantus:Sparseness": _Counterpart("sparseness"),
    "quantus:RelevanceRankAccuracy": _Counterpart("iou_at_area"),
}


def quantus_metrics(positions: int) -> dict[str, Metric]:
    """Return the metrics of ``QUANTUS``, for maps of some number of positions."""
    fifth = max(round(SUBSET * positions), 1)

    def full(name: str, parameters: str) -> str:
        return f"{name}{'&' if '?' in name else '?'}{parameters.format(fifth=fifth)}".rstrip("?&")

    return {name: quantus_metric(full(name, one.parameters)) for name, one in QUANTUS.items()}


def agreement(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return Spearman's correlation of each row, (N,), over the columns in which both (N, maps) scores are known.

    0 where the first are equal and rank nothing, NaN where the second are equal and there is nothing to rank.
    """
    found = np.full(len(first), np.nan)
    for row, (one, other) in enumerate(zip(first, second, strict=True)):
        known = np.isfinite(one) & np.isfinite(other)
        if known.sum() > 2 and np.ptp(other[known]) > 0:
            found[row] = np.nan_to_num(correlation.spearman(one[known], other[known]))
    return found


def _differ(first: np.ndarray, second: np.ndarray) -> bool:
    return not np.array_equal(first, second, equal_nan=True)


def _wins(scores: np.ndarray, kind: str) -> np.ndarray:
    """Return whether the truth has the better score than a map of grade 1, (N,): 1, 0, or 0.5 for equal scores."""
    truth, other = scores[:, 0], scores[:, MAPS.index((kind, GRADES[-1]))]
    return np.where(np.isfinite(truth - other), (truth > other) + (truth == other) / 2, np.nan)


def _summary(
    measured: Mapping[str, Mapping[str, Measured]], errors: Mapping[str, TrueErrors], seed: int = 0
) -> dict[str, dict]:
    """Return the figures of each metric on a group of networks, metric -> ``_figures``.

    ``measured`` is metric -> network -> scores, perhaps of the first inputs of a network only, without the networks on
    which the metric is not defined; ``errors`` is network -> true errors; ``seed`` is that of the bootstrap.
    """
    found = {metric: _figures(of_networks, errors) for metric, of_networks in measured.items() if of_networks}
    found = {metric: row for metric, row in found.items() if row}
    for metric in QUANTUS.keys() & found.keys():
        found[metric].update(_beside_ours(measured, errors, metric))
    if found.keys() - CONTROLS.keys() - QUANTUS.keys():
        _add_ranks(found, seed)
    return found


def _figures(of_networks: Mapping[str, Measured], errors: Mapping[str, TrueErrors]) -> dict[str, Any]:
    """Return the figures of one metric on some networks; empty where it is defined for no input or never varies."""
    first = {name: one.of_corruptions[0] for name, one in of_networks.items()}
    every = np.concatenate(list(first.values()))
    agreements = {name: agreement(each, -errors[name].of_corruptions[: len(each)]) for name, each in first.items()}
    correlated = _estimate(agreements)
    if correlated is None or not _differ(every, every[:, :1] + 0 * every):
        return {}
    return {
        "correlation": correlated,
        "by_network": {name: round(float(np.nanmean(column)), 4) for name, column in agreements.items()
                       if np.isfinite(column).any()},
        "truth": float(np.nanmean(every[:, 0])),
        "chance": float(np.nanmean(every[:, MAPS.index(("noise", GRADES[-1]))])),
        "methods": _estimate({name: agreement(one.of_methods, -errors[name].of_methods[: len(one.of_methods)])
                             for name, one in of_networks.items()}),
        **_figures_of_use(of_networks),
        **_figures_of_kinds(first, {name: one.of_corruptions for name, one in errors.items()}),
    }  # fmt: skip


def _beside_ours(
    measured: Mapping[str, Mapping[str, Measured]], errors: Mapping[str, TrueErrors], name: str
) -> dict[str, Any]:
    """Return our counterpart of a metric of Quantus, both correlations on the same maps, and theirs minus ours.

    A map that one of the two does not score, as Quantus does not score a map of zeros, counts for neither.
    """
    ours = QUANTUS[name].ours
    first, second = {}, {}
    for network, one in measured.get(name, {}).items():
        if other := measured.get(ours, {}).get(network):
            scores = one.of_corruptions[0], other.of_corruptions[0][: len(one.of_corruptions[0])]
            both, error = np.isfinite(scores[0] + scores[1]), -errors[network].of_corruptions[: len(scores[0])]
            first[network], second[network] = (agreement(np.where(both, each, np.nan), error) for each in scores)
    if not first:
        return {}
    differences = {network: first[network] - second[network] for network in first}
    return {
        "ours": ours, "of_quantus": _estimate(first), "of_ours": _estimate(second),
        "difference": _estimate(differences, bounds=(-2.0, 2.0)),
    }  # fmt: skip


def _figures_of_use(of_networks: Mapping[str, Measured]) -> dict[str, Any]:
    """Return the retest reliability and the cost of a metric."""
    measured = of_networks.values()
    return {
        "retest": _estimate({name: agreement(*one.of_corruptions) for name, one in of_networks.items()}),
        "deterministic": not any(_differ(*one.of_corruptions) for one in measured),
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
        within = {name: agreement(one[:, places], -errors[name][: len(one), places]) for name, one in scores.items()}
        found["by_kind"][kind] = _estimate(within)
        found["wins"][kind] = _estimate({name: _wins(one, kind) for name, one in scores.items()})
    return found


def _estimate(of_inputs: Mapping[str, np.ndarray], bounds: tuple[float, float] = (-1.0, 1.0)) -> list[float] | None:
    """Return the mean of one value for each input of some networks as [value, low, high, inputs, networks].

    The ends are those of a 95 % interval over networks. None where all values are NaN.
    """
    values = np.concatenate(list(of_inputs.values()))
    names = np.repeat(list(of_inputs), [len(column) for column in of_inputs.values()])
    known = np.isfinite(values)
    if not known.any():
        return None
    found = statistics.mean_interval(values[known], clusters=names[known], bounds=bounds)
    return [*(round(float(each), 4) for each in found[:3]), found.n, len(set(names[known]))]


def _add_ranks(rows: dict[str, dict], seed: int) -> None:
    """Add each metric's rank by its correlation, with a 95 % interval over networks, and its chance to be the first.

    A network on which a metric is not defined does not count for it. Controls are not ranked, nor are the metrics of
    Quantus, whose inputs are fewer.
    """
    ranked = [name for name in rows if name not in CONTROLS and name not in QUANTUS]
    networks = sorted({network for name in ranked for network in rows[name]["by_network"]})
    means = np.array([[rows[name]["by_network"].get(network, np.nan) for name in ranked] for network in networks])
    drawn = np.nan_to_num(statistics.bootstrap_means(means, seed=seed), nan=-np.inf)
    ranks = 1 + (drawn[:, np.newaxis, :] > drawn[:, :, np.newaxis]).sum(axis=2)
    place = 1 + np.argsort([-rows[name]["correlation"][0] for name in ranked]).argsort()
    for column, name in enumerate(ranked):
        low, high = np.quantile(ranks[:, column], (0.025, 0.975), method="inverted_cdf")
        rows[name]["rank"] = [int(place[column]), int(low), int(high), round(float((ranks[:, column] == 1).mean()), 3)]


def table(rows: Mapping[str, Mapping]) -> list[str]:
    """Return the Markdown table of one group of networks, from ``run``, the best metric first."""
    heads = (
        "rank", "metric", "corrupted exact maps", "maps of methods", "inputs", "retest", "passes", "maps", "right map",
        "random map",
    )  # fmt: skip
    lines = [f"| {' | '.join(heads)} |", "|---|---|---|---|---:|---:|---:|---:|---:|---:|"]
    for name in sorted(rows, key=lambda name: -rows[name]["correlation"][0]):
        row, sign = rows[name], 1 if rows[name]["better"] == "more" else -1
        place = "{} ({}–{})".format(*row["rank"]) if "rank" in row else "control" if name in CONTROLS else "–"
        cells = (
            place, f"`{name}`", shown(row["correlation"]), shown(row["methods"]), str(row["correlation"][3]),
            retest(row), f"{row['passes']:.3g}", f"{row['explanations']:.3g}", f"{sign * row['truth'] + 0:.3g}",
            f"{sign * row['chance'] + 0:.3g}",
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def retest(row: Mapping[str, Any]) -> str:
    """Return the retest reliability of a metric, "0.85"; "1" for a metric without random numbers."""
    return "1" if row["deterministic"] else shown(row["retest"], interval=False)


def shown(found: Sequence[float] | None, interval: bool = True) -> str:
    """Return an estimate as "0.85 (0.71 to 0.96)"; empty where there is none."""
    if found is None:
        return ""
    value, low, high = (f"{round(each, 2) + 0.0:.2f}" for each in found[:3])  # no negative zero
    return f"{value} ({low} to {high})" if interval else value


def _draw(found: Mapping[str, Mapping[str, Mapping]]) -> Any:
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


def run(
    metrics: Mapping[str, Metric],
    networks: Iterable[KnownNetwork],
    seed: int = 0,
    quantus_inputs: int = 0,
    folder: pathlib.Path | None = None,
) -> dict[str, dict[str, dict]]:
    """Measure metrics on networks, and return the ``_summary`` of each group of networks.

    ``quantus_inputs`` is the number of inputs of each network for the metrics of ``QUANTUS``, 0 for none of them.
    ``folder`` is where the scores of each network are kept, for a run that is stopped.
    """
    measured: dict[str, dict[str, dict[str, Measured]]] = {}
    by_group: dict[str, dict[str, Metric]] = {}
    errors = {}
    for network in tqdm.tqdm(list(networks), unit="network"):
        maps = known_maps(network)
        errors[network.name] = true_errors(network, maps)
        theirs = quantus_metrics(int(np.prod(network.batch.pictures.shape[1:]))) if quantus_inputs else {}
        found = _scored(metrics, network, maps, folder)
        found |= _scored(theirs, *first_inputs(network, maps, quantus_inputs), folder)
        by_group[network.group] = {**metrics, **theirs}
        of_group = measured.setdefault(network.group, {name: {} for name in by_group[network.group]})
        for name, one in found.items():
            of_group[name][network.name] = one
    summaries = {group: _summary(of_group, errors, seed) for group, of_group in measured.items()}
    for group, rows in summaries.items():
        for name, row in rows.items():
            row["called"], row["better"] = by_group[group][name].name, by_group[group][name].better
    return summaries


def _scored(
    metrics: Mapping[str, Metric], network: KnownNetwork, maps: KnownMaps, folder: pathlib.Path | None
) -> dict[str, Measured]:
    """Return the scores of each metric that is defined on a network; from ``folder`` where they are there."""
    if folder is None or not metrics:
        return {name: one for name, metric in metrics.items() if (one := measure(metric, network, maps))}
    key = _key(metrics, network)
    file = folder / f"{network.name.replace('/', '-')}-{key[:12]}.json"
    found = read_measured(file, key)
    if found is None:
        found = _scored(metrics, network, maps, None)
        write_measured(file, key, found)
    return found


def _key(metrics: Mapping[str, Metric], network: KnownNetwork) -> str:
    """Return a hash of all that the scores of a network's maps depend on."""
    depends = {name: [metric.name, code_and_versions(_function(metric))] for name, metric in metrics.items()}
    return hashlib.sha256(json.dumps(depends).encode() + network.batch.pictures.tobytes()).hexdigest()


def _function(metric: Metric) -> Any:
    assert metric.measure is not None
    return metric.measure.function


def chosen(names: Sequence[str]) -> dict[str, Metric]:
    """Return the metrics of some names, all when empty, with those of ``CONTROLS``."""
    return {**select_metrics(names or METRIC_REGISTRY, {}), **CONTROLS}


def main(flag_values: flags.FlagValues) -> None:
    """Measure, print the tables, and write the files of ``--output_dir``."""
    check_directory("output_dir", flag_values.output_dir)
    metrics = chosen(flag_values.metrics)
    folder = pathlib.Path(flag_values.output_dir) if flag_values.output_dir else None
    networks = known_networks(flag_values.inputs, flag_values.seed)
    found = run(metrics, networks, flag_values.seed, flag_values.quantus_inputs, folder and folder / "networks")
    text = "\n\n".join("\n".join([f"## {group}", "", *table(rows)]) for group, rows in found.items())
    print_text(text + "\n")
    if folder:
        from attribution_benchmarks.core.figures import save_figure

        record = {
            "inputs_per_network": flag_values.inputs,
            "quantus_inputs": flag_values.quantus_inputs,
            "seed": flag_values.seed,
            "groups": found,
        }
        atomic_write(folder / "which_metric.json", json.dumps(record, indent=1) + "\n")
        atomic_write(folder / "which_metric.md", text + "\n")
        save_figure(_draw(found), folder, "which_metric")


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
