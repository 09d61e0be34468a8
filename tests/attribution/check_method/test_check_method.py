"""Every check passes what keeps the contract and catches what breaks it."""

import sys

import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution import cli
from attribution.check_method import CHECKS
from attribution.check_method.__main__ import run as run_command

METHODS = """
import numpy as np

def good(passes, *, power=1):
    return abs(passes.input_gradient()) ** power * passes.inputs

def noisy(passes):
    noise = [passes.generator(row, "noise").normal(size=passes.inputs.shape[1:]) for row in range(len(passes))]
    return passes.input_gradient() + np.stack(noise)

def global_noise(passes):
    return passes.input_gradient() + np.random.normal(size=passes.inputs.shape)

def noise_by_row(passes):
    noise = [np.random.default_rng(row).normal(size=passes.inputs.shape[1:]) for row in range(len(passes))]
    return passes.input_gradient() + np.stack(noise)

def over_the_batch(passes):
    return passes.input_gradient() / np.abs(passes.input_gradient()).max()

def by_place(passes):
    return passes.input_gradient() * (1 + np.arange(len(passes)).reshape(-1, *[1] * (passes.inputs.ndim - 1)))

def writes(passes):
    gradient = passes.input_gradient()
    gradient *= 2
    return gradient

def infinite(passes):
    return passes.inputs / 0

def too_short(passes):
    return passes.inputs[:3]

def asks_in_every_block(passes):
    baseline = np.zeros((5, *passes.inputs.shape[1:]), np.float32)
    return passes.input_gradient() * (1 + passes.model.scores(baseline).mean())

def crashes(passes):
    return {}["nothing"]

def images_alone(passes):
    from attribution.errors import BadInput
    if passes.inputs.ndim != 4:
        raise BadInput("only images")
    return passes.input_gradient()

def nothing_at_all(passes):
    from attribution.errors import BadInput
    raise BadInput("not today")

def coarse(passes):
    values, gradients = passes.layer_gradient()
    return (values * gradients).sum(axis=-1)

def tf_keras_vis_saliency(passes):
    from tf_keras_vis.saliency import Saliency
    from tf_keras_vis.utils.scores import CategoricalScore
    score = CategoricalScore(passes.targets.tolist())
    return Saliency(passes.keras_model)(score, passes.inputs, normalize_map=False)
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("own") / "own.py"
    path.write_text(METHODS)
    return path


def test_a_method_as_a_library_defines_it_is_checked():
    found = attribution.check_method("integrated_gradients@xplique", show=False)
    assert {finding.outcome for finding in found} == {"passed"}


def outcomes(file, name, **options):
    found = attribution.check_method(f"{file}:{name}", show=False, **options)
    return {(finding.on, finding.check): finding for finding in found}


@pytest.mark.parametrize("name", ["good", "noisy", "coarse", "tf_keras_vis_saliency"])
def test_what_keeps_the_contract_passes_every_check(name, file):
    found = outcomes(file, name)
    assert set(found) == {(on, check) for on in ("signals", "images") for check in CHECKS}
    assert {finding.outcome for finding in found.values()} == {"passed"}, found


BROKEN = [
    ("global_noise", "same_seed_same_bytes", "a second call gave other maps"),
    ("noise_by_row", "row_independence", "instead of from queries.generator"),
    ("over_the_batch", "row_independence", "in batches of 1 or 4 maps differ"),
    ("by_place", "row_independence", "with the inputs in reverse maps differ"),
    ("writes", "returns_maps", "copy what you change"),
    ("infinite", "returns_maps", "returned NaN or infinite values"),
    ("too_short", "returns_maps", r"returned float32 of shape (3, 24, 2)"),
    ("asks_in_every_block", "passes_per_input", "are recomputed for every batch"),
    ("crashes", "returns_maps", "KeyError: 'nothing'"),
]


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize(("name", "check", "words"), BROKEN)
def test_what_breaks_it_is_caught_and_said(name, check, words, file):
    finding = outcomes(file, name)["signals", check]
    assert finding.outcome == "FAILED" and words in finding.words


def test_every_check_has_something_that_it_catches():
    assert {check for _, check, _ in BROKEN} == set(CHECKS)


def saved(scores, rows, path):
    """Return a plain function of six features as a model; its batch is fixed where a number of rows is given."""
    module = tf.Module()
    spec = tf.TensorSpec((rows, 6), tf.float32, name="x")
    module.call = tf.function(lambda x: {"scores": scores(x)}, input_signature=[spec], autograph=False)
    tf.saved_model.save(module, str(path), signatures=module.call)
    return attribution.load_model(path)


KERNEL = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)


def test_mixed_rows_are_caught_where_the_batch_is_fixed(file, tmp_path):
    """No other batch size can be compared there."""
    model = saved(lambda x: tf.square(tf.matmul(x, KERNEL)), 4, tmp_path)
    failed = [
        finding.check
        for finding in outcomes(file, "over_the_batch", model=model).values()
        if finding.outcome == "FAILED"
    ]
    assert failed == ["row_independence"]
    assert {finding.outcome for finding in outcomes(file, "good", model=model).values()} == {"passed"}


def test_a_kind_of_input_that_is_refused_is_named_and_all_of_them_is_a_failure(file):
    found = outcomes(file, "images_alone")
    assert (
        found["signals", "returns_maps"].outcome == "refused"
        and "only images" in found["signals", "returns_maps"].words
    )
    assert found["images", "row_independence"].outcome == "passed"
    assert {finding.outcome for finding in outcomes(file, "nothing_at_all").values()} == {"FAILED"}


def test_pass_counts_are_told(file):
    assert (
        outcomes(file, "good")["images", "passes_per_input"].words == "0 forward and 1 gradient passes for each input"
    )
    found = attribution.check_method("integrated_gradients", parameters={"points": 4}, show=False)
    words = {finding.words for finding in found if finding.check == "passes_per_input"}
    assert words == {"0 forward and 4 gradient passes for each input"}


def test_a_model_of_ones_own(file, exported, capsys):
    model = attribution.load_model(exported["two_inputs"])
    found = attribution.check_method(f"{file}:good", model, explain_input="image")
    assert {finding.outcome for finding in found} == {"passed"} and len(found) == len(CHECKS)
    assert capsys.readouterr().out.splitlines()[-1] == f"{file}:good: 4 checks passed, 0 failed"


def test_the_command_prints_and_its_code_says_it(file, exported, monkeypatch, capsys):
    monkeypatch.chdir(file.parent)
    monkeypatch.setattr(cli, "run", lambda *command: sys.exit(cli.execute(*command, sys.argv)))

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["check_method", *arguments, f"--model={exported['image']}"])
        with pytest.raises(SystemExit) as ended:
            run_command()
        return ended.value.code, *capsys.readouterr()

    code, out, error = run("own.py:good")
    assert (code, error) == (0, "") and out.endswith("own.py:good: 4 checks passed, 0 failed\n")
    code, out, _ = run("own.py:good", "own.py:noise_by_row")
    assert code == 1 and "FAILED" in out and "own.py:noise_by_row: 3 checks passed, 1 failed" in out
    assert run("own.py:nobody")[0] == 2
