"""The zoo: networks whose files, types or inputs differ from those of Keras."""

import re

import pytest

from tools.model_zoo import measure
from tools.model_zoo.families import FAMILIES

IN_PART = (
    "two_inputs", "channels_first", "mixed_float16", "static_batch", "bytes", "segmentation", "tensorflow_1",
)  # fmt: skip
# Families of which nothing can be explained, and what they are told.
REFUSED = {
    "examples": "is of type string and has no gradient; name a tensor",
    "live_dropout": "other scores at every call",
}


@pytest.mark.parametrize("name", IN_PART)
def test_every_cell_is_exact_runs_or_is_refused(name, check_family):
    cell = check_family(name)["lrp_epsilon"]
    assert name != "mixed_float16" or cell["against"] == "Gradient x Input in float64", cell


@pytest.mark.parametrize("name", REFUSED)
def test_every_method_is_refused_by_name(name):
    for method, cell in measure.measure(FAMILIES[name])["methods"].items():
        assert cell["status"] == "refused" and re.search(REFUSED[name], cell["note"]), (method, cell)
