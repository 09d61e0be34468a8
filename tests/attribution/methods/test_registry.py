"""Entries of the registry, method cards and the resolution of names."""

import importlib.util
import pathlib
import subprocess
import sys

import pytest

import attribution
from attribution.errors import BadInput
from tools.docs.document_registries import methods_page


@pytest.mark.parametrize("name", attribution.METHODS)
def test_every_method_has_a_complete_method_card(name):
    assert ", " not in attribution.METHODS[name].title  # which separates titles in sentences
    method = attribution.METHODS[name]
    assert method.name == name and method.title
    for part in ("citation", "requirements", "cost", "randomness", "weaknesses"):
        assert getattr(method.card, part)
    assert method.function.__doc__ and method.family
    assert method.parameters({}) == dict(method.defaults)


@pytest.mark.parametrize(
    ("original", "variants"),
    [
        (
            "grad_cam",
            ["layer_cam", "hires_cam", "eigen_cam", "ablation_cam", "score_cam", "sise", "tf_explain.grad_cam"],
        ),
        ("integrated_gradients", ["gradient_x_input", "expected_gradients", "guided_integrated_gradients", "idgi"]),
        ("lrp_epsilon", ["lrp_alpha1beta0", "lrp_attn", "lrp_gamma", "excitation_backprop", "deeplift"]),
        ("attention_rollout", ["gradient_rollout"]),
        ("gradient", ["smoothgrad", "vargrad", "tf_keras_vis.smoothgrad"]),
    ],
)
def test_variants_are_of_one_family(original, variants):
    assert {attribution.METHODS[name].family for name in variants} == {attribution.METHODS[original].family}


def test_a_custom_method_has_the_family_that_it_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("mine.py").write_text(
        "def alone(passes):\n    return passes.inputs\n\n\n"
        "def named(passes):\n    return passes.inputs\n\n\nnamed.family = 'gradient'\n\n\n"
        "def wrong(passes):\n    return passes.inputs\n\n\nwrong.family = 3\n"
    )
    families = {name: attribution.resolve_method(f"mine.py:{name}").family for name in ("alone", "named")}
    assert families == {"alone": None, "named": "gradient"}
    with pytest.raises(BadInput, match="its attribute family is 3; set it to a word"):
        attribution.resolve_method("mine.py:wrong")


def test_a_method_in_pytorch_without_pytorch_is_one_line(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BadInput, match=r"needs torch, which is not installed: pip install"):
        attribution.resolve_method("torch:my_method.py:f")


OWN_METHODS = [name for name, method in attribution.METHODS.items() if not method.library and "rollout" not in name]


FEWER = {  # signals are not between 0 and 1
    "rise": {"masks": 10},
    "shapley_sampling": {"permutations": 1},
    "lime": {"samples": 30},
    "lrp_clevr_xai": {"low": -4, "high": 4},
    "lrp_epsilon_gamma_box": {"low": -4, "high": 4},
}


@pytest.mark.parametrize("name", [name for name in OWN_METHODS if name != "xrai"])
def test_only_random_methods_depend_on_the_seed(name, models, inputs):
    maps = [
        attribution.explain(name, models["signal"], inputs["signal"], seed=seed, **FEWER.get(name, {}))
        for seed in (0, 1)
    ]
    assert (maps[0].tobytes() != maps[1].tobytes()) == attribution.METHODS[name].is_random


def test_the_registry_cannot_be_changed_by_accident():
    with pytest.raises(TypeError):
        attribution.METHODS["mine"] = None


def test_a_parameter_without_default_must_be_given():
    def needs_scale(passes, *, scale):
        return passes.inputs * scale

    method = attribution.Method("needs_scale", "Needs scale", needs_scale)
    assert method.parameters({"scale": 2}) == {"scale": 2}
    with pytest.raises(BadInput, match="needs a value for 'scale'"):
        method.parameters({})


@pytest.mark.parametrize(
    "imported",
    ["attribution.explain.__main__", "attribution_benchmarks.report.reproduce", "bim.metrics", "clevr_xai.evaluate"],
)
def test_help_and_checks_of_flags_import_no_tensorflow(imported):
    code = (
        f"import attribution, {imported}, sys; attribution.METHODS; "
        "sys.exit('tensorflow' in sys.modules or 'keras' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_page_of_methods_is_up_to_date():
    committed = pathlib.Path(__file__).parents[3] / "docs" / "methods.md"
    assert committed.read_text() == methods_page(), "run python -m tools.docs.document_registries"
