"""Measure which metrics tell a right map from a wrong one, on sampled networks whose truth is known.

    python -m attribution_benchmarks.exact.meta_evaluation --output_dir=meta
    python -m attribution_benchmarks.exact.meta_evaluation --metrics=insertion,my_metric.py:MINE --networks=3
    python -m attribution_benchmarks.exact.meta_evaluation --metrics=deletion,quantus:PixelFlipping --inputs=1

Networks come from the generators of ``exact.sampled_networks``. Exact maps with several values of absent positions are
corrupted in known grades (``exact.known_networks``). A metric that measures whether a map is right ranks the corrupted
maps of an input by their true error. The rank correlation of the two is computed for each input, so that easy and
difficult inputs do not matter, for each truth and each measure of the error. docs/which_metric.md has the results.

Other values of ``--seed`` give other networks, inputs and corruptions. Quantus scores maps and changed inputs one by
one. ``--quantus_networks=3`` adds its metrics that compare with ours (``QUANTUS``), on one input of the first three
networks of each generator.

Cost: about 20 CPU minutes on one core for all metrics, ten networks of each generator and two inputs of each.
A stopped run with the same ``--output_dir`` resumes after the last network that it completed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import pathlib
import re
import warnings
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
from attribution_benchmarks.core.tables import markdown_table
from attribution_benchmarks.exact._metric_scores import (
    ERRORS,
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
from attribution_benchmarks.exact.known_networks import GRADES, KINDS, KnownNetwork
from attribution_benchmarks.exact.metrics import OVERALL
from attribution_benchmarks.exact.sampled_networks import GENERATORS, TRUTHS, generator_of, sampled_networks
from attribution_benchmarks.metrics.faithfulness import SUBSET, SUBSETS
from attribution_benchmarks.metrics.map_values import ratio
from attribution_benchmarks.metrics.of_libraries import quantus_metric
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY, select_metrics
from attribution_benchmarks.stats import correlation, statistics

FLAGS = flags.FlagValues()
flags.DEFINE_list("metrics", [], "metrics by name, or file.py:NAME; all when empty", flag_values=FLAGS)
flags.DEFINE_integer("networks", 10, "networks of each generator, at least two", 2, flag_values=FLAGS)
flags.DEFINE_integer("inputs", 2, "inputs of each network", 1, 100, flag_values=FLAGS)
flags.DEFINE_integer(
    "quantus_networks", 0, "networks of each generator for the metrics of Quantus that compare with ours", 0,
    flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_string(
    "output_dir", "", "directory for which_metric.json, .md and .png, and for the networks completed", flag_values=FLAGS
)
flags.DEFINE_integer("seed", 0, "of networks, inputs and corruptions", flag_values=FLAGS)

CELLS = tuple(itertools.product(TRUTHS, ERRORS))
SPLITS = 50  # of generators and corruptions in halves
_FEWEST = 4  # metrics, for a correlation over them


CONTROLS = {  # of the meta-evaluation itself
    "random_score": of_maps("random_score", random_score, title="Random number"),
    **{metric.name: metric for metric in OVERALL},
}


class _Counterpart(NamedTuple):
    """The metric here that is nearest to one of Quantus, and the parameters that make them comparable."""

    ours: str
    parameters: str = ""


_SETS = f"subset_size={{fifth}}&nr_runs={SUBSETS}"
# Metrics that compare with ours. MaxSensitivity is skipped: it needs exact maps of noisy inputs one by one.
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
    """Return Spearman's correlation over the last axis, where both (..., maps) scores are known; they broadcast.

    0 where the first are equal and rank nothing, NaN where the second are equal and there is nothing to rank, or fewer
    than three are known.
    """
    from scipy.stats import rankdata

    first, second = np.broadcast_arrays(first, second)
    known = np.isfinite(first) & np.isfinite(second)
    count = known.sum(axis=-1, keepdims=True)
    # Unknown ones come last, so that they do not change the ranks of the others.
    ranks = (np.where(known, rankdata(np.where(known, each, np.inf), axis=-1), 0.0) for each in (first, second))
    ours, theirs = (np.where(known, each - each.sum(-1, keepdims=True) / np.maximum(count, 1), 0.0) for each in ranks)
    norms = [np.linalg.norm(each, axis=-1) for each in (ours, theirs)]
    found = ratio((ours * theirs).sum(axis=-1), norms[0] * norms[1], 0.0)
    return np.where((count[..., 0] > 2) & (norms[1] > 0), found, np.nan)


@dataclasses.dataclass(frozen=True)
class Scored:
    """All that was measured on one network."""

    name: str
    truths: np.ndarray  # (N,) of ``TRUTHS``, of each input
    errors: TrueErrors
    measured: Mapping[str, Measured]  # metric -> scores of all inputs, or of the first ones


def score(
    metrics: Mapping[str, Metric], network: KnownNetwork, quantus: bool = False, folder: pathlib.Path | None = None
) -> Scored:
    """Return the scores of metrics on a network, and of those of ``QUANTUS`` on one input.

    ``folder`` is where the scores of each network are kept, for a run that is stopped.
    """
    maps = known_maps(network)
    theirs = quantus_metrics(int(np.prod(network.batch.pictures.shape[1:]))) if quantus else {}
    found = _scored(metrics, network, maps, folder) | _scored(theirs, *first_inputs(network, maps, 1), folder)
    return Scored(network.name, np.asarray(network.batch.truth["truth"]), true_errors(network, maps), found)


def _scored(
    metrics: Mapping[str, Metric], network: KnownNetwork, maps: KnownMaps, folder: pathlib.Path | None
) -> dict[str, Measured]:
    """Return the scores of each metric that is defined on a network; from ``folder`` where they are there."""
    if folder is None or not metrics:
        return measure(metrics, network, maps)
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


def _mean(values: Any) -> float | None:
    """Return the mean of what is known, to four digits; None where nothing is."""
    values = np.asarray(values, np.float64)
    return round(float(np.nanmean(values)), 4) + 0.0 if np.isfinite(values).any() else None


def _by_cell(one: Measured, network: Scored) -> dict[str, float | None]:
    """Return the mean agreement with each truth and error, "zero, distance" -> value."""
    scores = one.of_corruptions[0]
    found = agreement(scores, -network.errors.of_corruptions[:, : len(scores)])
    truths = network.truths[: len(scores)]
    places = {error: place for place, error in enumerate(ERRORS)}
    return {f"{truth}, {error}": _mean(found[places[error], truths == truth]) for truth, error in CELLS}


def _by_kind(one: Measured, network: Scored) -> dict[str, float | None]:
    """Return the mean agreement with the distance within the grades of each corruption."""
    scores, found = one.of_corruptions[0], {}
    for kind in KINDS:
        places = [0, *(place for place, (each, _) in enumerate(MAPS) if each == kind and place)]
        found[kind] = _mean(agreement(scores[:, places], -network.errors.of_corruptions[0, : len(scores), places].T))
    return found


def summary(networks: Sequence[Scored], metrics: Mapping[str, Metric]) -> dict[str, Any]:
    """Return what docs/which_metric.json holds of networks: the figures of each metric that varies on one of them."""
    networks = [_without_constants(one) for one in networks]
    rows = {name: _figures(name, networks) for name in dict.fromkeys(name for one in networks for name in one.measured)}
    for name, row in rows.items():
        metric = metrics.get(name) or quantus_metrics(1)[name]
        row["better"] = metric.better
    return {"networks": [one.name for one in networks], "metrics": rows, "halves": halves(networks, rows)}


def _without_constants(one: Scored) -> Scored:
    """Return the scores of a network without metrics that never vary between its maps, as blur does not on vectors."""
    varying = {
        name: each
        for name, each in one.measured.items()
        if (
            np.nanmax(each.of_corruptions, 2, initial=-np.inf) > np.nanmin(each.of_corruptions, 2, initial=np.inf)
        ).any()
    }
    return dataclasses.replace(one, measured=varying)


def _figures(name: str, networks: Sequence[Scored]) -> dict[str, Any]:
    """Return the figures of one metric.

    Lists have one entry a network, None where the metric is not defined.
    """
    known = [(one.measured[name], one) for one in networks if name in one.measured]
    kinds = [_by_kind(*each) for each in known]
    of_methods = [agreement(one.of_methods, -each.errors.of_methods[0, : len(one.of_methods)]) for one, each in known]
    return {
        "agreement": _by_network(name, networks),
        "by_kind": {kind: _mean([each[kind] for each in kinds]) for kind in KINDS},
        "methods": [_mean(each) for each in of_methods],
        **_over_inputs([one for one, _ in known]),
        **(_beside_ours(name, networks) if name in QUANTUS else {}),
    }


def _by_network(name: str, networks: Sequence[Scored]) -> dict[str, list[float | None]]:
    """Return the mean agreement of one metric with each truth and error on each network."""
    cells = [_by_cell(one.measured[name], one) if name in one.measured else {} for one in networks]
    return {", ".join(cell): [each.get(", ".join(cell)) for each in cells] for cell in CELLS}


def _over_inputs(known: Sequence[Measured]) -> dict[str, Any]:
    """Return the figures of one metric that do not depend on the true errors."""
    corruptions = [one.of_corruptions for one in known]
    every = np.concatenate([first for first, _ in corruptions])
    return {
        "retest": _mean(np.concatenate([agreement(*each) for each in corruptions])),
        "deterministic": all(np.array_equal(first, again, equal_nan=True) for first, again in corruptions),
        **{cost: float(np.mean([getattr(one, cost) for one in known])) for cost in ("passes", "explanations")},
        "truth": float(np.nanmean(every[:, 0])),
        "chance": float(np.nanmean(every[:, MAPS.index(("noise", GRADES[-1]))])),
    }


def _beside_ours(name: str, networks: Sequence[Scored]) -> dict[str, Any]:
    """Return the agreement with the distance of a metric of Quantus and of ours, on the maps that both score."""
    ours = QUANTUS[name].ours
    found: dict[str, Any] = {"ours": ours, "of_quantus": [], "of_ours": []}
    for one in networks:
        if name in one.measured and ours in one.measured:
            first = one.measured[name].of_corruptions[0]
            second = one.measured[ours].of_corruptions[0][: len(first)]
            errors = np.where(np.isfinite(first + second), -one.errors.of_corruptions[0, : len(first)], np.nan)
            found["of_quantus"].append(_mean(agreement(first, errors)))
            found["of_ours"].append(_mean(agreement(second, errors)))
    return found


def halves(networks: Sequence[Scored], names: Iterable[str], seed: int = 0) -> dict[str, dict[str, list[float]]]:
    """Return how well the order of metrics on one half predicts the order on the other half.

    What is split -> error -> [mean, low, high] of Spearman's correlation over metrics: the mean of ``SPLITS`` splits,
    and their 2.5 and 97.5 % quantiles. The metrics are those that are defined on every network. The halves of "both"
    have neither generators nor corruptions in common, but for the exact maps.
    """
    names = [name for name in ranked(names) if all(name in one.measured for one in networks)]
    origin = np.repeat([generator_of(one.name) for one in networks], [len(one.truths) for one in networks])
    if len(names) < _FEWEST or len(np.unique(origin)) < 2:
        return {}
    scores = np.stack([np.concatenate([one.measured[name].of_corruptions[0] for one in networks]) for name in names])
    errors = np.concatenate([one.errors.of_corruptions for one in networks], axis=1)
    kinds, draw = np.array([kind for kind, _ in MAPS]), np.random.default_rng(seed)
    every = _by_input(scores, errors, kinds == kinds)
    found = []
    for _ in range(SPLITS):
        rows, columns = (np.isin(each, draw.permutation(np.unique(each))[::2]) for each in (origin, kinds))
        half, other = (_by_input(scores, errors, each) for each in (columns, ~columns))
        pairs = (every[..., rows], every[..., ~rows]), (half, other), (half[..., rows], other[..., ~rows])
        found.append([correlation.spearman(*(np.nanmean(each, axis=2) for each in pair)) for pair in pairs])
    columns = np.array(found).transpose(1, 2, 0)
    return {
        split: {error: [round(float(each), 3) for each in (values.mean(), *np.quantile(values, (0.025, 0.975)))]
                for error, values in zip(ERRORS, by_error, strict=True)}
        for split, by_error in zip(("generators", "corruptions", "both"), columns, strict=True)
    }  # fmt: skip


def _by_input(scores: np.ndarray, errors: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return the agreement of metrics with errors, (errors, metrics, inputs), over some maps and the exact one."""
    columns = columns | (np.arange(len(columns)) == 0)
    return agreement(scores[..., columns], -errors[:, np.newaxis, :, columns])


def ranked(names: Iterable[str]) -> list[str]:
    """Return the metrics that are ranked: no controls, and none of Quantus, whose inputs are fewer."""
    return [name for name in names if name not in CONTROLS and name not in QUANTUS]


def agreements(record: Mapping[str, Any], names: Iterable[str]) -> np.ndarray:
    """Return the agreement of metrics by truth and error, and network, (metrics, cells, networks); NaN for none."""
    keys, rows = [", ".join(cell) for cell in CELLS], record["metrics"]
    return np.array([[rows[name]["agreement"][key] for key in keys] for name in names], np.float64)


def ranks(record: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the rank of each metric by each truth and error, (cells,): one more than are better on shared networks."""
    names = ranked(record["metrics"])
    values = agreements(record, names)
    with warnings.catch_warnings(action="ignore"):  # no shared network
        better = np.array([np.nanmean(values - one, axis=2) > 0 for one in values])
    return dict(zip(names, 1 + better.sum(axis=1), strict=True))


def verdicts(differences: np.ndarray) -> np.ndarray:
    """Return 1, -1 or 0 where the 95 % interval of a mean is above, below or around 0; (...) of (..., networks)."""
    columns = differences.reshape(-1, differences.shape[-1]).T
    low, high = statistics.means(columns).intervals()
    return ((low > 0).astype(int) - (high < 0)).reshape(differences.shape[:-1])


def compared(record: Mapping[str, Any]) -> dict[tuple[str, str], np.ndarray]:
    """Return the verdicts of the first minus the second metric by truth and error, (cells,), of all ranked pairs."""
    names = ranked(record["metrics"])
    values, pairs = agreements(record, names), np.array([*itertools.permutations(range(len(names)), 2)], int)
    if len(names) < 2:
        return {}
    found = verdicts(values[pairs[:, 0]] - values[pairs[:, 1]])
    return {(names[first], names[second]): each for (first, second), each in zip(pairs, found, strict=True)}


def estimate(values: Any, bounds: tuple[float, float] = (-1.0, 1.0)) -> Sequence[float] | None:
    """Return the mean of one number a network with its 95 % interval over networks; None where nothing is known."""
    values = np.asarray(values, np.float64)
    return (
        statistics.mean_interval(values[np.isfinite(values)], bounds=bounds)[:3] if np.isfinite(values).any() else None
    )


def by_error(record: Mapping[str, Any], name: str) -> np.ndarray:
    """Return the agreement of a metric, averaged over truths, (errors, networks)."""
    values = agreements(record, [name])[0].reshape(len(TRUTHS), len(ERRORS), -1)
    with warnings.catch_warnings(action="ignore"):
        return np.asarray(np.nanmean(values, axis=0))


def table(record: Mapping[str, Any]) -> str:
    """Return the Markdown table of metrics, from ``run``, the best mean rank first."""
    heads = [
        "rank",
        "metric",
        "above",
        *ERRORS,
        "maps of methods",
        "retest",
        "passes",
        "maps",
        "right map",
        "random map",
    ]
    places, pairs, body = ranks(record), compared(record), []
    for name in ordered(record):
        row, sign = record["metrics"][name], 1 if record["metrics"][name]["better"] == "more" else -1
        place, above = "control" if name in CONTROLS else "–", ""
        if name in places:
            place = f"{np.median(places[name]):.0f} ({places[name].min()}–{places[name].max()})"
            above = str(sum((each > 0).all() for (first, _), each in pairs.items() if first == name))
        first, *others = (estimate(values) for values in by_error(record, name))
        body.append([
            place, f"`{name}`", above, shown(first), *(shown(each, interval=False) for each in others),
            shown(estimate(row["methods"])), retest(row), f"{row['passes']:.3g}", f"{row['explanations']:.3g}",
            f"{sign * row['truth'] + 0:.3g}", f"{sign * row['chance'] + 0:.3g}",
        ])  # fmt: skip
    return markdown_table(heads, body)


def ordered(record: Mapping[str, Any]) -> list[str]:
    """Return all metrics, those that are ranked by their mean rank, others by their mean agreement among them."""
    places, rows = ranks(record), record["metrics"]
    means = {name: np.nanmean(agreements(record, [name])) for name in rows}
    first = sorted(places, key=lambda name: places[name].mean())
    for name in sorted(rows.keys() - places.keys(), key=means.__getitem__):
        first.insert(next((i for i, each in enumerate(first) if means[each] < means[name]), len(first)), name)
    return first


def retest(row: Mapping[str, Any]) -> str:
    """Return the retest reliability of a metric, "0.85"; "1" for a metric without random numbers."""
    return "1" if row["deterministic"] else f"{row['retest']:.2f}"


def shown(found: Sequence[float] | None, interval: bool = True) -> str:
    """Return an estimate as "0.85 (0.71 to 0.96)"; empty where there is none."""
    if found is None:
        return ""
    value, low, high = (f"{round(each, 2) + 0.0:.2f}" for each in found[:3])  # no negative zero
    return f"{value} ({low} to {high})" if interval else value


def _draw(record: Mapping[str, Any]) -> Any:
    """Return the figure: agreement by measure of the error, by generator and truth, and by corruption."""
    from matplotlib.figure import Figure

    names = ordered(record)[::-1]
    labels = [re.sub(r"\?\w+=", ", ", name) for name in names]  # the value of a parameter alone
    columns = len(GENERATORS) + len(TRUTHS)
    figure: Any = Figure(figsize=(8.5, 3 + 0.4 * len(names)), layout="constrained")  # as wide as a page's text
    above, below = figure.subfigures(2, 1, height_ratios=[0.8, 1])
    errors = above.subplots()
    heats = below.subplots(1, 2, sharey=True, width_ratios=[columns, len(KINDS)])
    for axis in (errors, heats[0]):
        axis.set(yticks=range(len(names)), yticklabels=labels, ylim=(-0.7, len(names) - 0.3))
        axis.tick_params("y", labelsize=9)
    _draw_errors(errors, record, names)
    origins = _by_generator_and_truth(record, names)
    kinds = [[record["metrics"][name]["by_kind"][kind] for kind in KINDS] for name in names]
    _heat(heats[0], origins, [*GENERATORS, *(f"truth: {truth}" for truth in TRUTHS)])
    image = _heat(heats[1], np.array(kinds, np.float64), list(KINDS))
    heats[0].set_title("By generator and truth")
    heats[1].set_title("Within the grades of one corruption")
    below.colorbar(image, ax=heats, label="rank correlation with the distance", orientation="horizontal", aspect=60)
    return figure


def _draw_errors(axis: Any, record: Mapping[str, Any], names: Sequence[str]) -> None:
    """Draw a metric's correlation with each error, averaged over truths, and the range over truths and errors."""
    for place, name in enumerate(names):
        cells = agreements(record, [name])[0]
        cells = np.nanmean(cells[np.isfinite(cells).any(axis=1)], axis=1)
        axis.hlines(place, cells.min(), cells.max(), color="lightgray", linewidth=4)
    for error, marker, values in zip(
        ERRORS, "osd^", np.array([by_error(record, name) for name in names]).swapaxes(0, 1), strict=True
    ):
        axis.plot(np.nanmean(values, axis=1), range(len(names)), marker, markersize=4, label=error)
    axis.axvline(0, color="gray", linewidth=0.8)
    axis.set(xlim=(-0.6, 1.02), title="Rank correlation with the true error")
    axis.legend(loc="lower right")
    axis.grid(axis="y", linewidth=0.3)


def _by_generator_and_truth(record: Mapping[str, Any], names: Sequence[str]) -> np.ndarray:
    """Return the correlation with the distance, (metrics, generators + truths), NaN where a metric does not apply."""
    origin = np.array([generator_of(network) for network in record["networks"]])
    reference = agreements(record, names)[:, :: len(ERRORS)]  # by the distance, (metrics, truths, networks)
    with warnings.catch_warnings(action="ignore"):  # of means of nothing
        generators = [np.nanmean(reference[..., origin == generator], axis=(1, 2)) for generator in GENERATORS]
        return np.stack([*generators, *np.nanmean(reference, axis=2).T], axis=1)


def _heat(axis: Any, values: np.ndarray, columns: Sequence[str]) -> Any:
    """Draw numbers, (metrics, columns), with their colors; return matplotlib's image."""
    image = axis.imshow(values, cmap="RdBu", vmin=-1, vmax=1, aspect="auto")
    axis.set_xticks(range(len(columns)), [each.replace("_", " ") for each in columns], rotation=90)
    for row, column in np.argwhere(np.isfinite(values)):
        value = values[row, column].round(1) + 0.0  # no negative zero
        color = "white" if abs(value) > 0.6 else "black"
        text = f"{value:.0f}" if value in (-1, 0, 1) else f"{value:.1f}".replace("0.", ".")
        axis.text(column, row, text, ha="center", va="center", fontsize=8, color=color)
    return image


def as_json(record: Mapping[str, Any]) -> str:
    """Return a record with one line for each list."""
    return re.sub(r"\n {4,}(?=[^\n]*)", " ", json.dumps(record, indent=1)) + "\n"


def chosen(names: Sequence[str]) -> dict[str, Metric]:
    """Return the metrics of some names, all when empty, with those of ``CONTROLS``."""
    return {**select_metrics(names or METRIC_REGISTRY, {}), **CONTROLS}


def main(flag_values: flags.FlagValues) -> None:
    """Measure, print the table, and write the files of ``--output_dir``."""
    check_directory("output_dir", flag_values.output_dir)
    metrics = chosen(flag_values.metrics)
    folder = pathlib.Path(flag_values.output_dir) if flag_values.output_dir else None
    networks = sampled_networks(flag_values.networks, flag_values.inputs, flag_values.seed)
    total = len(GENERATORS) * flag_values.networks
    scored = []
    for place, network in enumerate(tqdm.tqdm(networks, unit="network", total=total)):
        quantus = place % flag_values.networks < flag_values.quantus_networks
        scored.append(score(metrics, network, quantus, folder and folder / "networks"))
    record = {name: flag_values[name].value for name in ("seed", "inputs", "quantus_networks")} | summary(
        scored, metrics
    )
    text = table(record)
    print_text(text)
    if folder:
        from attribution_benchmarks.core.figures import save_figure

        atomic_write(folder / "which_metric.json", as_json(record))
        atomic_write(folder / "which_metric.md", text)
        save_figure(_draw(record), folder, "which_metric")


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
