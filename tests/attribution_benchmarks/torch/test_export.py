"""What ``export-torch`` writes gives the same scores, without TensorFlow and this package."""

import subprocess
import sys

import pytest

import attribution_benchmarks
from attribution.cli import execute
from attribution_benchmarks.exact import xai_tris
from attribution_benchmarks.torch import export, method

torch = pytest.importorskip("torch")
ALONE = """
import runpy, sys
sys.path.insert(0, ".")
for name in ("tensorflow", "attribution", "attribution_benchmarks"):
    sys.modules[name] = None
runpy.run_path("example.py")
"""


def exported(*flags):
    return execute(export.main, export.FLAGS, export.__doc__, ["export-torch", *flags])


def product(model, inputs, targets):
    inputs.requires_grad_()
    return torch.autograd.grad(model(inputs).gather(1, targets[:, None]).sum(), inputs)[0] * inputs


def test_exported_networks_give_the_same_scores(tmp_path):
    pytest.importorskip("safetensors")
    assert exported("--benchmark=xai_tris", f"--output_dir={tmp_path}") == 0
    subprocess.run([sys.executable, "-c", ALONE], cwd=tmp_path, check=True)
    settings = xai_tris.BENCHMARK.settings
    saved = attribution_benchmarks.evaluate("xai_tris", settings=settings(precomputed_maps=str(tmp_path / "maps")))
    wanted = attribution_benchmarks.evaluate("xai_tris", {"my_method": method(product)}, settings(random_networks=0))
    for scores in (saved, wanted):
        assert len([row for row in scores.rows if row["method"] == "my_method"]) > 5
    values = [
        {row["metric"]: row["value"] for row in each.rows if row["method"] == "my_method"} for each in (saved, wanted)
    ]
    assert values[0] == pytest.approx(values[1], abs=1e-5, nan_ok=True)


def test_benchmarks_that_need_their_network_are_refused(tmp_path, capsys):
    pytest.importorskip("safetensors")
    assert exported("--benchmark=exact", f"--output_dir={tmp_path}") == 2
    assert "its metrics query the network" in capsys.readouterr().err
