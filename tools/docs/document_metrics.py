"""Write docs/metrics.md from the entries of the metrics.

    python tools/docs/document_metrics.py
    python tools/docs/document_metrics.py --measure --num_imgs=24

The second first measures which metrics distinguish the ground truth from a random map and from an edge detector, on
sampled images of objects and the network that classifies them, and writes the figures to docs/metrics_power.json.

Cost: seconds, and with --measure a minute on two cores.
"""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Mapping, Sequence

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
from absl import flags  # noqa: E402

from attribution import cli  # noqa: E402
from attribution.file_io.files import atomic_write  # noqa: E402
from attribution_benchmarks.core.metric import Metric  # noqa: E402
from attribution_benchmarks.metrics import complexity, faithfulness, in_domain, localisation, regions, sanity  # noqa: E402
from attribution_benchmarks.metrics.of_quantus import NAMES  # noqa: E402
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY  # noqa: E402

POWER = ROOT / "docs" / "metrics_power.json"
EXAMPLE = "python -m bim.metrics --methods=gradient,grad_cam --metrics=roc_auc,insertion_deletion --num_imgs=4"
FLAGS = flags.FlagValues()
flags.DEFINE_string("output", str(ROOT / "docs" / "metrics.md"), "file to write", flag_values=FLAGS)
flags.DEFINE_bool("measure", False, "measure the metrics' power again", flag_values=FLAGS)
flags.DEFINE_integer("num_imgs", 24, "images to measure on", 2, flag_values=FLAGS)


_CONTROLS = {"random": "random map", "edge_detector": "edge detector"}
_TRUTH = "ground_truth"
_PARTS: tuple[tuple[str, str, tuple[Metric, ...]], ...] = (
    (
        "Localization",
        "Is a map high inside a ground-truth mask? Positions count by their magnitude: absolute values, summed over "
        "channels.",
        localisation.METRICS,
    ),
    (
        "Complexity",
        "How few positions hold a map? Positions count by their magnitude. These metrics describe a map; they do "
        "not say whether it is right.",
        complexity.METRICS,
    ),
    (
        "Faithfulness",
        "Does the network's score change when the positions that a map ranks high are removed? Positions count by "
        "their evidence: signed values, summed over channels. Probabilities are of the explained class.",
        (*faithfulness.METRICS, *regions.METRICS, *in_domain.METRICS),
    ),
    (
        "Sanity",
        "Does a map depend on the learnt weights and on the explained class, and little on noise? These metrics "
        "compute further maps, so precomputed maps and model-independent baselines have none.",
        sanity.METRICS,
    ),
)
_HEAD = """# Metrics of every benchmark

Generated from the entries in `attribution_benchmarks/metrics` by `python tools/docs/document_metrics.py`; do not edit.

Select them with `--metrics`, together with a benchmark's metrics ([benchmarks.md](benchmarks.md)) and custom ones
([extend.md](extend.md)):

```bash
EXAMPLE
```

The same flag of `scripts/reproduce_tables.py` adds them to the report. A pass is a forward pass of one input. Passes
are batched across inputs and steps, and results that do not depend on a map are computed once. The points of curves
(`insertion`, `deletion`) and the stages of `randomisation` are stored with the score.

**Metrics of Quantus.** `--metrics=quantus:PixelFlipping` runs Quantus's class on the same maps and models, after
`pip install 'attribution-benchmarks[quantus]'`. Parameters follow as in an address:
`--metrics="quantus:FaithfulnessCorrelation?subset_size=4&nr_runs=50"`. Curves are averaged. Each input is scored
alone, with its own seed, so that no value depends on the batch. A map that Quantus refuses, one of equal values or of
negative values alone, has no value. The other classes of Quantus compare the inputs of a batch, need Keras layers or
mosaics, or return no number for an input. These are available: OFFERED.

Metrics with a published name differ from Quantus's where their entry says so. Quantus's `Monotonicity` is true of every
map for a constant baseline. Its `Completeness` compares floating-point numbers for equality. Its
`RelevanceMassAccuracy` divides signed sums, so that it leaves 0 to 1.
"""


def main(values: flags.FlagValues) -> None:
    """Write the page, with --measure after measuring the power."""
    if values.measure:
        command = f"python tools/docs/document_metrics.py --measure --num_imgs={values.num_imgs}"
        power = summary(*measured(values.num_imgs), command, EXAMPLE)
        atomic_write(POWER, json.dumps(power, indent=1) + "\n")
    power = json.loads(POWER.read_text(encoding="utf-8"))
    atomic_write(pathlib.Path(values.output), page(power))


def measured(images: int) -> tuple[dict, str]:
    """Return metric -> map -> one value per image, and a description of the images."""
    from attribution_benchmarks.core.runner import Run
    from bim import metrics

    shared = [
        name
        for name, metric in METRIC_REGISTRY.items()
        if metric.measure.of_controls and not metric.measure.needs_explainer
    ]
    flag_values = metrics.FLAGS
    flag_values(["metrics", "--methods=", f"--metrics={','.join(shared)}", f"--num_imgs={images}"])
    run = Run(metrics.COMMAND.benchmark, flag_values)
    run.benchmark.load(run)
    drawn = run.data.drawn("obj")
    found = run.data.measured("obj", "obj", drawn)
    counted = found.predicted == found.labels
    values = {
        name: {source: columns[source][counted].tolist() for source in (*_CONTROLS, _TRUTH)}
        for name, columns in found.shared.items()
    }
    about = f"BIM's {int(counted.sum())} of {len(drawn)} drawn images that the network of objects classifies correctly"
    return values, about


def page(power: Mapping) -> str:
    """Return the whole page as Markdown, with the power of metrics from ``summary``."""
    lines = [
        _HEAD.replace("EXAMPLE", power["example"]).replace("OFFERED", ", ".join(f"`{one}`" for one in sorted(NAMES))),
        "| name | metric | better | range | cost |",
        "|---|---|---|---|---|",
    ]
    for metric in METRIC_REGISTRY.values():
        cells = (f"[`{metric.name}`](#{metric.name})", metric.title, metric.better, _range(metric), metric.cost)
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", *_power_lines(power)]
    for heading, about, metrics in _PARTS:
        lines += ["", f"## {heading}", "", about]
        for metric in metrics:
            lines += ["", *_sheet(metric)]
    return "\n".join(lines) + "\n"


def summary(values: Mapping[str, Mapping[str, Sequence[float]]], inputs: str, command: str, example: str) -> dict:
    """Return the power of metrics for ``page``.

    Parameters
    ----------
    values
        Metric -> map ("ground_truth", "random", "edge_detector") -> one value an input.
    inputs
        Description of the inputs.
    command, example
        Commands that measure the power, and that select some of the metrics.
    """
    metrics = {}
    for name, columns in values.items():
        sign = 1 if METRIC_REGISTRY[name].better == "more" else -1
        wins = {}
        for control in _CONTROLS:
            better = sign * (np.asarray(columns[_TRUTH]) - np.asarray(columns[control]))
            better = better[np.isfinite(better)]
            wins[control] = round(float(np.mean(better > 0) + np.mean(better == 0) / 2), 3)
        means = {each: round(float(np.nanmean(column)), 3) for each, column in columns.items()}
        metrics[name] = {"means": means, "wins": wins}
    return {"inputs": inputs, "command": command, "example": example, "metrics": metrics}


def ranked(power: Mapping) -> list[str]:
    """Return the metrics by their least share of wins over a control, the largest first."""

    def key(name: str):
        wins = power["metrics"][name]["wins"].values()
        return -min(wins), -sum(wins), name

    return sorted(power["metrics"], key=key)


def _range(metric: Metric) -> str:
    low, high = metric.bounds
    if np.isinf(low):
        return f"up to {high:g}"
    return f"{low:g} upwards" if np.isinf(high) else f"{low:g} to {high:g}"


def _power_lines(power: Mapping) -> list[str]:
    lines = [
        "## Which metrics distinguish a good map from a random one",
        "",
        f"The ground truth as a map, compared with maps that are independent of the network: {power['inputs']}. “Wins” "
        "is the share of inputs on which the ground truth has the better value, ties as one half: 1.000 is perfect, "
        "0.500 is chance. Metrics are ranked by the smaller share.",
        "",
        f"| metric | better | ground truth | {' | '.join(_CONTROLS.values())} | "
        f"{' | '.join(f'wins over {title}' for title in _CONTROLS.values())} |",
        "|---|---|" + "---:|" * (1 + 2 * len(_CONTROLS)),
    ]
    for name in ranked(power):
        means, wins = power["metrics"][name]["means"], power["metrics"][name]["wins"]
        figures = [*(means[source] for source in (_TRUTH, *_CONTROLS)), *(wins[control] for control in _CONTROLS)]
        cells = [f"[`{name}`](#{name})", METRIC_REGISTRY[name].better, *(f"{figure:.3f}" for figure in figures)]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, "", f"`{power['command']}` reproduces it."]


def _sheet(metric: Metric) -> list[str]:
    return [
        f'<a id="{metric.name}"></a>',
        "",
        f"### {metric.title}, `{metric.name}`",
        "",
        metric.about,
        "",
        f"- **Source.** {metric.source}",
        f"- **Range.** {_range(metric)}; {metric.better} is better",
        f"- **Cost.** {metric.cost}",
        f"- **A random map gets** {metric.chance}",
        f"- **Limitations.** {metric.criticism}",
    ]


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
