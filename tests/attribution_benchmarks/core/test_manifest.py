"""A manifest says what a table was computed from, and nothing that changes from run to run."""

import json
import shlex

import numpy as np
import pytest

from attribution_benchmarks.core import manifest


def run():
    return manifest.describe_run("svea", {"a": "f1"}, {"mnist1d": "f2"}, np.int64(3), "python -m svea.benchmark")


def test_it_holds_what_the_house_asks_for_and_is_plain_json():
    assert set(run()) == {"benchmark", "versions", "models", "data", "seed", "command"}
    assert json.loads(json.dumps(run())) == run()


def test_two_runs_give_the_same_bytes():
    assert json.dumps(run()) == json.dumps(run())


def test_versions_are_those_of_the_installed_packages():
    assert manifest.versions()["numpy"] == np.__version__


def test_a_shell_reads_the_command_as_it_was_given():
    values = {"methods": ("x", "y"), "seed": 3, "controls": False, "check": True, "model": "my model's/1"}
    assert shlex.split(manifest.command_of("python -m bench", values)) == [
        "python", "-m", "bench", "--methods=x,y", "--seed=3", "--nocontrols", "--check", "--model=my model's/1"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        "ONEDNN_DEFAULT_FPMATH_MODE", "TF_SET_ONEDNN_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE", "ONEDNN_MAX_CPU_ISA",
        "DNNL_MAX_CPU_ISA", "TF_ENABLE_ONEDNN_OPTS", "TF_ENABLE_AUTO_MIXED_PRECISION", "TF_DETERMINISTIC_OPS",
        "TF_ENABLE_AUTO_MIXED_PRECISION_GRAPH_REWRITE", "NVIDIA_TF32_OVERRIDE", "XLA_FLAGS", "TF_XLA_FLAGS",
        "TF_CUDNN_DETERMINISTIC", "NPY_DISABLE_CPU_FEATURES", "OPENBLAS_CORETYPE",
    ],
)  # fmt: skip
def test_variables_that_change_arithmetic_are_named(monkeypatch, name):
    monkeypatch.delenv(name, raising=False)
    before = manifest.versions()
    monkeypatch.setenv(name, "1")
    assert manifest.versions() == {**before, name: "1"} and run()["versions"][name] == "1"


@pytest.mark.parametrize(
    "name", ["TF_CPP_MIN_LOG_LEVEL", "OPENBLAS_NUM_THREADS", "TF_VAR_password", "TF_TOKEN_app", "HOME"]
)
def test_other_variables_are_not(monkeypatch, name):
    monkeypatch.delenv(name, raising=False)
    before = manifest.versions()
    monkeypatch.setenv(name, "1")
    assert manifest.versions() == before


@pytest.mark.parametrize(
    ("change", "back", "name"),
    [
        (
            lambda tf, keras: tf.config.optimizer.set_experimental_options({"auto_mixed_precision": True}),
            lambda tf, keras: tf.config.optimizer.set_experimental_options({"auto_mixed_precision": False}),
            "auto_mixed_precision",
        ),
        (
            lambda tf, keras: tf.config.experimental.enable_tensor_float_32_execution(False),
            lambda tf, keras: tf.config.experimental.enable_tensor_float_32_execution(True),
            "tensor_float_32",
        ),
        (
            lambda tf, keras: tf.config.optimizer.set_jit("autoclustering"),
            lambda tf, keras: tf.config.optimizer.set_jit(False),
            "jit",
        ),
        (
            lambda tf, keras: keras.config.set_floatx("float64"),
            lambda tf, keras: keras.config.set_floatx("float32"),
            "floatx",
        ),
        (
            lambda tf, keras: keras.config.set_dtype_policy("mixed_bfloat16"),
            lambda tf, keras: keras.config.set_dtype_policy("float32"),
            "dtype_policy",
        ),
    ],
)
def test_what_python_sets_of_arithmetic_is_named(change, back, name):
    import keras
    import tensorflow as tf

    before = manifest.versions()
    assert "disable_model_pruning" not in before
    try:
        change(tf, keras)
        assert manifest.versions().get(name) != before.get(name)
    finally:
        back(tf, keras)
