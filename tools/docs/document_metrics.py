"""Write docs/metrics.md from the entries of the metrics.

    python tools/docs/document_metrics.py
    python tools/docs/document_metrics.py --measure --num_imgs=24

The second first measures which metrics tell the truth from a random map and from the image's edges, on drawn images of
objects and the network that names them, and keeps the figures in docs/metrics_power.json.

Cost: seconds, and with --measure a minute on two cores.
"""

from __future__ import annotations

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from absl import flags  # noqa: E402

from attribution import cli  # noqa: E402
from attribution.file_io.files import atomic_write  # noqa: E402

POWER = ROOT / "docs" / "metrics_power.json"
EXAMPLE = "python -m bim.metrics --methods=gradient,grad_cam --metrics=roc_auc,insertion_deletion --num_imgs=4"
FLAGS = flags.FlagValues()
flags.DEFINE_string("output", str(ROOT / "docs" / "metrics.md"), "file to write", flag_values=FLAGS)
flags.DEFINE_bool("measure", False, "measure the metrics' power anew", flag_values=FLAGS)
flags.DEFINE_integer("num_imgs", 24, "images to measure on", 2, flag_values=FLAGS)


def main(values: flags.FlagValues) -> None:
    """Measure if asked to, and write the page."""
    from attribution_benchmarks.metrics import metric_docs

    if values.measure:
        command = f"python tools/docs/document_metrics.py --measure --num_imgs={values.num_imgs}"
        power = metric_docs.summary(*measured(values.num_imgs), command, EXAMPLE)
        atomic_write(POWER, json.dumps(power, indent=1) + "\n")
    power = json.loads(POWER.read_text(encoding="utf-8"))
    atomic_write(pathlib.Path(values.output), metric_docs.page(power))


def measured(images: int) -> tuple[dict, str]:
    """Return metric -> map -> one value an image, and what was scored, in words."""
    from attribution_benchmarks.core.controls import EDGE_DETECTOR, GROUND_TRUTH, RANDOM
    from attribution_benchmarks.metrics.registry import METRIC_REGISTRY
    from bim.dataset import resolve_data_dir
    from bim.evaluate import Benchmark
    from bim.metrics import SAVED_MODELS

    shared = {
        name: metric
        for name, metric in METRIC_REGISTRY.items()
        if metric.measure.of_controls and not metric.measure.again
    }
    controls = (RANDOM, EDGE_DETECTOR, GROUND_TRUTH)
    benchmark = Benchmark(resolve_data_dir(""), SAVED_MODELS, {}, None, controls, shared, images, progress=True)
    drawn = benchmark.drawn("obj")
    found = benchmark.measured("obj", "obj", drawn)
    counted = found.predicted == found.sources
    values = {
        name: {control: column[counted].tolist() for control, column in columns.items()}
        for name, columns in found.shared.items()
    }
    return values, f"BIM's {int(counted.sum())} of {len(drawn)} drawn images that the network of objects names rightly"


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
