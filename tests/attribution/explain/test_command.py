"""The command draws what the library computes, says what it chose, and refuses what it cannot use in one line."""

import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import attribution
from attribution import cli
from attribution.explain import __main__ as command

pytestmark = pytest.mark.usefixtures("load_once")


@pytest.fixture
def pictures(tmp_path):
    generator = np.random.default_rng(7)
    for name in ("left", "right"):
        Image.fromarray(generator.integers(0, 256, (16, 16, 3)).astype(np.uint8)).save(tmp_path / f"{name}.png")
    return tmp_path


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Return a caller of the command in a folder of its own: exit code, standard output and error."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        code = cli.execute(command.main, command.FLAGS, command.__doc__, ["explain", *map(str, arguments)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def test_the_maps_are_those_of_the_library(run, exported, models, pictures):
    code, out, err = run(
        f"--model={exported['image']}", f"--image={pictures}", "--methods=gradient,grad_cam", "--output=m.png",
        "--maps=m.npz", "--preprocessing=-1..1",
    )  # fmt: skip
    assert (code, err) == (0, "")
    pixels = np.stack([np.asarray(Image.open(pictures / f"{name}.png")) for name in ("left", "right")])
    inputs = pixels.astype(np.float32) / 127.5 - 1
    kept = np.load(pictures / "m.npz")
    np.testing.assert_allclose(kept["inputs"], inputs, atol=1e-6)
    predicted = models["image"].predict(kept["inputs"])
    assert kept["targets"].tolist() == predicted.tolist()
    for name in ("gradient", "grad_cam"):
        np.testing.assert_array_equal(kept[name], attribution.explain(name, models["image"], kept["inputs"], predicted))
    assert Image.open(pictures / "m.png").size[0] > 500
    lines = out.splitlines()
    assert lines[0].startswith(f"left: class {predicted[0]}: ")
    assert lines[1].startswith(f"right: class {predicted[1]}: ")
    assert lines[0].count("class") == 5 and lines[2] == "written to m.png and m.npz"


def test_vectors_tokens_and_video_are_explained_from_the_command_line(run, from_function, tmp_path):
    table = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    np.save(tmp_path / "rows.npy", table[:2])
    weights = tf.constant(table)
    model = from_function(lambda x: x @ tf.transpose(weights), 3)
    explain = [f"--model={model.path}", "--image=rows.npy", "--methods=gradient_x_input", "--maps=m.npz"]
    code, out, err = run(*explain, "--output=rows.png", "--target=1")
    assert (code, err) == (0, "") and out.endswith("written to rows.png and m.npz\n")
    np.testing.assert_allclose(np.load("m.npz")["gradient_x_input"], table[:2] * table[1], rtol=1e-6)
    assert Image.open("rows.png").size[0] > 300
    np.save(tmp_path / "tokens.npy", np.array([[0, 4, 2, 2]], np.int32))
    model = from_function(
        lambda x: tf.reduce_sum(tf.gather(weights, x, name="embedded") ** 2, axis=1), 4, dtype=tf.int32
    )
    explain = [f"--model={model.path}", "--image=tokens.npy", "--methods=gradient", "--maps=t.npz", "--output=t.png"]
    code, _, err = run(*explain, "--target=0")
    assert (code, err) == (0, "") and Image.open("t.png").size[0] > 300
    expected = 2 * table[[[0, 4, 2, 2]]] * [1, 0, 0]
    np.testing.assert_allclose(np.load("t.npz")["gradient"], expected, rtol=1e-6)

    np.save(tmp_path / "video.npy", np.ones((1, 2, 4, 4, 1), np.float32))
    model = from_function(lambda x: tf.reduce_sum(x, axis=(2, 3, 4)), 2, 4, 4, 1)
    explain = [f"--model={model.path}", "--image=video.npy", "--methods=gradient"]
    code, _, err = run(*explain)
    assert code == 2 and "cannot be plotted; name a file for the values, --maps=maps.npz" in err
    code, out, err = run(*explain, "--maps=v.npz", "--output=v.png")
    assert (code, err) == (0, "") and out.endswith("written to v.npz\n") and not (tmp_path / "v.png").exists()


def test_what_is_chosen_for_the_user_is_said(run, exported, pictures):
    code, _, err = run(f"--model={exported['image']}", f"--image={pictures}/left.png")
    assert code == 0 and (pictures / "maps.png").exists()
    assert err == (
        "note: pixels are given as 0..1, because the file does not say how its inputs were scaled; --preprocessing= "
        "chooses another scale\n"
    )


def test_targets_by_name_and_predictions_by_name(run, exported, models, pictures):
    (pictures / "names.txt").write_text("\n".join(["ant", "bee", "cat", "dog", "eel"]))
    options = [
        f"--model={exported['image']}", f"--image={pictures}", "--methods=gradient", "--preprocessing=0..1",
        "--class_names=names.txt", "--maps=m.npz", "--top=1",
    ]  # fmt: skip
    code, out, _ = run(*options, "--target=bee,4")
    kept = np.load(pictures / "m.npz")
    assert code == 0 and kept["targets"].tolist() == [1, 4]
    best = models["image"].predict(kept["inputs"])
    assert out.splitlines()[0].startswith(f"left: {['ant', 'bee', 'cat', 'dog', 'eel'][best[0]]}: ")
    assert run(*options, "--target=fly")[2] == (
        "error: --target=fly is not a class; give a number, or a name in the file of --class_names\n"
    )
    assert "--target=5 is outside the classes 0 to 4 of --class_names" in run(*options, "--target=5")[2]
    assert "has 3 classes for 2 inputs" in run(*options, "--target=1,2,3")[2]


def test_signals_and_several_inputs(run, exported, inputs, tmp_path):
    np.save(tmp_path / "signals.npy", inputs["signal"][:3])
    code, out, err = run(f"--model={exported['signal']}", "--image=signals.npy", "--score=probabilities")
    assert (code, err) == (0, "") and out.count("(probabilities)") == 3
    np.save(tmp_path / "image.npy", inputs["two_inputs"]["image"][:2])
    np.savez(tmp_path / "both.npz", **{name: array[:2] for name, array in inputs["two_inputs"].items()})
    options = [f"--model={exported['two_inputs']}", "--explain_input=image", "--methods=gradient"]
    assert run(*options, "--image=both.npz", "--maps=two.npz")[0] == 0
    expected = attribution.explain(
        "gradient",
        attribution.load_model(exported["two_inputs"]),
        {name: array[:2] for name, array in inputs["two_inputs"].items()},
        explain_input="image",
    )
    np.testing.assert_array_equal(np.load(tmp_path / "two.npz")["gradient"], expected)
    error = run(*options, "--image=image.npy")[2]
    assert "also has the inputs 'question'; give all by name, as arrays in one .npz file" in error


def test_parameters_go_to_the_methods_that_have_them(run, exported, models, inputs, tmp_path):
    np.save(tmp_path / "x.npy", inputs["signal"][:2])
    code, _, err = run(
        f"--model={exported['signal']}", "--image=x.npy", "--methods=gradient,integrated_gradients,smoothgrad,vargrad",
        "--parameters=points=7, samples = 3,noise=0.5,squared=TRUE", "--maps=m.npz",
    )  # fmt: skip
    assert (code, "error" in err) == (0, False)
    noisy = {"samples": 3, "noise": 0.5}
    chosen = {"gradient": {}, "integrated_gradients": {"points": 7}, "vargrad": noisy} | {
        "smoothgrad": {**noisy, "squared": True}
    }
    expected = attribution.explain_many(
        {name: (name, parameters) for name, parameters in chosen.items()}, models["signal"], inputs["signal"][:2],
        keys=["x 0", "x 1"],
    )  # fmt: skip
    for name, maps in expected.items():
        np.testing.assert_array_equal(np.load(tmp_path / "m.npz")[name], maps)


def test_parameters_have_the_kind_of_a_custom_methods_default(run, exported, inputs, tmp_path):
    np.save(tmp_path / "x.npy", inputs["signal"][:1])
    (tmp_path / "own.py").write_text(
        "def own(queries, *, mode='a', layer=2, factor=1):\n"
        "    print([mode, layer, factor])\n"
        "    return queries.inputs * factor\n"
    )
    code, out, _ = run(
        f"--model={exported['signal']}", "--image=x.npy", "--methods=own.py:own",
        "--parameters=mode=7,layer=3,factor=0.5",
    )  # fmt: skip
    assert code == 0 and "['7', 3, 0.5]" in out


def test_files_of_tensorflow_1_are_named_by_their_tensors(run, tf1, pictures):
    path, _ = tf1
    code, _, err = run(
        f"--model={path}", "--input_tensors=input_tensor:0", "--output_tensor=resnet_model/final_dense:0",
        f"--image={pictures}", "--layer=block_layer1", "--methods=grad_cam", "--preprocessing=caffe",
    )  # fmt: skip
    assert (code, err) == (0, "")


def test_default_methods_that_the_model_refuses_are_left_out_and_named_ones_are_not(run, tmp_path):
    import keras

    keras.Sequential(
        [keras.Input((16, 16, 3)), keras.layers.Flatten(), keras.layers.Dense(4, "tanh"), keras.layers.Dense(2)]
    ).export(tmp_path / "dense", verbose=False)
    np.save(tmp_path / "x.npy", np.ones((16, 16, 3)))
    code, _, err = run("--model=dense", "--image=x.npy")
    assert code == 0 and "note: 'grad_cam' is skipped: the model has no convolution" in err
    assert "'guided_backprop' is skipped" in err
    code, _, err = run("--model=dense", "--image=x.npy", "--methods=grad_cam", "--output=other.png")
    assert code == 2 and err.startswith("error: ") and not (tmp_path / "other.png").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--image="], "--image is empty"),
        (["--maps=maps.npy"], "ends in none of '.npz'"),
        (["--methods=grad-cam"], "did you mean 'grad_cam'"),
        (["--methods=gradient", "--layer=conv"], "none of 'gradient' has a parameter 'layer'; they have none"),
        (["--parameters=points"], "--parameters=points: expected NAME=VALUE, such as points=300"),
        (
            ["--methods=smoothgrad", "--parameters=point=9"],
            "their parameters are 'absolute', 'includes_input', 'logarithm', 'noise', ",
        ),
        (["--parameters=points=3,points=5"], "parameter 'points' is given twice, 3 and 5; give it once"),
        (
            ["--parameters=points=nine"],
            "'points' of method 'integrated_gradients' must be a whole number of at most 10,000,000",
        ),
        (["--image=left.png,x.npy"], "cannot be explained together"),
        (["--image=lefft.png"], "or one table of all inputs (.csv, .npz) is needed; did you mean 'left.png'?"),
        (["--model=lefft.keras"], "or a .keras or .h5 file, is needed; did you mean 'left.keras'?"),
        (["--class_names=three.txt"], "has 3 names, the model 5 classes"),
        (["--model="], "--model is empty"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(options, message, run, exported, pictures):
    np.save(pictures / "x.npy", np.ones((16, 16, 3)))
    (pictures / "three.txt").write_text("a\nb\nc\n")
    (pictures / "left.keras").touch()
    code, out, err = run(f"--model={exported['image']}", "--image=left.png", "--preprocessing=0..1", *options)
    assert code == 2 and out == "" and len(err.splitlines()) == 1 and message in err
    assert not (pictures / "maps.png").exists()


@pytest.mark.parametrize("flag", ["--output=file/maps.png", "--maps=file/maps.npz", "--output=/proc/new/maps.png"])
def test_outputs_are_checked_before_anything_is_loaded(flag, run, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "own.py").write_text("raise SystemExit('it ran')\n")
    code, out, err = run("--model=missing", "--image=missing.png", "--methods=own.py:f", flag)
    assert (code, out) == (2, "") and err.startswith(f"error: {flag.partition('/')[0].partition('file')[0]}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "flag",
    ["--preprocessing=torch", "--target=cat", "--image=no.png", "--class_names=no.txt", "--limit=0", "--fit=crop"],
)
def test_flags_are_checked_before_the_model_is_loaded(flag, run, exported, pictures, monkeypatch):
    monkeypatch.setattr(command, "load_flagged_model", lambda _: pytest.fail("it was loaded"))
    code, out, err = run(f"--model={exported['image']}", "--image=left.png", "--maps=m.npz", flag)
    assert (code, out) == (2, "") and err.startswith("error: ") and err.count("\n") == 1


@pytest.mark.parametrize("flag", ["--layer=no_such", "--target=1,2"])
def test_flags_that_depend_on_the_model_are_checked_before_it_computes(flag, run, exported, pictures, monkeypatch):
    monkeypatch.setattr(attribution.model.model.Model, "scores", lambda *_: pytest.fail("it computed"))
    options = f"--model={exported['image']}", "--image=left.png", "--maps=m.npz", "--preprocessing=0..1"
    code, out, err = run(*options, "--methods=grad_cam,gradient", flag)
    assert (code, out) == (2, "") and err.startswith("error: ") and err.count("\n") == 1


OWN = """
from attribution.errors import BadInput

def refuses(queries):
    raise BadInput("not for vectors")

def broken(queries):
    return queries.inputs[0]
"""


@pytest.mark.parametrize("refused", ["grad_cam", "own.py:refuses"])
def test_named_methods_that_do_not_apply_are_left_out_and_the_others_made(refused, run, tmp_path):
    import keras

    keras.utils.set_random_seed(0)  # some weights make a map whose sum is warned of
    layers = [keras.Input((5,)), keras.layers.Dense(4, "gelu"), keras.layers.Dense(2)]
    keras.Sequential(layers).export(tmp_path / "dense", verbose=False)
    np.save(tmp_path / "x.npy", np.ones((2, 5)))
    (tmp_path / "own.py").write_text(OWN)
    options = "--model=dense", "--image=x.npy", "--maps=m.npz", "--parameters=points=8"
    code, out, err = run(*options, f"--methods=gradient,{refused},integrated_gradients")
    assert code == 0 and out.splitlines()[-1] == "written to maps.png and m.npz"
    lines = err.splitlines()
    assert len(lines) == 2 and lines[0].startswith(f"note: '{refused}' is skipped: ")
    assert "python -m attribution.inspect --model=dense" in lines[1]
    assert {"gradient", "integrated_gradients"} <= set(np.load("m.npz")) and refused not in np.load("m.npz")
    for methods in (refused, f"{refused},xgrad_cam"):
        code, _, err = run(*options[:2], f"--methods={methods}", "--output=none.png", "--parameters=")
        assert code == 2 and err.splitlines()[-1].startswith("error: ") and not (tmp_path / "none.png").exists()
        assert "python -m attribution.inspect --model=dense lists the methods that apply" in err
    code, _, err = run(*options, "--methods=gradient", "--target=7", "--parameters=")
    assert code == 2 and "inspect" not in err  # the method applies, the class does not exist
    code, _, err = run(*options, "--methods=integrated_gradients,own.py:broken", "--output=none.png")
    assert code == 2 and "returned float32 of shape (5,)" in err and not (tmp_path / "none.png").exists()


def test_the_module_is_the_command_and_says_nothing_of_python(exported, pictures):
    done = subprocess.run(
        [sys.executable, "-m", "attribution.explain", f"--model={exported['image']}", "--image=left.png",
         "--methods=grad_cam", "--preprocessing=0..1"],
        capture_output=True, text=True, cwd=pictures, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "written to maps.png"


def test_channels_first_are_plotted_as_pictures(run, from_function, pictures, monkeypatch):
    """As PyTorch's networks take them: pictures of files are turned around, and so is what is plotted."""
    kernel = np.random.default_rng(0).normal(size=(3, 3, 3, 4)).astype(np.float32)

    def scores(x):
        return tf.reduce_mean(tf.nn.relu(tf.nn.conv2d(tf.transpose(x, (0, 2, 3, 1)), kernel, 1, "SAME")), (1, 2))

    path = from_function(scores, 3, 16, 16).path
    drawn = []
    real = command.plotting.plot

    def plot(maps, shown, **options):
        drawn.append((maps, shown))
        return real(maps, shown, **options)

    monkeypatch.setattr(command.plotting, "plot", plot)
    options = [f"--model={path}", "--methods=gradient,grad_cam", "--maps=m.npz", "--preprocessing=imagenet"]
    assert run(*options, "--image=left.png,right.png")[0] == 0
    pixels = np.stack([np.asarray(Image.open(pictures / f"{name}.png")) for name in ("left", "right")])
    kept = np.load("m.npz")
    np.save("given.npy", np.moveaxis(pixels, -1, 1).astype(np.float32))
    assert run(*options, "--image=given.npy")[0] == 0
    for (maps, shown), stored in zip(drawn, (kept, np.load("m.npz")), strict=True):
        np.testing.assert_array_equal(shown, pixels)
        assert maps["grad_cam"].shape == (2, 16, 16)
        np.testing.assert_array_equal(maps["gradient"], np.moveaxis(kept["gradient"], 1, -1))
        assert stored["inputs"].shape == stored["gradient"].shape == (2, 3, 16, 16)
        np.testing.assert_allclose(stored["inputs"], kept["inputs"], atol=1e-6)


def test_residuals_are_printed_stored_and_warned_of(run, exported, models, pictures):
    code, out, err = run(
        f"--model={exported['image']}", f"--image={pictures}", "--methods=deeplift,lrp_alpha1beta0,grad_cam",
        "--preprocessing=0..1", "--target=1", "--maps=m.npz",
    )  # fmt: skip
    assert code == 0
    kept = np.load(pictures / "m.npz")
    assert sorted(name for name in kept if name.endswith(".residual")) == [
        "deeplift.residual", "lrp_alpha1beta0.residual",
    ]  # fmt: skip
    logits = models["image"].scores(kept["inputs"])[:, 1].astype(np.float64)
    missed = kept["lrp_alpha1beta0"].sum(axis=(1, 2, 3), dtype=np.float64) - logits
    np.testing.assert_allclose(kept["lrp_alpha1beta0.residual"], missed, rtol=1e-6)
    shares = 100 * np.abs(missed / logits)
    assert (shares > 5).all()  # its normalization has biases
    said = [line for line in out.splitlines() if "misses" in line]
    assert said == [
        "deeplift with baseline=0.0: the sum of the map misses f(x) - f(baseline) by less than 0.01 % (median of 2 "
        "inputs; largest: less than 0.01 %)",
        f"lrp_alpha1beta0: the sum of the map misses the logit by {np.median(shares):.2g} % (median of 2 inputs; "
        f"largest: {shares.max():.2g} %)",
    ]
    assert err == (
        "warning: lrp_alpha1beta0 misses the logit by more than 5 % on 2 of 2 inputs: biases and other inputs take "
        "relevance, and so does ε where values are small; rules of positive parts lose that of negative sums\n"
    )


@pytest.fixture
def typed(tmp_path):
    """A network of eleven columns of three types, and one of a picture and a vector, as files."""
    generator = np.random.default_rng(0)
    names = [f"n{number}" for number in range(7)]
    weights = tf.constant(generator.normal(size=(8, 2)), tf.float32)

    def of_columns(**columns):
        numbers = tf.concat([columns[name] for name in names], axis=1)
        length = tf.cast(tf.strings.length(columns["city"]) + tf.strings.length(columns["job"]), tf.float32)
        rest = tf.cast(tf.cast(columns["cars"], tf.int32) + columns["rooms"], tf.float32)[:, tf.newaxis] + length
        return {"scores": tf.nn.relu(tf.concat([numbers, rest], axis=1)) @ weights}

    def of_both(picture, extra):
        return {"scores": tf.reduce_mean(picture, (1, 2)) * tf.reduce_sum(extra, axis=1, keepdims=True)}

    columns = {name: ((1,), tf.float32) for name in names}
    columns |= {"cars": ((), tf.int64), "rooms": ((), tf.int32), "city": ((1,), tf.string), "job": ((1,), tf.string)}
    for path, function, specs in (
        ("columns", of_columns, columns),
        ("both", of_both, {"picture": ((6, 8, 3), tf.float32), "extra": ((2,), tf.float32)}),
    ):
        module = tf.Module()
        module.call = tf.function(function, autograph=False)
        signature = {name: tf.TensorSpec((None, *shape), dtype, name) for name, (shape, dtype) in specs.items()}
        tf.saved_model.save(module, str(tmp_path / path), signatures=module.call.get_concrete_function(**signature))
    rows = generator.normal(size=(3, 7)).round(3)
    lines = [",".join(["city", *names, "job", "cars", "rooms", "label"])]
    lines += [",".join(["Bonn", *map(str, row), '"nurse, chief"', "2", "3", "good"]) for row in rows]
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    return names, rows.astype(np.float32)


def test_a_table_of_typed_columns_is_explained_in_one_command(run, typed, tmp_path):
    names, rows = typed
    code, out, err = run(
        "--model=columns", "--image=people.csv", "--maps=m.npz", "--output=bars.png",
        "--methods=gradient_x_input,integrated_gradients", "--target=1",
    )  # fmt: skip
    assert code == 0 and err == (
        f"note: {', '.join(repr(name) for name in names)} are explained together; 'cars', 'city', 'job', 'rooms', not "
        "of floating point, have no bars; --explain_input= chooses\n"
    )
    assert out.splitlines()[0].startswith("people 0: class") and out.endswith("written to bars.png and m.npz\n")
    assert Image.open("bars.png").size[0] > 500
    kept = np.load("m.npz")
    feed = {name: rows[:, [place]] for place, name in enumerate(names)}
    feed |= {"cars": np.full(3, 2), "rooms": np.full(3, 3)}
    feed |= {"city": np.full((3, 1), "Bonn", object), "job": np.full((3, 1), "nurse, chief", object)}
    model = attribution.load_model("columns")
    expected = attribution.explain("gradient_x_input", model, feed, 1, explain_input="all")
    for name in names:
        np.testing.assert_allclose(kept[f"inputs/{name}"], feed[name], rtol=1e-6)
        np.testing.assert_allclose(kept[f"gradient_x_input/{name}"], expected[name], rtol=1e-5)
    start = model.scores(feed | {name: 0 * feed[name] for name in names})
    sums = sum(kept[f"integrated_gradients/{name}"].sum(axis=1) for name in names)
    gap = (model.scores(feed) - start)[:, 1]
    np.testing.assert_allclose(sums - gap, kept["integrated_gradients.residual"], atol=1e-4 * np.abs(gap).max())

    code, _, err = run("--model=columns", "--image=people.csv", "--methods=gradient", "--explain_input=n3,n0")
    assert (code, err) == (0, "")
    code, _, err = run(
        "--model=columns", "--image=people.csv", "--methods=gradient", "--explain_input=n3,n0", "--limit=2"
    )
    assert (code, err) == (0, "note: inputs after the first 2 are not explained; --limit= takes more\n")
    np.savez(
        "none.npz", **{name: array[:0].astype("U" if array.dtype == object else None) for name, array in feed.items()}
    )
    code, out, err = run("--model=columns", "--image=none.npz", "--maps=none_maps.npz", "--output=none.png")
    assert (code, out) == (2, "") and "of 'none.npz' has no rows; at least one is needed" in err
    assert not (tmp_path / "none_maps.npz").exists()
    for options, message in (
        (["--explain_input=n3,cars"], "input 'cars' is of type int64 and has no gradient"),
        (["--explain_input=n3,"], "explain_input='n3,' has an empty name; separate names by one comma"),
        (["--methods=grad_cam"], "grad_cam: it explains one input at a time, by its positions"),
        (["--image=people.csv,x.npy"], "'people.csv' holds all inputs; give no other file with it"),
    ):
        code, _, err = run("--model=columns", "--image=people.csv", *options)
        assert code == 2 and message in err.splitlines()[-1]
    text = (tmp_path / "people.csv").read_text()
    (tmp_path / "people.csv").write_text(text.replace(",", ", "))  # spaces between cells are no part of text
    options = ["--methods=gradient_x_input", "--target=1", "--maps=spaces.npz"]
    assert run("--model=columns", "--image=people.csv", *options)[0] == 0
    np.testing.assert_array_equal(np.load("spaces.npz")["gradient_x_input/n0"], kept["gradient_x_input/n0"])
    for old, new, message in (
        ("cars", "bikes", "'people.csv' has no column for 'cars'; the model's inputs are"),
        (",2,3,good", ",2.5,3,good", "line 2 of 'people.csv': '2.5' in column 'cars' is not a whole number"),
        (",2,3,good", ",2,3", "line 2 has 11 cells for 12 columns"),
        ("n0", "n1", "two columns have the same name"),
    ):
        (tmp_path / "people.csv").write_text(text.replace(old, new, 1))
        assert message in run("--model=columns", "--image=people.csv")[2]


def test_of_a_picture_and_a_vector_the_vector_is_drawn(run, typed, tmp_path):
    generator = np.random.default_rng(1)
    feed = {"picture": generator.random((2, 6, 8, 3)), "extra": generator.normal(size=(2, 2))}
    np.savez("both.npz", **feed)
    options = ["--model=both", "--methods=gradient_x_input,kernel_shap", "--explain_input=all", "--top=0"]
    code, out, err = run(*options, "--image=both.npz", "--maps=m.npz")
    assert (code, err) == (0, "") and out.endswith("written to maps.png and m.npz\n")
    kept = np.load("m.npz")
    assert all(kept[f"kernel_shap/{name}"].shape == feed[name].shape for name in feed)


def test_a_csv_file_of_a_vector_names_its_features(run, from_function, tmp_path):
    model = from_function(lambda x: x @ tf.ones((3, 2)), 3)
    (tmp_path / "rows.csv").write_text("age,size,pH\n1,2,3\n4,5,6\n")
    code, _, err = run(f"--model={model.path}", "--image=rows.csv", "--methods=gradient_x_input", "--maps=m.npz")
    assert (code, err) == (0, "")
    np.testing.assert_array_equal(np.load("m.npz")["inputs"], [[1, 2, 3], [4, 5, 6]])


def test_of_a_waveform_the_maps_on_its_spectrogram_are_not_drawn(run, from_function, tmp_path):
    kernel = np.random.default_rng(0).normal(size=(3, 3, 1, 4)).astype(np.float32)

    def scores(x):
        spectrogram = tf.abs(tf.signal.stft(x, 32, 16))[..., tf.newaxis]
        return tf.reduce_mean(tf.nn.relu(tf.nn.conv2d(spectrogram, kernel, 1, "SAME")), (1, 2))

    model = from_function(scores, 128)
    np.save(tmp_path / "wave.npy", np.random.default_rng(1).normal(size=(2, 128)))
    flags = f"--model={model.path}", "--image=wave.npy"
    code, out, err = run(*flags, "--methods=gradient,grad_cam", "--maps=m.npz")
    assert code == 0 and out.endswith("written to maps.png and m.npz\n") and "'grad_cam' has maps on axes" in err
    kept = np.load("m.npz")
    assert kept["gradient"].shape == (2, 128) and kept["grad_cam"].shape == (2, 7, 17)
    assert run(*flags, "--methods=grad_cam", "--maps=m.npz")[1].endswith("written to m.npz\n")
    code, _, err = run(*flags, "--methods=grad_cam")
    assert code == 2 and err.endswith("which are not plotted; name a file for the values, --maps=maps.npz\n")
