"""From a model and inputs to advice and checks: a linear network, whose exact contributions are w · x."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import attribution
import attribution_benchmarks
from attribution import cli
from attribution.errors import BadInput
from attribution_benchmarks.choosing import __main__ as command

INPUTS = 12


def ignorant(queries):
    """Do not ask the network."""
    return abs(queries.inputs)


METHODS = {"gradient_x_input": "gradient_x_input", "gradient": "gradient", "ignorant": ignorant}


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    keras.utils.set_random_seed(0)
    inputs = keras.Input((6, 6, 1))
    model = keras.Model(inputs, keras.layers.Dense(3)(keras.layers.Flatten()(inputs)))
    path = tmp_path_factory.mktemp("choosing") / "linear"
    model.export(path, verbose=False)
    return str(path)


@pytest.fixture(scope="module")
def pictures():
    """Pictures whose mean is 0, so that a removed position is 0."""
    drawn = np.random.default_rng(0).normal(size=(INPUTS, 6, 6, 1)).astype(np.float32)
    return drawn - drawn.mean(axis=(1, 2, 3), keepdims=True)


def mean(found, method):
    return np.nanmean(found.methods[method])


def test_the_exact_map_has_an_agreement_of_one_and_an_ignorant_one_is_below_its_references(network, pictures):
    found = attribution_benchmarks.choose(network, pictures, methods=METHODS)
    assert found.method == "integrated_gradients" and found.kind == "other" and found.inputs == INPUTS
    assert mean(found, "gradient_x_input") == pytest.approx(1, abs=1e-5) == mean(found, found.method)
    assert max(found.p_values().values()) < 0.05 and found.against() == [] and mean(found, "ignorant") < 0.5
    advice, checks, _, header, *_ = str(found).splitlines()
    assert advice.startswith("Take Integrated Gradients: known truth recommends it for vectors, and pictures in")
    assert checks.startswith("These inputs do not speak against it: it is better than all references as measured, ")
    assert "agreement" in header
    assert all(f"\n{name} " in str(found) for name in METHODS)


def test_inputs_of_one_group_are_one_input_and_few_are_not_tested(network, pictures):
    found = attribution_benchmarks.choose(network, pictures, groups=[row // 4 for row in range(INPUTS)])
    assert found.inputs == 3 and found.p_values() == {} and "shown for none (3 independent inputs)" in str(found)
    with pytest.raises(BadInput, match="'clusters' has 2 entries for 12 inputs"):
        attribution_benchmarks.choose(network, pictures, groups=["a", "b"])


def test_given_classes_are_explained_and_compared_with_the_predicted(network, pictures):
    classes = np.arange(INPUTS) % 3
    model = attribution.load_model(network)
    right = int((model.scores(pictures).argmax(axis=1) == classes).sum())
    found = attribution_benchmarks.choose(model, pictures, classes, methods=["gradient"])
    assert f"the model predicts the given class of {right} of 12 inputs." in found.notes


def test_a_live_network_and_one_without_variables_are_scored(pictures):
    inputs = keras.Input((6, 6, 1))
    model = keras.Model(inputs, keras.layers.Flatten()(inputs))  # the score of a class is a pixel
    found = attribution_benchmarks.choose(model, pictures)
    assert "no variables" in found.notes[0] and "random_weights" not in found.p_values()


_WITH_A_BASELINE = ("integrated_gradients", "expected_gradients", "occlusion")


def test_features_of_a_vector_are_replaced_by_their_means_over_the_inputs():
    """The exact contributions of a linear network are then w · (x - mean), of features on other scales."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(2)])
    rows = np.random.default_rng(0).normal([0, 5, 100, -3, 0, 1], [1, 1, 10, 0.1, 2, 1], (12, 6)).astype(np.float32)

    def exact(queries):
        return queries.input_gradient() * (queries.inputs - rows.mean(axis=0))

    found = attribution_benchmarks.choose(model, rows, methods=[exact, "gradient_x_input", *_WITH_A_BASELINE])
    values = {name: mean(found, name) for name in found.methods}
    assert values["exact"] == pytest.approx(1, abs=1e-3) and values["gradient_x_input"] < 0.9
    for name in _WITH_A_BASELINE:  # they start from the means, too
        assert values[name] == pytest.approx(1, abs=1e-3)
    found = attribution_benchmarks.choose(model, rows[:4], methods={"a": "integrated_gradients"})  # by its label
    assert mean(found, "a") > 0.9
    found = attribution_benchmarks.choose(model, rows, methods=[exact, "gradient_x_input"], background=0)
    assert mean(found, "gradient_x_input") == pytest.approx(1, abs=1e-3) and mean(found, "exact") < 0.99


def test_what_does_not_apply_is_listed_with_its_reason(network, pictures):
    found = attribution_benchmarks.choose(network, pictures[:2], methods=["gradient", "attention_rollout"])
    assert "attention_rollout does not apply: " in str(found)


def _tokens():
    inputs = keras.Input((5,), dtype="int32")
    return keras.Model(inputs, keras.layers.Dense(2)(keras.layers.Flatten()(keras.layers.Embedding(7, 3)(inputs))))


def _number():
    return keras.Sequential([keras.Input((1,)), keras.layers.Dense(2)])


def _two_inputs():
    inputs = [keras.Input((3,), name=name) for name in "ab"]
    return keras.Model(inputs, keras.layers.Dense(2)(keras.layers.Concatenate()(inputs)))


@pytest.mark.parametrize(
    ("make", "inputs", "options", "message"),
    [
        (_tokens, np.ones((3, 5), np.int32), {}, "int32 values, such as tokens, which have no mean"),
        (_tokens, np.ones((3, 5), np.int32), {"background": 0.5}, "the background 0.5 is not a whole number"),
        (_two_inputs, {name: np.ones((3, 3), np.float32) for name in "ab"}, {}, "say which to explain"),
        (_number, np.ones((3, 1), np.float32), {}, "is one number"),
        (None, np.ones((0, 6, 6, 1), np.float32), {}, "inputs are empty"),
        (None, np.ones((2, 6, 6, 1), np.float32), {"targets": 7}, "7"),
        (None, np.ones((2, 6, 6, 1), np.float32), {"background": [1, 2]}, "the background has the shape"),
    ],
)
def test_what_is_not_defined_is_refused(make, inputs, options, message, network):
    with pytest.raises(BadInput, match=message):
        attribution_benchmarks.choose(make() if make else network, inputs, methods=["gradient"], **options)


def test_tokens_are_replaced_by_the_background():
    """The exact contribution of a token to a linear network is w · (embedding - that of the background)."""
    keras.utils.set_random_seed(2)
    model = _tokens()
    tokens = np.random.default_rng(0).integers(1, 7, (12, 5)).astype(np.int32)
    weights = model.layers[-1].get_weights()[0].reshape(5, 3, 2)
    absent = model.layers[1].get_weights()[0][0]

    def exact(queries):
        return (queries.inputs - absent) * np.stack([weights[..., target] for target in queries.targets])

    found = attribution_benchmarks.choose(model, tokens, methods=[exact, "gradient"], background=0)
    values = {name: mean(found, name) for name in found.methods}
    assert values["exact"] == pytest.approx(1, abs=1e-3) and values["gradient"] < 0.9
    assert "input_values" not in found.baselines and "random_weights" in found.p_values()
    assert found.kind == "tokens"


def test_several_inputs_are_explained_together_or_alone():
    keras.utils.set_random_seed(3)
    model = _two_inputs()
    rows = {
        name: np.random.default_rng(place).normal(size=(12, 3)).astype(np.float32) for place, name in enumerate("ab")
    }

    def exact(queries):
        return queries.input_gradient() * (queries.inputs - np.concatenate([rows["a"], rows["b"]], axis=1).mean(axis=0))

    found = attribution_benchmarks.choose(model, rows, methods=[exact], explain_input="all")
    assert mean(found, "exact") == pytest.approx(1, abs=1e-3)
    alone = attribution_benchmarks.choose(model, rows, methods=["gradient"], explain_input="b")
    assert "random_weights" in alone.p_values()


def test_channels_first_are_explained_as_channels_last(network, pictures, tmp_path):
    class First(tf.Module):
        def __init__(self):
            self.inner = tf.saved_model.load(network)

        @tf.function(input_signature=[tf.TensorSpec([None, 2, 6, 6], tf.float32)])
        def scores(self, inputs):
            moved = tf.nn.conv2d(tf.transpose(inputs, [0, 2, 3, 1]), tf.constant([[[[1.0], [0.0]]]]), 1, "SAME")
            return {"scores": self.inner.signatures["serving_default"](moved)["output_0"]}

    first = First()
    tf.saved_model.save(first, tmp_path / "first", signatures=first.scores)
    given = np.repeat(np.moveaxis(pictures, -1, 1), 2, axis=1)
    found = attribution_benchmarks.choose(str(tmp_path / "first"), given, methods=["gradient_x_input"], background=0)
    assert mean(found, "gradient_x_input") == pytest.approx(1, abs=1e-3)


def run(capsys, *arguments):
    code = cli.execute(command.main, command.FLAGS, command.__doc__, ["choose", *arguments])
    return code, capsys.readouterr()


def test_the_command_prints_advice_and_an_estimate_of_the_time(network, pictures, tmp_path, capsys):
    np.save(tmp_path / "inputs.npy", pictures)
    (tmp_path / "groups").write_text("\n".join(map(str, range(INPUTS))))
    given = [f"--model={network}", f"--images={tmp_path}/inputs.npy", "--methods=gradient"]
    code, said = run(capsys, *given, f"--groups={tmp_path}/groups")
    assert code == 0 and said.out.startswith("Take Integrated Gradients: ") and "\ngradient " in said.out
    assert " passes, at most about " in said.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--images is empty"),
        (["--images=missing.npy"], "'missing.npy' does not exist"),
        (["--images={inputs}", "--target=cat"], "--target=cat is not a class"),
        (["--images={inputs}", "--methods=gradients"], "no method 'gradients'; did you mean 'gradient'"),
        (["--images={inputs}", "--groups=missing.txt"], "there is no file --groups=missing.txt"),
    ],
)
def test_bad_input_is_one_line(arguments, message, network, pictures, tmp_path, capsys):
    np.save(tmp_path / "inputs.npy", pictures)
    given = [each.format(inputs=tmp_path / "inputs.npy") for each in arguments]
    code, said = run(capsys, f"--model={network}", *given)
    assert code == 2 and said.out == ""
    lines = [line for line in said.err.splitlines() if not line.startswith("note")]
    assert len(lines) == 1 and message in lines[0]
