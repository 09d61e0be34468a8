"""From a model and inputs to a verdict: a linear network, whose exact contributions are w · x."""

import json
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import attribution
import attribution_benchmarks
from attribution import cli, plotting
from attribution.errors import BadInput
from attribution_benchmarks.choosing import __main__ as command
from attribution_benchmarks.choosing.choice import WORTH, Choice

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


@pytest.fixture(scope="module")
def chosen(network, pictures, tmp_path_factory):
    """The choice, and the directory of its maps."""
    directory = tmp_path_factory.mktemp("choice")
    return attribution_benchmarks.choose(network, pictures, methods=METHODS, output_dir=directory), directory


def test_the_exact_map_has_an_agreement_of_one_and_is_taken(chosen):
    found, _ = chosen
    standings = {one.method: one for one in found.verdict.standings}
    np.testing.assert_allclose(standings["gradient_x_input"].agreement.value, 1, atol=1e-5)
    assert found.verdict.best is standings["gradient_x_input"] and not found.verdict.as_good
    assert str(found).startswith("Take Gradient x Input: ") and "on 12 inputs" in str(found)


def test_a_method_that_does_not_ask_the_network_is_named(chosen):
    found, _ = chosen
    ignorant = next(one for one in found.verdict.standings if one.method == "ignorant")
    assert not ignorant.recommended and {"random_weights", "wrong_class"} <= {*ignorant.unbeaten}
    assert re.search(r"Not shown to depend on what the network has learned: .*ignorant", str(found))


def test_the_answer_comes_first_and_every_method_is_in_the_table(chosen):
    found, directory = chosen
    places = [str(found).index(part) for part in ("Take Gradient x Input", "above references", "Agreement is measured")]
    assert places == sorted(places) and all(f"\n{name} " in str(found) for name in METHODS)
    found.draw(directory / "maps.png")
    assert (directory / "maps.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("option", "values"), [("target", (0, 2)), ("score", ("logits", "probabilities"))])
def test_a_run_has_its_own_scores_and_maps_whatever_ran_in_its_directory_before(option, values, pictures, tmp_path):
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Flatten(), keras.layers.Dense(3), keras.layers.Softmax()]
    keras.Sequential([keras.Input((6, 6, 1)), *layers]).export(tmp_path / "network", verbose=False)

    def choose(value, directory):
        model = attribution.load_model(tmp_path / "network", score=value if option == "score" else None)
        targets = value if option == "target" else 1
        found = attribution_benchmarks.choose(model, pictures, targets, methods=["gradient"], output_dir=directory)
        return found.read_maps("gradient", range(INPUTS)), found.verdict.standings[0].agreement.value

    first, second = values
    for number, value in enumerate((first, second, first)):
        found, expected = choose(value, tmp_path / "together"), choose(value, tmp_path / f"alone{number}")
        np.testing.assert_array_equal(found[0], expected[0])
        assert found[1] == expected[1]
    assert not (tmp_path / "together" / "scores").exists()


def test_few_inputs_are_a_first_look(network, pictures):
    found = attribution_benchmarks.choose(network, pictures[:4], methods=["gradient"])
    assert str(found).startswith("A first look: ") and "Nothing was tested" in str(found)


def test_given_classes_are_explained_and_compared_with_the_predicted(network, pictures):
    classes = np.arange(INPUTS) % 3
    model = attribution.load_model(network)
    right = int((model.scores(pictures).argmax(axis=1) == classes).sum())
    found = attribution_benchmarks.choose(model, pictures, classes, methods=["gradient"])
    assert f"linear predicts the given class of {right} of 12 inputs." in found.limits()
    np.testing.assert_array_equal(found.targets, classes)


def test_inputs_are_drawn_as_words_with_the_names_of_their_classes(chosen, monkeypatch, tmp_path):
    found, _ = chosen
    words = {str(number): np.array([f"word {number}"] * 6, object) for number in range(INPUTS)}
    drawn = []

    class Figure:
        def savefig(self, stream, **options):
            stream.write(b"")

    monkeypatch.setattr(plotting, "plot", lambda maps, inputs, titles, **_: drawn.extend([inputs, titles]) or Figure())
    found.draw(tmp_path / "maps.png", None, words, ["cat", "dog", "cow"])
    assert [row[0] for row in drawn[0]] == ["word 0", "word 4", "word 7", "word 11"]
    assert drawn[1][0] == f"0, class {['cat', 'dog', 'cow'][found.targets[0]]}"


def test_a_single_input_has_no_interval(network, pictures):
    found = attribution_benchmarks.choose(network, pictures[:1], methods=["gradient"])
    assert "on 1 input;" in str(found) and " to " not in str(found).splitlines()[0]


def test_a_live_network_and_one_without_variables_are_scored(pictures):
    inputs = keras.Input((6, 6, 1))
    model = keras.Model(inputs, keras.layers.Flatten()(inputs))  # the score of a class is a pixel
    found = attribution_benchmarks.choose(model, pictures, methods=["gradient_x_input"])
    assert isinstance(found, Choice) and "no variables" in found.notes[0]
    assert "random_weights" not in found.verdict.standings[0].references


_WITH_A_BASELINE = ("integrated_gradients", "expected_gradients", "occlusion")


def test_features_of_a_vector_are_replaced_by_their_means_over_the_inputs():
    """The exact contributions of a linear network are then w · (x - mean), of features on other scales."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(2)])
    rows = np.random.default_rng(0).normal([0, 5, 100, -3, 0, 1], [1, 1, 10, 0.1, 2, 1], (12, 6)).astype(np.float32)

    def exact(queries):
        return queries.input_gradient() * (queries.inputs - rows.mean(axis=0))

    found = attribution_benchmarks.choose(model, rows, methods=[exact, "gradient_x_input", *_WITH_A_BASELINE])
    values = {one.method: one.agreement.value for one in found.verdict.standings}
    assert values["exact"] == pytest.approx(1, abs=1e-3) and values["gradient_x_input"] < 0.9
    for name in _WITH_A_BASELINE:  # they start from the means, too
        assert values[name] == pytest.approx(1, abs=1e-3)
    found = attribution_benchmarks.choose(model, rows[:4], methods={"a": "integrated_gradients"})  # by its label
    assert found.verdict.standings[0].agreement.value > 0.9
    found = attribution_benchmarks.choose(model, rows, methods=[exact, "gradient_x_input"], background=0)
    assert found.verdict.best.method == "gradient_x_input"


def test_what_does_not_apply_is_listed_with_its_reason(network, pictures):
    found = attribution_benchmarks.choose(network, pictures[:2], methods=["gradient", "attention_rollout"])
    assert "no attention" in found.refused["attention_rollout"] and "no attention" in str(found)
    with pytest.raises(BadInput, match="no method applies"):
        attribution_benchmarks.choose(network, pictures, methods=["attention_rollout"])


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
        (None, np.ones((2, 6, 6, 1), np.float32), {"names": ["a", "a"]}, "two inputs have one name"),
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
    values = {one.method: one.agreement.value for one in found.verdict.standings}
    assert values["exact"] == pytest.approx(1, abs=1e-3) and values["gradient"] < 0.9
    assert "input_values" not in found.verdict.baselines and "random_weights" in found.verdict.standings[0].references


def test_several_inputs_are_explained_together_or_alone():
    keras.utils.set_random_seed(3)
    model = _two_inputs()
    rows = {
        name: np.random.default_rng(place).normal(size=(12, 3)).astype(np.float32) for place, name in enumerate("ab")
    }

    def exact(queries):
        return queries.input_gradient() * (queries.inputs - np.concatenate([rows["a"], rows["b"]], axis=1).mean(axis=0))

    found = attribution_benchmarks.choose(model, rows, methods=[exact], explain_input="all")
    assert found.verdict.standings[0].agreement.value == pytest.approx(1, abs=1e-3)
    assert found.features == ["a 0", "a 1", "a 2", "b 0", "b 1", "b 2"] and found.inputs.shape == (12, 6)
    alone = attribution_benchmarks.choose(model, rows, methods=["gradient"], explain_input="b")
    assert alone.inputs.shape == (12, 3) and "random_weights" in alone.verdict.standings[0].references


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
    assert found.inputs.shape == (INPUTS, 6, 6, 2)
    assert found.verdict.standings[0].agreement.value == pytest.approx(1, abs=1e-3)


def test_the_worth_of_a_choice_is_that_of_the_file(chosen):
    found, _ = chosen
    worth = json.loads(WORTH.read_text(encoding="utf-8"))
    text = " ".join((WORTH.parents[2] / "docs" / "own_models.md").read_text(encoding="utf-8").split())
    assert f"{len(worth['cases'])} cases, five networks of SVEA, five pairs of BIM, three networks of" in text
    assert f"takes lies {100 * worth['chosen']:.0f} %" in text and f"reaches {100 * worth['fixed']:.0f} %" in text
    for title, rule in (("`choose`", "chosen"), ("best on the other benchmarks", "fixed")):
        shares = [f"{100 * one[rule]:.0f}" for one in worth["by_benchmark"].values()]
        assert f"| {title} | {' | '.join(shares)} |" in text
    masked = {name: f"{100 * share:.0f}" for name, share in worth["by_masks"].items()}
    assert f"| largest mass on 12 masks | – | – | – | – | {masked['bim']} | {masked['clevr_xai']} |" in text
    assert f"reached {100 * worth['chosen']:.0f} % of the way" in found.limits()[-1]


def run(capsys, *arguments):
    code = cli.execute(command.main, command.FLAGS, command.__doc__, ["choose", *arguments])
    return code, capsys.readouterr()


def test_the_command_writes_a_page_and_prints_the_answer(network, pictures, tmp_path, capsys):
    np.save(tmp_path / "inputs.npy", pictures)
    given = [f"--model={network}", f"--images={tmp_path}/inputs.npy", "--methods=gradient_x_input,gradient"]
    code, said = run(capsys, *given, f"--output_dir={tmp_path}/choice")
    assert code == 0 and said.out.startswith("Take Gradient x Input: ")
    assert (tmp_path / "choice" / "maps.png").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--images is empty"),
        (["--images=missing.npy"], "'missing.npy' does not exist"),
        (["--images={inputs}", "--target=cat"], "--target=cat is not a class"),
        (["--images={inputs}", "--methods=gradients"], "no method 'gradients'; did you mean 'gradient'"),
        (["--images={inputs}", "--class_names=missing.txt"], "no missing.txt"),
        (["--images={inputs}", "--class_names={names}"], "has 1 names, the model 3 classes"),
        (["--images={inputs}", "--class_names={empty}"], "has 0 names, the model 3 classes"),
    ],
)
def test_bad_input_is_one_line(arguments, message, network, pictures, tmp_path, capsys):
    np.save(tmp_path / "inputs.npy", pictures)
    (tmp_path / "names").write_text("one\n")
    (tmp_path / "empty").touch()
    files = {name: tmp_path / name for name in ("names", "empty")}
    given = [each.format(inputs=tmp_path / "inputs.npy", **files) for each in arguments]
    code, said = run(capsys, f"--model={network}", f"--output_dir={tmp_path}/choice", *given)
    assert code == 2 and said.out == ""
    lines = [line for line in said.err.splitlines() if not line.startswith("note")]
    assert len(lines) == 1 and message in lines[0]
    assert not (tmp_path / "choice" / "maps.png").exists()
