"""The command: what it prints and writes, and how it answers bad input."""

import contextlib
import copy
import io
import json
import shutil
import subprocess
import sys
import types

import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution import cli
from attribution_benchmarks.core.scores import Scores
from attribution_benchmarks.core.store import ScoreStore
from svea import baseline, benchmark
from svea.evaluation import SveaEvaluation

NETWORKS = [baseline.SAVED_MODELS / name for name in ("baseline", "baseline_seed1")]


def run(*arguments):
    return cli.execute(benchmark.main, benchmark.FLAGS, benchmark.__doc__, ["benchmark", *arguments])


class Linear(tf.Module):
    """A network of any input shape and number of classes."""

    def __init__(self, input_shape, classes, scale):
        self.weights = tf.Variable(scale * tf.random.stateless_normal((int(np.prod(input_shape)), classes), (0, 0)))
        self.call = tf.function(
            lambda x: tf.nn.softmax(tf.reshape(x, (-1, self.weights.shape[0])) @ self.weights),
            input_signature=[tf.TensorSpec((None, *input_shape))],
        )


def saved(path, input_shape, classes, scale=1.0):
    network = Linear(input_shape, classes, scale)
    tf.saved_model.save(network, str(path), signatures={"serving_default": network.call})
    return path


def test_help_imports_nothing_heavy():
    heavy = "{'tensorflow', 'keras', 'sklearn', 'matplotlib', 'scipy', 'mnist1d'}"
    code = f"import sys, svea.benchmark, svea.baseline; sys.exit(str({heavy} & set(sys.modules) or ''))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.strip() == ""


class Finished:
    """A run of the command and what it wrote below a directory."""

    def __init__(self, directory, capsys_out, flags):
        self.directory, self.out, self.flags = directory, capsys_out, flags
        self.document = json.loads((directory / "scores.json").read_text())
        self.rows = {(row["method"], row["metric"]): row for row in self.document["rows"]}
        self.groups = {group.where["metric"]: group for group in Scores.load(directory / "scores.json").groups}
        self.files = {path.relative_to(directory): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def run_into(directory, *flags):
    """Run the command with all its outputs below a directory."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert run(*flags, f"--output={directory / 'scores.json'}") == 0
    return Finished(directory, out.getvalue(), flags)


@pytest.fixture(scope="session")
def scores_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("stored")


@pytest.fixture(scope="session")
def finished(tmp_path_factory, scores_dir):
    """Return one run that most tests share; its scores are stored in ``scores_dir``."""
    flags = ["--methods=gradient,grad_cam,random", "--seed=3", f"--scores_dir={scores_dir}"]
    return run_into(tmp_path_factory.mktemp("first"), *flags)


def test_the_table_of_one_network(finished):
    assert finished.out.startswith("saved_models/svea/baseline: accuracy 88.8 % on 1,000 test signals")
    assert len(finished.rows) == len(finished.document["rows"]) == 3 * 3 + 1 + 4 * 3
    manifest = finished.document["manifest"]
    assert finished.document["benchmark"] == "svea" and manifest["seed"] == 3
    assert list(manifest["models"]) == ["saved_models/svea/baseline"]
    assert manifest["command"] == "python -m svea.benchmark --methods=gradient,grad_cam,random --seed=3"
    assert finished.rows["raw_signal", "roe_test"]["value"] == pytest.approx(29.7)
    assert finished.rows["gradient", "roe_test"]["paper"] == 32.7
    for row in finished.rows.values():
        assert row["low"] <= row["value"] <= row["high"]
    for title in ("Vanilla Gradient", "Grad-CAM", "Random map", "True template position", "Random window"):
        assert sum(line.startswith(title + " ") for line in finished.out.splitlines()) == 1
    # A map that explains nothing is worth a window drawn at random.
    assert finished.rows["random", "roe_test"]["low"] < finished.rows["random_window", "roe_test"]["high"]
    assert finished.rows["random", "roe_test"]["value"] < 25


def test_every_signals_values_average_to_the_scores(finished):
    for (method, metric), row in finished.rows.items():
        assert np.mean(finished.groups[metric].values[method]) == pytest.approx(row["value"], abs=1e-9)
    assert sum(len(group.values) for group in finished.groups.values()) == len(finished.rows)


def test_stored_scores_give_the_same_bytes_and_nothing_is_explained(finished, tmp_path, monkeypatch):
    monkeypatch.setattr(attribution, "explain_many", lambda *_, **__: pytest.fail("explained"))
    again = run_into(tmp_path, *finished.flags)
    assert (again.out, again.files) == (finished.out, finished.files)


def test_only_a_further_method_is_computed(finished, tmp_path, monkeypatch):
    asked = []
    explain_many = attribution.explain_many

    def recorded(methods, *arguments, **settings):
        asked.extend(methods)
        return explain_many(methods, *arguments, **settings)

    monkeypatch.setattr(attribution, "explain_many", recorded)
    methods, *others = finished.flags
    run_into(tmp_path, f"{methods},gradient_x_input", *others, "--batch_size=5000")
    assert set(asked) == {"gradient_x_input"}


def test_several_networks_and_a_custom_method(scores_dir, tmp_path, capsys, monkeypatch):
    (tmp_path / "my_methods.py").write_text(
        "import numpy as np\n\n\ndef peak(passes):\n    return np.abs(passes.inputs)\n"
    )
    monkeypatch.chdir(tmp_path)
    output = tmp_path / "scores.md"
    flags = [f"--models={','.join(map(str, NETWORKS))}", f"--output={output}", f"--scores_dir={scores_dir}"]
    assert run("--methods=my_methods.py:peak,gradient", *flags) == 0
    printed = capsys.readouterr().out
    line = next(line for line in printed.splitlines() if line.startswith("peak"))
    control = next(line for line in printed.splitlines() if line.startswith("Largest |x|"))
    assert line.split()[1:4] == control.split()[4:7] == ["61.4", "±", "0.0"]
    assert "standard deviation over 2 networks" in " ".join(printed.split())
    assert sum(line.lstrip("| ").startswith("peak ") for line in output.read_text().splitlines()) == 1


def test_a_users_own_network(scores_dir, tmp_path, capsys):
    network = saved(tmp_path / "mine", (40, 1), 10)
    assert run(f"--model={network}", "--methods=gradient", f"--scores_dir={scores_dir}") == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"{network}: accuracy ")
    # The controls that ask no network stay what they are.
    assert next(line for line in printed.splitlines() if line.startswith("Whole signal")).split()[4] == "29.7"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--methods=grad_camm"], "no method 'grad_camm'; did you mean 'grad_cam'"),
        (["--methods="], "--methods is empty"),
        (["--methods=rise,rise"], "names 'rise' twice"),
        (["--model=a", "--models=b,c"], "both given"),
        (["--models=a,"], "--models has an empty name"),
        (["--models=a,a"], "names a network twice"),
        (["--model=nowhere"], "nowhere"),
        (["--model=empty"], "empty"),
        (["--rise_masks=0"], "rise_masks"),
        (["--model=three_classes"], "has 3 classes; MNIST-1D has 10"),
        (["--model=flat"], "(1, 40, 1)"),
        (["--model=not_a_number"], "NaN"),
    ],
)
def test_bad_input_is_one_line_exit_code_2_and_no_file(arguments, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    if "three_classes" in arguments[0]:
        saved(tmp_path / "three_classes", (40, 1), 3)
    if "flat" in arguments[0]:
        saved(tmp_path / "flat", (40,), 10)
    if "not_a_number" in arguments[0]:
        saved(tmp_path / "not_a_number", (40, 1), 10, scale=np.nan)
    before = sorted(tmp_path.rglob("*"))
    capsys.readouterr()
    assert run(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ") and captured.err.count("\n") == 1
    assert message in captured.err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_method_that_fails_late_leaves_no_file(tmp_path, capsys, monkeypatch):
    (tmp_path / "short.py").write_text("def maps(passes):\n    return passes.inputs.repeat(2, axis=2)\n")
    monkeypatch.chdir(tmp_path)
    assert run("--methods=short.py:maps", "--output=scores.json", "--plot_dir=plots") == 2
    captured = capsys.readouterr()
    assert captured.out == "" and "(1000, 40, 1) or (1000, 40) are needed" in captured.err.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir() if path.name != "__pycache__"] == ["short.py"]


def test_check_model_says_what_is_read_of_a_network_and_explains_nothing(monkeypatch, capsys):
    monkeypatch.setattr("attribution.explain_many", lambda *_, **__: pytest.fail("explained"))
    arguments = ["benchmark", "--check_model"]
    assert cli.execute(benchmark.main, benchmark.FLAGS, benchmark.__doc__, arguments) == 0
    said = capsys.readouterr().out
    assert said.startswith("saved_models/svea/baseline fits SVEA: signals (batch, 40, 1) to 10 classes, 8")
    assert "class activation maps of the layer" in said
    assert cli.execute(benchmark.main, benchmark.FLAGS, benchmark.__doc__, ["benchmark", "--layer=none"]) == 2
    assert "none" in capsys.readouterr().err


def test_blocks_on_beam_give_the_same_bytes(finished, scores_dir, tmp_path, capsys, monkeypatch):
    """The works are made by the door, as in a worker, and not handed over."""
    pytest.importorskip("apache_beam")
    from attribution_benchmarks.beam import pipeline

    monkeypatch.setattr(pipeline, "provide_works", lambda *_: contextlib.nullcontext())
    few = ["--methods=deconvnet"]
    found = {}
    for way in ([], ["--runner=beam", "--block_size=2000"]):
        folder = shutil.copytree(scores_dir, tmp_path / str(len(way)))  # with the answers of the controls' machines
        assert run(*few, f"--scores_dir={folder}", f"--output={folder}.json", *way) == 0
        kept = ScoreStore(folder).contents()
        found[len(way)] = capsys.readouterr().out, (tmp_path / f"{len(way)}.json").read_bytes(), kept
    assert found[0] == found[2]
    assert len(list((tmp_path / "2" / "blocks").rglob("[0-9]*.jsonl"))) == 3


def test_methods_are_compared_with_their_own_regions_on_networks_of_random_weights(scores_dir, tmp_path, capsys):
    scores = tmp_path / "scores.json"
    flags = ["--methods=gradient,rise", "--rise_masks=2", "--random_networks=2", f"--scores_dir={scores_dir}"]
    assert run(*flags, f"--output={scores}") == 0
    printed = " ".join(capsys.readouterr().out.split())
    rows = json.loads(scores.read_text())["rows"]
    own = {row["metric"]: row for row in rows if "of" in row}
    assert len(own) == sum("of" in row for row in rows) == 3  # none of RISE
    groups = {group.where["metric"]: group.values for group in Scores.load(scores).groups}
    for metric, row in own.items():
        assert (row["method"], row["of"], row["control"]) == ("gradient/random_weights", "gradient", "random_weights")
        means = [np.mean(groups[metric][f"gradient/random_weights#{number}"]) for number in (1, 2)]
        assert row["networks"] == pytest.approx(means) and row["value"] == pytest.approx(np.mean(means))
        assert f"{row['value']:.1f} [{min(means):.1f}, {max(means):.1f}]" in printed
    asked = next(row for row in rows if (row["method"], row["metric"]) == ("gradient", "roe_test"))
    assert asked["low"] > max(own["roe_test"]["networks"])


@pytest.mark.parametrize(("has_variables", "count"), [(False, 0), (True, 2)])
def test_a_network_without_variables_has_no_random_networks(has_variables, count, tmp_path, model):
    flag_values = copy.deepcopy(benchmark.FLAGS)
    flag_values(["benchmark", "--methods=gradient", "--random_networks=2"])
    run = benchmark.COMMAND.run(flag_values)
    (tmp_path / "variables").mkdir()
    if has_variables:
        (tmp_path / "variables" / "variables.index").write_text("")
    network = types.SimpleNamespace(path=tmp_path, fingerprint="")  # also in place of the data
    sources = SveaEvaluation(run, {"mine": network}, network).measurement("mine").explainer.sources
    assert sum(bool(source.method and source.control) for source in sources) == count
