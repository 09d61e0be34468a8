"""Two small benchmarks of known scores, as their commands would write them, and a benchmark of one file."""

import pathlib

import numpy as np
import pytest

from attribution_benchmarks.core.controls import Control
from attribution_benchmarks.core.definition import ORACLE, Benchmark, Column
from attribution_benchmarks.core.report_text import ReportText
from attribution_benchmarks.core.scores import InputScores
from attribution_benchmarks.report import matrix, significance
from attribution_benchmarks.stats import statistics

COLUMNS = (
    Column("svea", "roe_test", "ROE test %", "SVEA", percent=True, excluded={"template_position": ORACLE}),
    Column("svea", "drop", "Drop %", "SVEA", False, percent=True, excluded={"template_position": ORACLE}),
    Column("bim", "mcs", "MCS", "BIM"),
    Column(
        "clevr_xai", "mass", "mass, simple", "CLEVR-XAI",
        where={"questions": "simple", "ground_truth": "single_object", "pooling": "l2-norm,sq", "subset": "all"},
    ),
)  # fmt: skip
SHIFTS = {"best": 0.6, "good": 0.5, "twin": 0.5, "bad": -0.2}
CONTROLS = {"random": 0.0, "template_position": 0.9}


def values(n, seed, without=()):
    """Values of all methods on n inputs: a common part, the method's shift, and a little of its own."""
    generator = np.random.default_rng(seed)
    shared = generator.normal(0.5, 0.2, n)
    drawn = {name: shared + shift + generator.normal(0, 0.05, n) for name, shift in (SHIFTS | CONTROLS).items()}
    return {name: column for name, column in drawn.items() if name not in without}


def rows(groups):
    """Rows of a document from groups of values."""
    return [
        {
            "method": name,
            **group.where,
            **statistics.mean_interval(column)._asdict(),
            "paper": None,
            "kind": "control" if name in CONTROLS else "method",
        }
        for group in groups
        for name, column in group.values.items()
    ]


@pytest.fixture(scope="session")
def groups():
    names = [f"input {i}" for i in range(200)]
    clevr = {"questions": "simple", "ground_truth": "single_object", "subset": "all", "pooling": "l2-norm,sq"}
    drops = {name: -column for name, column in values(200, 2).items()}
    return {
        "svea": [
            InputScores({"metric": "roe_test"}, names, values(200, 1)),
            InputScores({"metric": "drop"}, names, drops),
        ],
        "bim": [InputScores({"metric": "mcs"}, names[:60], values(60, 3, ("twin", "template_position")))],
        "clevr_xai": [
            InputScores(
                {"metric": "mass", **clevr},
                names,
                values(200, 4, ("template_position",)),
                [str(i // 3) for i in range(200)],
            )
        ],
    }


@pytest.fixture(scope="session")
def documents(groups):
    manifest = {
        "versions": {"python": "3"},
        "models": {"nets/a": "ab" * 32},
        "data": {"set": "cd" * 32},
        "seed": 0,
        "command": "python -m benchmark",
    }
    return [{"benchmark": name, "rows": rows(found), "manifest": manifest} for name, found in groups.items()]


@pytest.fixture(scope="session")
def columns():
    return COLUMNS


@pytest.fixture(scope="session")
def definitions():
    titles = {column.benchmark: column.group for column in COLUMNS}
    controls = tuple(Control(name, f"Control {name}", "what it is") for name in CONTROLS)
    return [
        Benchmark(name, title, ReportText(f"About {title}.", "A paper"), controls=controls)
        for name, title in titles.items()
    ]


@pytest.fixture(scope="session")
def built(documents):
    return matrix.build(documents, COLUMNS, {("twin", "bim"): "too slow"})


@pytest.fixture(scope="session")
def judged(built, groups):
    return significance.compare_columns(built, groups)


TOY = '''
"""Which half of a picture is bright? The network sums its left half; the truth is that half."""

import pathlib

import numpy as np

from attribution_benchmarks.core.definition import Benchmark
from attribution_benchmarks.core.controls import UNIFORM
from attribution_benchmarks.core.examples import Examples
from attribution_benchmarks.core.metric import mask_of, of_maps
from attribution_benchmarks.core.report_text import ReportText

SHARE = 1.0


def examples(count, seed):
    """Draw pictures of 4 x 4 pixels, and say that the left half is what counts."""
    pictures = np.random.default_rng(seed).random((min(count, 12), 4, 4, 1)).astype(np.float32)
    left = np.zeros((len(pictures), 4, 4), bool)
    left[:, :, :2] = True
    return Examples(pictures, masks={"left half": left})


def on_the_truth(maps, block, scores):
    """Return the share of each map's absolute values that lies on the truth, (N,)."""
    maps = np.abs(maps).reshape(len(maps), 4, 4)
    return SHARE * (maps * mask_of(block)).sum(axis=(1, 2)) / maps.sum(axis=(1, 2))


MASS = of_maps("mass", on_the_truth, title="Mass on the left", about="More is better.", masks=True)
TOY = Benchmark(
    name="toy",
    title="Toy",
    report=ReportText(about="A picture and its left half.", paper="Nobody, nowhere"),
    metrics=(MASS,),
    controls=(UNIFORM,),
    methods=("gradient", "gradient_x_input"),
    examples=examples,
    network=str(pathlib.Path(__file__).with_name("network")),
    counts=(6, 12),
)
'''


@pytest.fixture(scope="session")
def toy(tmp_path_factory):
    """Return the file of a custom benchmark, its network beside it, outside the checkout."""
    import tensorflow as tf

    class Network(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 4, 4, 1], tf.float32, name="picture")])
        def serve(self, picture):
            left = tf.reduce_sum(picture[:, :, :2], axis=[1, 2, 3])
            return {"logits": tf.stack([left, -left], axis=1)}

    folder, network = tmp_path_factory.mktemp("elsewhere"), Network()
    tf.saved_model.save(network, str(folder / "network"), signatures=network.serve)
    (folder / "toy.py").write_text(TOY)
    return pathlib.Path(folder / "toy.py")
