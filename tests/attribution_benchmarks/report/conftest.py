"""Examples as the benchmarks' commands write them, and a fork server that can be interrupted."""

import signal

import numpy as np
import pytest

from attribution_benchmarks.core import report_examples

METHODS = ("best", "good", "twin", "bad")


@pytest.fixture(scope="session", autouse=True)
def interruptible_commands():
    """Let commands be interrupted, also in a background job of a shell, which ignores interrupts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


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

    signal = report_examples.ExampleView(
        "", generator.normal(size=40), np.arange(40) < 9, maps(generator, 40), "predicted class 1"
    )
    pair = tuple(
        report_examples.ExampleView(
            f"network {number}", image, truth, maps(generator, (16, 16), ("twin",)), "predicted dog"
        )
        for number in (1, 2)
    )
    question = report_examples.ExampleView("", image, truth, maps(generator, (16, 16)), "answered correctly: </script>")
    names = tuple(groups["svea"][0].inputs)
    return {
        "svea": report_examples.save(
            folder("svea"),
            [report_examples.Example("input 7", ("roe_test", "drop"), "Signal 7", (signal,))],
            [report_examples.InputPictures(("roe_test", "drop"), names, generator.normal(size=(200, 40)))],
        ),
        "bim": report_examples.save(
            folder("bim"), [report_examples.Example("input 3", ("mcs",), "MCS, image 3", pair)], []
        ),
        "clevr_xai": report_examples.save(
            folder("clevr"),
            [report_examples.Example("input 9", ("mass",), "Is it <b>red</b>?", (question,))],
            [report_examples.InputPictures(("mass",), names, generator.integers(0, 256, (200, 16, 16, 3), np.uint8))],
        ),
    }
