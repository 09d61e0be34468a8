"""The report's text of each benchmark loads and names what exists; an invalid file is one line."""

import pathlib
import re

import pytest

import attribution
from attribution.errors import BadInput
from attribution_benchmarks.core.registry import BENCHMARKS, benchmark_named
from attribution_benchmarks.core.report_text import ReportText
from attribution_benchmarks.parts.definition import SUMMARY
from bim import scores as bim_scores

ROOT = pathlib.Path(__file__).resolve().parents[3]
TCAV_METRICS = ("tcav", "tcav_contrast")  # in the rows of bim.run_tcav, as tests/bim/test_tcav.py expects them
EVERYTHING = """
about = "What is asked?"
paper = "Somebody, 2020"
method_note = "Mine takes the square"
beside_paper = "Other networks."

[reasons]
rise = "expensive"

[more_metrics]
curve = "It should fall."
"""


def written(tmp_path, text):
    path = tmp_path / "report.toml"
    path.write_text(text, "utf-8")
    return path


def test_every_field_is_read(tmp_path):
    assert ReportText.load(written(tmp_path, EVERYTHING)) == ReportText(
        about="What is asked?",
        paper="Somebody, 2020",
        method_note="Mine takes the square",
        beside_paper="Other networks.",
        reasons={"rise": "expensive"},
        more_metrics={"curve": "It should fall."},
    )
    assert ReportText.load(written(tmp_path, "")) == ReportText()


@pytest.mark.parametrize(
    "text, message",
    [
        ("abuot = 'a'", "unknown key 'abuot'; expected one of 'about', 'paper', "),
        ("about = 3", "'about' is 3; expected text"),
        ("reasons = 'slow'", "'reasons' is 'slow'; expected a table"),
        ("[reasons]\nrise = 1.5", "'reasons.rise' is 1.5; expected text"),
        ("about = ", "Invalid value"),
    ],
)
def test_an_invalid_file_raises(tmp_path, text, message):
    path = written(tmp_path, text)
    with pytest.raises(BadInput, match=rf"^{re.escape(str(path))} is not a readable report text: ") as caught:
        ReportText.load(path)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_text_names_methods_that_exist(name):
    text = benchmark_named(name).report
    assert text.about and text.paper
    of_benchmarks = {method for each in BENCHMARKS for method in benchmark_named(each).methods}
    assert set(text.reasons) <= set(attribution.METHODS) | of_benchmarks


@pytest.mark.parametrize("name", BENCHMARKS)
def test_text_names_metrics_that_exist(name):
    benchmark = benchmark_named(name)
    further = {"bim": {*bim_scores.METRICS, *TCAV_METRICS}, "parts": {*SUMMARY}}  # metrics that no column shows
    assert set(benchmark.report.more_metrics) <= {metric.name for metric in benchmark.metrics} | further.get(
        name, set()
    )


def test_every_file_is_the_text_of_one_benchmark():
    packages = ("attribution", "attribution_benchmarks", "bim", "clevr_xai", "svea")
    paths = [path for package in packages for path in (ROOT / package).rglob("*report.toml")]
    files = list(map(ReportText.load, paths))
    # Benchmarks of other networks have text of their benchmark's file.
    of_others = ("bim_vit", "clevr_xai_attention", "clevr_xai_words")
    texts = [benchmark_named(name).report for name in BENCHMARKS if name not in of_others]
    assert len(files) == len(texts) and all(files.count(text) == 1 for text in texts)
