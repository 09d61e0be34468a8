"""Results as the benchmarks' commands write them."""

import numpy as np
import pytest

from attribution_benchmarks.core import report_examples
from attribution_benchmarks.core.definition import ReportTask
from attribution_benchmarks.core.scores import Scores
from attribution_benchmarks.core.settings import RunSettings
from attribution_benchmarks.report.results import ReportData, Result

METHODS = ("best", "good", "twin", "bad")


def maps(generator, shape, without=()):
    return {name: generator.integers(0, 256, shape, np.uint8) for name in METHODS if name not in without}


@pytest.fixture(scope="session")
def drawn_inputs(tmp_path_factory):
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
    return {
        "svea": report_examples.save(
            folder("svea"),
            [report_examples.Example("input 7", ("roe_test", "drop"), "Signal 7", (signal,))],
        ),
        "bim": report_examples.save(
            folder("bim"), [report_examples.Example("input 3", ("mcs",), "MCS, image 3", pair)]
        ),
        "clevr_xai": report_examples.save(
            folder("clevr"),
            [report_examples.Example("input 9", ("mass",), "Is it <b>red</b>?", (question,))],
        ),
    }


def task(benchmark, **more):
    return ReportTask(benchmark, benchmark, **{"title": f"Table of {benchmark}", "settings": RunSettings(), **more})


@pytest.fixture(scope="session")
def results(documents, groups, drawn_inputs):
    return [
        Result(task(one["benchmark"]),
               Scores(one["rows"], groups[one["benchmark"]], text="printed <table>", manifest=one["manifest"]),
               examples=drawn_inputs[one["benchmark"]])
        for one in documents
    ]  # fmt: skip


@pytest.fixture
def report(results, definitions, columns):
    """Return a function that gives the data of a report."""

    def found(results=results, **more):
        return ReportData(results, **{"definitions": definitions, "columns": columns, "titles": {}, **more})

    return found
