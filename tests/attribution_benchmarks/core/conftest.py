"""A benchmark of one file: two classes told apart by the mean of one of two channels, a linear network, known truth."""

import pathlib
import subprocess
import sys

import pytest

TOY = '''
"""Which half of a picture is bright? The network sums its left half; the truth is that half."""

import pathlib

import numpy as np

from attribution_benchmarks.core.definition import Benchmark
from attribution_benchmarks.core.controls import UNIFORM
from attribution_benchmarks.core.examples import Examples
from attribution_benchmarks.core.metric import mask_of, of_maps

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
    about="A picture and its left half.",
    paper="Nobody, nowhere",
    metrics=(MASS,),
    controls=(UNIFORM,),
    methods=("gradient", "gradient_x_input"),
    examples=examples,
    network=str(pathlib.Path(__file__).with_name("network")),
    counts=(6, 12),
)
'''
NETWORK = """
import sys
import tensorflow as tf

class Network(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None, 4, 4, 1], tf.float32, name="picture")])
    def serve(self, picture):
        left = tf.reduce_sum(picture[:, :, :2], axis=[1, 2, 3])
        return {"logits": tf.stack([left, -left], axis=1)}

network = Network()
tf.saved_model.save(network, sys.argv[1], signatures=network.serve)
"""


@pytest.fixture(scope="session")
def toy(tmp_path_factory):
    """Return the file of a benchmark of one's own, its network beside it, far from the checkout."""
    folder = tmp_path_factory.mktemp("elsewhere")
    subprocess.run([sys.executable, "-c", NETWORK, str(folder / "network")], check=True, capture_output=True)
    (folder / "toy.py").write_text(TOY)
    return pathlib.Path(folder / "toy.py")
