"""A score depends on every constant between map and number, and on no figure, text or comment."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from attribution.reached_code import SourceTree
from attribution_benchmarks.scoring.fingerprint import code_fingerprint

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """Return a folder with the code of the house."""
    folder = tmp_path_factory.mktemp("house")
    for package in ("attribution", "attribution_benchmarks", "bim", "svea", "clevr_xai"):
        shutil.copytree(ROOT / package, folder / package, ignore=lambda _, names: [n for n in names if "embedded" in n])
    return folder


def changes(copy, reached, file, old, new) -> bool:
    before = code_fingerprint(reached, tree=SourceTree(copy))
    path = copy / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    try:
        return code_fingerprint(reached, tree=SourceTree(copy)) != before
    finally:
        path.write_text(text)


MAPPED = "bim.measure:map_attributions"
REGION = "svea.roe:region_of_explanation"
SCORED = "clevr_xai.scoring:score_maps"


@pytest.mark.parametrize(
    ("reached", "file", "old", "new"),
    [
        (MAPPED, "bim/regions.py", "PERCENTILE = 99.0", "PERCENTILE = 90.0"),
        (MAPPED, "bim/regions.py", "np.maximum(", "np.minimum("),
        (REGION, "svea/roe.py", "WINDOW = 12", "WINDOW = 10"),
        (REGION, "svea/mnist1d.py", "LENGTH = 40", "LENGTH = 50"),
        (SCORED, "clevr_xai/metrics.py", "_ROWS_AT_ONCE = ", "_ROWS_AT_ONCE = 1 + "),
    ],
)
def test_a_constant_on_the_way_counts(copy, reached, file, old, new):
    assert changes(copy, reached, file, old, new)


@pytest.mark.parametrize(
    ("reached", "file", "old", "new"),
    [
        (MAPPED, "bim/regions.py", '"""From a map', '"""From every map'),
        (MAPPED, "bim/regions.py", "PERCENTILE = 99.0", "PERCENTILE = 99.0  # per cent"),
        (MAPPED, "bim/regions.py", "period = 2", "period = 3"),  # of another function
        (MAPPED, "bim/measure.py", "batch_size: int = 16", "batch_size: int = 17"),  # of another function
        (SCORED, "clevr_xai/pictures.py", "import", "import math\nimport"),
        (REGION, "svea/figures.py", "import", "import math\nimport"),
    ],
)
def test_a_comment_and_what_is_not_on_the_way_does_not(copy, reached, file, old, new):
    assert not changes(copy, reached, file, old, new)


def test_no_fingerprint_depends_on_the_seed_of_hashes():
    """Of whole commands, in processes of their own: with every other seed, records of finished runs were not found."""
    script = """
from attribution_benchmarks.scoring.fingerprint import code_fingerprint
for module in ("clevr_xai.training.cache", "attribution_benchmarks.report.reproduction"):
    print(module, code_fingerprint(module))
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    first, other = (
        subprocess.run([sys.executable, "-c", script], cwd=ROOT, env={**environment, "PYTHONHASHSEED": seed},
                       capture_output=True, text=True, check=True).stdout.splitlines()
        for seed in "03"
    )  # fmt: skip
    assert len(first) == 2
    assert other == first
