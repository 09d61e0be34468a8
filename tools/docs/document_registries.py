"""Write docs/methods.md and docs/metrics.md from the registries of methods and metrics.

    python tools/docs/document_registries.py

The retest reliability is that of docs/which_metric.json, see ``document_which_metric.py``.

Cost: seconds.
"""

from __future__ import annotations

import inspect
import json
import pathlib
import re
import sys
from collections.abc import Iterable, Mapping

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
from absl import flags  # noqa: E402

from attribution import cli  # noqa: E402
from attribution.files import atomic_write  # noqa: E402
from attribution.methods.method import Method  # noqa: E402
from attribution.methods.registry import METHODS  # noqa: E402
from attribution_benchmarks import metrics  # noqa: E402
from attribution_benchmarks.core.metric import Metric  # noqa: E402
from attribution_benchmarks.exact.meta_evaluation import retest  # noqa: E402
from attribution_benchmarks.metrics.registry import METRIC_REGISTRY  # noqa: E402

RELIABILITY = ROOT / "docs" / "which_metric.json"
EXAMPLE = "python -m bim.metrics --methods=gradient,grad_cam --metrics=roc_auc,insertion_deletion --num_imgs=4"
HEAD = ROOT / "tools" / "docs" / "methods_head.md"  # its lines "{methods of: a family, another}" become tables
FLAGS = flags.FlagValues()
flags.DEFINE_string("output_dir", str(ROOT / "docs"), "folder of both pages", flag_values=FLAGS)
_PARTS: tuple[tuple[str, str, tuple[Metric, ...]], ...] = (
    (
        "Localization",
        "Is a map high inside a ground-truth mask? Positions count by their magnitude: absolute values, summed over "
        "channels.",
        metrics.localisation.METRICS,
    ),
    (
        "Complexity",
        "How few positions hold a map? Positions count by their magnitude. These metrics describe a map; they do "
        "not say whether it is right.",
        metrics.complexity.METRICS,
    ),
    (
        "Faithfulness",
        "Does the network's score change when the positions that a map ranks high are removed? Positions count by "
        "their evidence: signed values, summed over channels. Probabilities are of the explained class. A constant "
        "added to all positions changes Completeness and Infidelity, but neither orders of positions nor correlations "
        "over sets of equal size.",
        (*metrics.faithfulness.METRICS, *metrics.regions.METRICS, *metrics.in_domain.METRICS),
    ),
    (
        "Sanity",
        "Does a map depend on the learnt weights and on the explained class, and little on noise? These metrics "
        "compute further maps, so precomputed maps and model-independent baselines have none.",
        metrics.sanity.METRICS,
    ),
)
_HEAD = """# Metrics of every benchmark

<!-- Generated from the entries in `attribution_benchmarks/metrics` by `python tools/docs/document_registries.py`; do
not edit. -->

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
mosaics, or return no number for an input. These are available: QUANTUS_NAMES.

Metrics of Quantus that remove positions one after another call the network once for each step of each input: on SVEA
100 CPU seconds for the 1,000 test signals with their controls, and by default 16,384 steps for an image of BIM. Give a
larger step there, such as `quantus:PixelFlipping?features_in_step=256`.

**Metrics of Xplique.** `--metrics=xplique:MuFidelity` in the same way, after
`XPLIQUE_INSTALL`: Xplique
declares TensorFlow 2.18 to 2.20, and works with the one installed. These are available: XPLIQUE_NAMES.

Metrics with a published name differ from Quantus's where their entry says so. Quantus's `Monotonicity` is true of every
map for a constant baseline. Its `RelevanceMassAccuracy` divides signed sums, so that it leaves 0 to 1. By default
Quantus divides a map by its largest magnitude, and replaces removed positions by the least value of the input. An entry
that calls a metric Quantus's means: with removed positions of the same value. `quantus:Completeness` compares
floating-point numbers for equality; of complete maps it is true with `?normalise=False&perturb_baseline=0.0` alone, and
only where nothing is rounded.

**ROAR**, remove and retrain (Hooker et al., NeurIPS 2019), is not available: it trains the network again for each
method and each share of removed positions. ROAD is its counterpart without retraining:
[`insertion_road`](#insertion_road), [`deletion_road`](#deletion_road) and
[`insertion_deletion_road`](#insertion_deletion_road).

[Which metric to use](which_metric.md) measures which of them rank maps by their true error. Retest is from there: the
rank correlation between two runs of a metric with other random numbers, over the corrupted exact maps of one input. It
is 1 for a metric without random numbers.
"""


def main(values: flags.FlagValues) -> None:
    """Write the pages."""
    groups = json.loads(RELIABILITY.read_text(encoding="utf-8"))["groups"]
    for name, text in (("methods", methods_page()), ("metrics", metrics_page(groups))):
        atomic_write(pathlib.Path(values.output_dir) / f"{name}.md", text)


def methods_page() -> str:
    """Return the methods grouped by idea, and the method cards, as a Markdown page."""
    ordered: list[Method] = []

    def table(line: re.Match[str]) -> str:
        methods = [method for method in METHODS.values() if method.family in line[1].split(", ")]
        ordered.extend(methods)
        rows = [f"| [`{one.name}`](#{one.name.replace('.', '')}) | {one.title} | {one.card.cost} |" for one in methods]
        return "\n".join(["| name | method | cost |", "|---|---|---|", *rows])

    head = re.sub(r"^{methods of: (.+)}$", table, HEAD.read_text("utf-8"), flags=re.MULTILINE)
    if len(ordered) < len(METHODS):
        raise ValueError(f"{HEAD.name} lacks the families of {sorted(set(METHODS) - {one.name for one in ordered})}")
    return "".join([head, *map(_section, ordered)])


def _section(method: Method) -> str:
    """Return the section of a method."""
    defaults = ", ".join(f"`{key}={value!r}`" for key, value in method.defaults.items()) or "none"
    facts = {
        "Parameters": defaults,
        "Sum of a map": method.sum_law.formula if method.sum_law else None,
        "Needs": method.card.requirements,
        "Cost per input": method.card.cost,
        "Randomness": method.card.randomness,
        "Known weaknesses": method.card.weaknesses,
        "Source": method.card.citation,
    }
    lines = [f"- **{label}:** {text}\n" for label, text in facts.items() if text]
    summary = inspect.getdoc(method.function).split("\n\n")[0].replace("\n", " ")
    return "".join([f"\n## {method.name}\n\n{summary}\n\n", *lines])


def metrics_page(groups: Mapping[str, Mapping[str, Mapping]]) -> str:
    """Return the whole page as Markdown, with the retest reliability of metrics from the meta-evaluation."""
    lines = [
        _HEAD.replace("EXAMPLE", EXAMPLE)
        .replace("QUANTUS_NAMES", _quoted(metrics.of_libraries.QUANTUS_NAMES))
        .replace("XPLIQUE_INSTALL", metrics.of_libraries.XPLIQUE_INSTALL)
        .replace("XPLIQUE_NAMES", _quoted(metrics.of_libraries.XPLIQUE_NAMES)),
        "| name | metric | better | range | cost | retest, images | retest, vectors |",
        "|---|---|---|---|---|---:|---:|",
    ]
    for name, metric in METRIC_REGISTRY.items():
        measured = (groups[group].get(name) for group in ("images", "vectors"))
        cells = (
            f"[`{name}`](#{name})", metric.title, metric.better, _range(metric), metric.cost,
            *(retest(row) if row else "" for row in measured),
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    for heading, about, members in _PARTS:
        lines += ["", f"## {heading}", "", about]
        for metric in members:
            lines += ["", *_sheet(metric)]
    return "\n".join(lines) + "\n"


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def _range(metric: Metric) -> str:
    low, high = metric.bounds
    if np.isinf(low):
        return f"up to {high:g}"
    return f"{low:g} upwards" if np.isinf(high) else f"{low:g} to {high:g}"


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
