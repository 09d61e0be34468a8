"""Methods in PyTorch: those of docs/torch_methods.py, their scores, what they get, and what is refused."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import attribution
import attribution_benchmarks
from attribution.check_method import FAILED, check_method
from attribution.errors import BadInput
from attribution.explain import BrokenContract
from attribution_benchmarks.core.fingerprint import Code
from attribution_benchmarks.torch import method

torch = pytest.importorskip("torch")
ROOT = pathlib.Path(__file__).resolve().parents[3]


def correlation(first, second):
    return min(np.corrcoef(a.ravel(), b.ravel())[0, 1] for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize(
    "recipe, package, ours, network",
    [
        ("captum_integrated_gradients", "captum", "integrated_gradients@captum", "parts/residual_seed0"),
        ("captum_integrated_gradients", "captum", "integrated_gradients@captum", "exact/sequences/transformer"),
        ("captum_deeplift", "captum", "deeplift@captum", "bim/obj"),
        ("captum_deeplift", "captum", "deeplift@captum", "svea/baseline"),
        ("captum_guided_backprop", "captum", "guided_backprop@captum", "parts/plain_seed0"),
        ("captum_occlusion", "captum", "occlusion", "svea/baseline"),
        ("zennit_epsilon_plus", "zennit", "lrp_epsilon_plus@zennit", "parts/residual_seed0"),
        ("zennit_epsilon_plus", "zennit", "lrp_epsilon_plus@zennit", "exact/sequences/cnn"),
        ("zennit_epsilon_plus_flat", "zennit", "lrp_epsilon_plus_flat@zennit", "bim/obj"),
        ("zennit_epsilon_alpha2_beta1", "zennit", "lrp_epsilon_alpha2beta1@zennit", "bim/obj"),
        ("grad_cam", "pytorch_grad_cam", "grad_cam@pytorch_grad_cam", "bim/obj"),
        ("grad_cam_plus_plus", "pytorch_grad_cam", "grad_cam_plus_plus@pytorch_grad_cam", "bim/obj"),
        ("xgrad_cam", "pytorch_grad_cam", "xgrad_cam@pytorch_grad_cam", "parts/plain_seed0"),
        ("lxt_attn_lrp", "lxt.efficient", "lrp_attn@lxt", "exact/sequences/transformer"),
        ("lxt_attn_lrp", "lxt.efficient", "lrp_attn@lxt", "exact/sequences/transformer_rotary"),
    ],
)
def test_recipes_equal_ours(recipe, package, ours, network, recipes, loaded):
    pytest.importorskip(package, exc_type=ImportError)
    model, inputs = loaded(network, 6)
    found = attribution.explain(f"{recipes}:{recipe}", model, inputs)
    wanted = attribution.explain(ours, model, inputs, resize=True)
    if found.ndim > wanted.ndim:
        found = found.mean(axis=-1)
    assert found.shape == wanted.shape and correlation(found, wanted) > 0.99999
    assert np.linalg.norm(found) == pytest.approx(np.linalg.norm(wanted), rel=1e-3)


def test_samples_of_gradient_shap_agree_with_ours(recipes, loaded):
    pytest.importorskip("captum")
    model, signals = loaded("svea/baseline", 6)
    found = attribution.explain(f"{recipes}:captum_gradient_shap", model, signals)
    wanted = attribution.explain("expected_gradients", model, signals, samples=2000)
    assert correlation(found, wanted) > 0.9


def test_a_random_recipe_keeps_the_contract(recipes):
    pytest.importorskip("captum")
    for name in ("noisy_gradient", "captum_integrated_gradients"):
        findings = check_method(f"{recipes}:{name}", show=False)
        assert len(findings) == 8 and not [one for one in findings if one.outcome == FAILED]


def test_scores_of_svea_equal_ours(recipes):
    pytest.importorskip("captum")
    settings = __import__("svea").Settings(random_networks=1)
    place = f"{recipes}:captum_integrated_gradients"
    scores = attribution_benchmarks.evaluate("svea", [place, "integrated_gradients"], settings)
    value = {(row["method"], row["metric"]): row["value"] for row in scores.rows}
    for metric in ("roe_test", "drop", "increase"):
        assert abs(value[place, metric] - value["integrated_gradients", metric]) <= 0.3
        random = [value[f"{name}/random_weights", metric] for name in (place, "integrated_gradients")]
        assert abs(random[0] - random[1]) < 1.5 and abs(random[0] - value[place, metric]) > 5


def scores_at(model, inputs, targets, words=None):
    """Gradient x input, of ``model(inputs)`` or ``model(inputs, words)``."""
    inputs.requires_grad_()
    scores = model(inputs) if words is None else model(inputs, words)
    return torch.autograd.grad(scores.gather(1, targets[:, None]).sum(), inputs)[0] * inputs


@pytest.mark.parametrize("network", ["clevr_xai/relation_network", "exact/sequences/lstm"])
def test_words_are_given_or_known(network, loaded):
    model, inputs = loaded(network, 3)
    options = {"explain_input": "image"} if isinstance(inputs, dict) else {}
    wanted = attribution.explain("gradient_x_input", model, inputs, **options)
    functions = scores_at, lambda model, inputs, targets: scores_at(model, inputs, targets)
    given, known = (attribution.explain(method(function), model, inputs, **options) for function in functions)
    assert correlation(given, wanted) > 0.9999 < correlation(known, given)  # kinks, see test_twins.py


@pytest.mark.parametrize("recipe, package", [("captum_deeplift", "captum"), ("zennit_epsilon_plus", "zennit")])
@pytest.mark.parametrize("network", ["transformer", "lstm"])
def test_rules_are_refused_on_products(recipe, package, network, recipes, loaded):
    pytest.importorskip(package)
    model, inputs = loaded(f"exact/sequences/{network}", 2)
    with pytest.raises(BadInput, match="do not know the products"):
        attribution.explain(f"{recipes}:{recipe}", model, inputs)


def test_a_copy_is_given(loaded):
    model, signals = loaded("svea/baseline", 3)

    def spoils(module, inputs, targets):
        for parameter in module.parameters():
            parameter.data.zero_()
        inputs.zero_()
        return inputs

    assert not attribution.explain(method(spoils), model, signals).any()
    assert attribution.explain(method(scores_at), model, signals).any()


def test_what_is_wrong_is_named(tmp_path, loaded):
    model, signals = loaded("svea/baseline", 2)
    path = tmp_path / "mine.py"
    path.write_text("def two(model, inputs): ...\n\ndef fails(model, inputs, targets):\n    return inputs @ inputs\n")
    with pytest.raises(BadInput, match="cannot be called as NAME"):
        attribution.resolve_method(f"torch:{path}:two")
    with pytest.raises(BadInput, match="no function 'other'"):
        attribution.resolve_method(f"torch:{path}:other")
    with pytest.raises(BrokenContract, match=r"mine.py, line 4"):
        attribution.explain(f"torch:{path}:fails", model, signals)
    with pytest.raises(BrokenContract, match="shape"):
        attribution.explain(method(lambda model, inputs, targets: inputs[:, :, :7]), model, signals)


def test_scores_are_stored_by_the_bytes_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr("attribution_benchmarks.core.fingerprint.STARTED", float("inf"))

    def code(text):
        path = tmp_path / "mine.py"
        path.write_text(
            f"def mine(model, inputs, targets):\n    import zennit.rules\n    model.eval()\n    return {text}\n"
        )
        return Code.of("mine", attribution.resolve_method(f"torch:{path}:mine").function)

    first, second = code("inputs"), code("-inputs")
    assert not first.why_not_stored and first.digest == code("inputs").digest != second.digest
    assert code("open('weights')").why_not_stored


CHILD = """
import sys
import numpy as np

def explained(place, progress):
    import tensorflow as tf
    tf.constant(1)
    import attribution
    maps = attribution.explain(place, sys.argv[1], np.ones((2, 40, 1), np.float32))
    return float(np.abs(maps).sum())
"""
PARENT = """
import sys
from concurrent import futures
import child
from attribution_benchmarks.report import tasks

if __name__ == "__main__":
    place = f"torch:{sys.argv[2]}:late"
    if sys.argv[3] == "child":
        with futures.ProcessPoolExecutor(1, tasks._CONTEXT, tasks._begin, (False,)) as pool:
            found = pool.submit(child.explained, place, print).result()
    else:
        found = child.explained(place, print)
    print("found", found)
"""
LATE = """
def late(model, inputs, targets):
    import sys, types
    sys.modules.setdefault("torchvision", types.ModuleType("torchvision"))
    sys.modules.setdefault("zennit.torchvision", types.ModuleType("zennit.torchvision"))
    import torch.optim
    import torch._dynamo
    import zennit.composites
    return inputs
"""


@pytest.mark.parametrize("where", ["same process", "child"])
@pytest.mark.skipif(
    not importlib.util.find_spec("zennit"), reason="zennit, whose import after TensorFlow is tried, is not installed"
)
def test_zennit_may_be_imported_after_tensorflow(where, tmp_path):
    for name, text in (("child", CHILD), ("parent", PARENT), ("late", LATE)):
        (tmp_path / f"{name}.py").write_text(text)
    arguments = [
        str(tmp_path / "parent.py"),
        str(ROOT / "saved_models/svea/baseline"),
        str(tmp_path / "late.py"),
        where,
    ]
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
    )  # fmt: skip
    assert done.returncode == 0 and "found 80.0" in done.stdout, done.stderr[-2000:]
