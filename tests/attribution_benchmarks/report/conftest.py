"""Results as the benchmarks' commands write them."""

import pytest

from attribution_benchmarks.core.definition import ReportTask
from attribution_benchmarks.core.scores import Scores
from attribution_benchmarks.core.settings import RunSettings
from attribution_benchmarks.report.results import ReportData, Result


def task(benchmark, **more):
    return ReportTask(benchmark, benchmark, **{"title": f"Table of {benchmark}", "settings": RunSettings(), **more})


@pytest.fixture(scope="session")
def results(documents, groups):
    return [
        Result(task(one["benchmark"]),
               Scores(one["rows"], groups[one["benchmark"]], text="printed <table>", manifest=one["manifest"]))
        for one in documents
    ]  # fmt: skip


@pytest.fixture
def report(results, definitions, columns):
    """Return a function that gives the data of a report."""

    def found(results=results, **more):
        return ReportData(results, **{"definitions": definitions, "columns": columns, "titles": {}, **more})

    return found
