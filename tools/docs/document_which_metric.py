"""Write docs/which_metric.md from docs/which_metric.json.

    python -m attribution_benchmarks.exact.meta_evaluation --inputs=7 --quantus_inputs=2 --output_dir=meta
    cp meta/which_metric.json docs/ && cp meta/which_metric.png docs/pictures/
    python tools/docs/document_which_metric.py

Cost: seconds; the first command 21 CPU minutes on one core.
"""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Mapping

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
from absl import flags  # noqa: E402

from attribution import cli  # noqa: E402
from attribution.files import atomic_write  # noqa: E402
from attribution_benchmarks.exact.definition import METHODS  # noqa: E402
from attribution_benchmarks.exact.known_networks import GRADES, KINDS  # noqa: E402
from attribution_benchmarks.exact.meta_evaluation import CONTROLS, QUANTUS, shown, table  # noqa: E402
from attribution_benchmarks.stats import correlation, statistics  # noqa: E402

_WITHIN = 3  # rank of a metric that is named first
FIGURES = ROOT / "docs" / "which_metric.json"
FLAGS = flags.FlagValues()
flags.DEFINE_string("output", str(ROOT / "docs" / "which_metric.md"), "file to write", flag_values=FLAGS)

_PAGE = """# Which metric to use

<!-- Generated from docs/which_metric.json by `python tools/docs/document_which_metric.py`; do not edit. -->

A metric of attribution maps should give a right map a better score than a wrong one. Here the truth is known: {inputs}
inputs of {networks} networks whose exact Shapley values are counted ([Exact truth](benchmarks.md#exact-truth)), sixteen
networks of twelve features and eight of 8 x 8 pixels.

**In short:** {best} have a rank of at most {within} on both kinds of networks. They compare sums of a map with what
happens when random sets are removed, which is near to the truth by definition. They do not see a constant that is added
to a map, so use `infidelity` or `completeness` with them ([Limits](#limits)).

- **Corrupted exact maps.** Each exact map is corrupted in {kinds} ways: {kinds_about}. Each has {grades} grades.
  With the exact map itself these are {maps} maps of every input. Their distance from the truth is known and grows with
  the grade.
- **Maps of methods.** The maps of {methods} attribution methods for the same inputs, from the gradient to DeepLIFT.
- **Figures.** Spearman's correlation between a metric's score and the true error, over the maps of one input, averaged
  over inputs. It is 1 if a metric ranks all maps by their error, the smallest first, and 0 by chance. Intervals (95 %)
  and ranks are over networks.
- **Retest.** The same correlation between two runs of a metric with other random numbers. 1 is a metric without any.
- **Cost.** Forward passes and further maps that the metric needs for one map alone.
- **Right map, random map.** The mean score of the exact map and of Gaussian noise, the level of chance.
- **Controls** are the distance, the rank correlation and the share of wrong signs, which know the truth, and a random
  number.
- **Inputs.** Quantus scores maps and changed inputs one by one, so its metrics (`quantus:`) are measured on the first
  {quantus_inputs} inputs of each network.

![Correlation of metrics with the true error, and by corruption](pictures/which_metric.png)

*Left: correlation with the true error over corrupted exact maps, with 95 % intervals over networks. Right: the
correlation within the grades of one corruption.*

## What we find

{findings}

## Networks of 8 x 8 pixels

{images}

## Networks of twelve features

{vectors}

## Metrics of Quantus beside ours

The correlation with the true error over corrupted exact maps, on the same inputs and maps: the map of zeros, which
Quantus does not score, counts for neither. Parameters that are not given are Quantus's own. A removed position has the
value of its `perturb_baseline`, by default "black", the least value of the input; here it has the mean color.
`RelevanceRankAccuracy` ranks signed values, `iou_at_area` magnitudes. MaxSensitivity is left out, because it is the
slowest.

{quantus}

## Limits

- The truth is the Shapley value with zero as an absent feature. Metrics that compare sums of a map with the effects of
  single features or random sets are near to it by definition. Metrics that remove features in order judge an order,
  which is one part of the truth: a map of the right order and wrong values has an error here.
- `sensitivity_n`, `faithfulness_correlation` and `mu_fidelity` are correlations over sets of equal size. A map plus a
  constant has the score of the map, and maps with an offset are common: of CAMs, of RISE, or scaled to 0 to 1. The same
  holds for metrics that use the order of positions alone, such as `insertion_deletion`. None of the {kinds} corruptions
  adds a constant. With a constant of up to the map's largest magnitude in four grades, the correlation with the true
  error is 0.00 for `sensitivity_n` and `faithfulness_correlation`. For `infidelity` it is 0.96 (0.75 to 1.00) on
  vectors and 0.76 (0.54 to 0.97) on images, for `completeness` 0.91 (0.85 to 0.95) and 0.98 (0.82 to 1.00).
- The last grade of zeroed positions is a map of zeros. Metrics of maps alone count it as the uniform map. Without it,
  Sparseness has 0.25 (0.19 to 0.32) on vectors and 0.25 (0.16 to 0.33) on images, average precision 0.67 (0.60 to 0.72)
  and 0.53 (0.36 to 0.69).
- Removed features have the input's mean value in most metrics, and zero in the truth.
- The networks are chosen problems, the eight of images four problems on two backgrounds. Intervals over them do not
  cover other problems. Other networks, corruptions or measures of the error may give another order.
- The networks are small, with one or two hidden layers. Metrics that compare networks are tried on twelve features
  only: exact maps of images on random networks cannot be counted. Blur and ROAD need images.
- Ranks depend on the choice of corruptions; the maps of methods do not. Over metrics, the two correlations have a rank
  correlation of {transfer_images} for images and {transfer_vectors} for vectors.

The tables need the extra `quantus` (`pip install -e '.[quantus]'`) and 21 CPU minutes; a run resumes after the last
network that it completed. Without Quantus and with one input of each network, `--inputs=1 --quantus_inputs=0`, it is
4 CPU minutes. `--metrics=insertion,my_metric.py:MINE` measures yours.

```bash
{command}
```
"""


def main(values: flags.FlagValues) -> None:
    """Write the page."""
    atomic_write(pathlib.Path(values.output), page(json.loads(FIGURES.read_text(encoding="utf-8"))))


def page(record: Mapping) -> str:
    """Return the page as Markdown."""
    groups = record["groups"]
    counts = [rows["distance"]["correlation"][3:] for rows in groups.values()]
    return _PAGE.format(
        best=" and ".join(f"`{name}`" for name in best(groups)),
        within=_WITHIN,
        inputs=sum(count for count, _ in counts),
        networks=sum(count for _, count in counts),
        kinds=len(KINDS),
        kinds_about="; ".join(KINDS.values()),
        grades=len(GRADES),
        maps=1 + len(KINDS) * len(GRADES),
        methods=len(METHODS),
        findings="\n".join(f"{number}. {finding}" for number, finding in enumerate(findings(groups), 1)),
        images="\n".join(table(groups["images"])),
        vectors="\n".join(table(groups["vectors"])),
        quantus_inputs=record["quantus_inputs"],
        quantus="\n".join(beside(groups)),
        transfer_images=f"{transfer(groups['images']):.2f}",
        transfer_vectors=f"{transfer(groups['vectors']):.2f}",
        command="python -m attribution_benchmarks.exact.meta_evaluation "
        f"--inputs={record['inputs_per_network']} --quantus_inputs={record['quantus_inputs']} --output_dir=meta",
    )


def best(groups: Mapping[str, Mapping[str, Mapping]]) -> list[str]:
    """Return the metrics whose rank is at most ``_WITHIN`` in every group, the one of the best worst rank first."""
    ranks: dict[str, list[int]] = {}
    for rows in groups.values():
        for name, row in rows.items():
            ranks.setdefault(name, []).append(row["rank"][0] if "rank" in row else len(rows))
    worst = {name: max(of_groups) for name, of_groups in ranks.items() if len(of_groups) == len(groups)}
    return sorted((name for name in worst if worst[name] <= _WITHIN), key=worst.__getitem__)


def beside(groups: Mapping[str, Mapping[str, Mapping]]) -> list[str]:
    """Return the Markdown table of Quantus's metrics and of the nearest ones here."""
    lines = ["| networks | Quantus | ours | Quantus | ours | Quantus - ours |", "|---|---|---|---|---|---|"]
    for group, rows in groups.items():
        for row in (rows[name] for name in QUANTUS if name in rows):
            figures = (shown(row[key]) for key in ("of_quantus", "of_ours", "difference"))
            lines.append(f"| {group} | `{row['called']}` | `{row['ours']}` | {' | '.join(figures)} |")
    return lines


def transfer(rows: Mapping[str, Mapping]) -> float:
    """Return the rank correlation, over metrics, of the correlations on corrupted maps and on maps of methods."""
    names = [name for name in rows if name not in CONTROLS and rows[name]["methods"]]
    return float(correlation.spearman(*([rows[name][key][0] for name in names] for key in ("correlation", "methods"))))


def difference(rows: Mapping[str, Mapping], first: str, second: str) -> tuple[float, float, float]:
    """Return the mean difference of two metrics' correlations over networks, with its 95 % interval."""
    one, other = rows[first]["by_network"], rows[second]["by_network"]
    shared = [name for name in one if name in other]
    return statistics.mean_interval(np.array([one[name] - other[name] for name in shared]))[:3]


def findings(groups: Mapping[str, Mapping[str, Mapping]]) -> list[str]:
    """Return the findings with their figures; a test checks that they follow from them."""
    images, vectors = groups["images"], groups["vectors"]

    def value(rows: Mapping[str, Mapping], name: str, key: str = "correlation") -> str:
        return shown(rows[name][key])

    black, mean = "quantus:FaithfulnessCorrelation", "quantus:FaithfulnessCorrelation?perturb_baseline=mean"
    sets, curves, road = "faithfulness_correlation", "insertion_deletion", "insertion_deletion_road"
    return [
        "**On these networks, random sets tell right maps from wrong ones better than curves of removal.** On images "
        f"Faithfulness Correlation reaches {value(images, sets)}, Sensitivity-n {value(images, 'sensitivity_n')}, and "
        f"the area between insertion and deletion {value(images, curves)}. ROAD's imputation does not help: "
        f"{value(images, road)}. "
        f"Faithfulness Correlation is above insertion and deletion by {shown(difference(images, sets, curves))}, and "
        f"above ROAD by {shown(difference(images, sets, road))}.",
        "**A repeatable metric is not a valid one.** Deletion on images repeats its order of maps almost exactly, "
        f"retest {value(images, 'deletion', 'retest')}, and has {value(images, 'deletion')}. Sensitivity-n repeats it "
        f"no better, {value(images, 'sensitivity_n', 'retest')}, and its correlation is higher by "
        f"{shown(difference(images, 'sensitivity_n', 'deletion'))}.",
        "**Robustness prefers wrong maps.** Over the maps of methods, Avg-Sensitivity has "
        f"{value(images, 'avg_sensitivity', 'methods')} on images and {value(vectors, 'avg_sensitivity', 'methods')} "
        f"on vectors. Over corrupted maps, Max-Sensitivity has {value(images, 'max_sensitivity')} and "
        f"{value(vectors, 'max_sensitivity')}. Errors that ignore the input are stable.",
        "**Checks with random weights do not rank methods by correctness.** The correlation of `randomisation` is "
        f"{value(vectors, 'randomisation')} over corrupted maps and {value(vectors, 'randomisation', 'methods')} over "
        "maps of methods. Sparseness, which queries no network, is higher over corrupted maps by "
        f"{shown(difference(vectors, 'sparseness', 'randomisation'))}, in part by the map of zeros "
        "([Limits](#limits)). Such checks find methods that ignore the network; they do not order the others.",
        "**Completeness is a cheap guide to methods.** With two passes it reaches "
        f"{value(images, 'completeness', 'methods')} over the maps of methods on images; Faithfulness Correlation with "
        f"{images[sets]['passes']:.0f} passes reaches {value(images, sets, 'methods')}. A wrong map can be complete: "
        f"over corrupted maps it has {value(images, 'completeness')}.",
        "**The mask of the class evidence is not the truth about the network.** The tetrominoes are the only evidence "
        f"in the images. Yet the pointing game has {value(images, 'pointing_game')} and average precision "
        f"{value(images, 'average_precision')}. The highest pixel of exact maps is in the mask in "
        f"{100 * images['pointing_game']['truth']:.0f} % of the images: the networks also use pixels that share the "
        "noise.",
        "**The baseline decides, not the library.** By default Quantus replaces positions by an input's least value. "
        f"With it FaithfulnessCorrelation has {value(vectors, black)} on vectors and {value(images, black)} on images. "
        f"With the mean, as here, it has {value(vectors, mean)} and {value(images, mean)}, and differs from ours by "
        f"{value(vectors, mean, 'difference')} and {value(images, mean, 'difference')} on the same inputs.",
    ]


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
