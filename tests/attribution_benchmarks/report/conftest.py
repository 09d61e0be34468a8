"""Inputs to look at, as the benchmarks' commands would leave them beside their tables."""

import numpy as np
import pytest

from attribution_benchmarks.scoring import shown

METHODS = ("best", "good", "twin", "bad")


def maps(generator, shape, without=()):
    return {name: generator.integers(0, 256, shape, np.uint8) for name in METHODS if name not in without}


@pytest.fixture(scope="session")
def drawn_inputs(tmp_path_factory, groups):
    """Benchmark -> file: a signal, an image under two networks, a question's image; and all inputs' pictures."""
    generator = np.random.default_rng(5)
    truth = np.zeros((16, 16), bool)
    truth[4:9, 3:12] = True
    image = generator.integers(0, 256, (16, 16, 3), np.uint8)

    def folder(name):
        return str(tmp_path_factory.mktemp(name))

    signal = shown.View("", generator.normal(size=40), np.arange(40) < 9, maps(generator, 40), "predicted class 1")
    pair = tuple(
        shown.View(f"network {number}", image, truth, maps(generator, (16, 16), ("twin",)), "predicted dog")
        for number in (1, 2)
    )
    question = shown.View("", image, truth, maps(generator, (16, 16)), "answered rightly: </script>")
    names = tuple(groups["svea"][0].inputs)
    return {
        "svea": shown.save(
            folder("svea"),
            [shown.Shown("input 7", ("roe_test", "drop"), "Signal 7", (signal,))],
            [shown.Pictures(("roe_test", "drop"), names, generator.normal(size=(200, 40)))],
        ),
        "bim": shown.save(folder("bim"), [shown.Shown("input 3", ("mcs",), "MCS, image 3", pair)], []),
        "clevr_xai": shown.save(
            folder("clevr"),
            [shown.Shown("input 9", ("mass",), "Is it <b>red</b>?", (question,))],
            [shown.Pictures(("mass",), names, generator.integers(0, 256, (200, 16, 16, 3), np.uint8))],
        ),
    }
