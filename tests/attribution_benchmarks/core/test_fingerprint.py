"""A stored number or map is used again only while the code, files and options that it depends on are the same."""

import functools
import importlib
import importlib.metadata
import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import attribution
import attribution_benchmarks
from attribution.errors import BadInput
from attribution.plugins import imported, loaded_object
from attribution_benchmarks.core import fingerprint
from attribution_benchmarks.core.batch import MapSource
from attribution_benchmarks.core.controls import Control
from attribution_benchmarks.core.definition import Benchmark
from attribution_benchmarks.core.evaluation import ExampleEvaluation, evaluated, prepare
from attribution_benchmarks.core.evaluator import Evaluator, Inputs
from attribution_benchmarks.core.examples import Examples
from attribution_benchmarks.core.explainer import Explainer
from attribution_benchmarks.core.fingerprint import PACKAGES, Code, Unidentified, code_fingerprint
from attribution_benchmarks.core.metric import PerSampleMetric
from attribution_benchmarks.core.settings import ExampleSettings
from attribution_benchmarks.core.store import ScoreStore

ROOT = pathlib.Path(__file__).resolve().parents[3]
INPUTS = np.random.default_rng(0).random((6, 4, 4, 1)).astype(np.float32)
FOUND = "from attribution_benchmarks.core.fingerprint import project_code\nprint(project_code({name!r}))"
# Files with a method of the factor N; further files follow their names.
STORED = {
    "function": "def method(q): return q.inputs * N",
    "constant": "FACTOR = N\ndef method(q): return q.inputs * FACTOR",
    "default": "def method(q, *, factor=N): return q.inputs * factor",
    "partial": """
import functools
def base(factor, q): return q.inputs * factor
method = functools.partial(base, np.array([N]))""",
    "class": """
class Factor: by = N
def method(q): return q.inputs * Factor.by""",
    "module": "import beside_it\ndef method(q): return q.inputs * beside_it.F\n#FILE beside_it.py\nF = N",
    "package": """
from a_package.part import F
def method(q): return q.inputs * F
#FILE a_package/__init__.py
#FILE a_package/part.py
from .deeper import F
#FILE a_package/deeper.py
F = N""",
}
NOT_STORED = {
    "lambda": "method = lambda q: q.inputs * N",
    "closure": """
def made(factor):
    def method(q): return q.inputs * factor
    return method
method = made(N)""",
    "object": """
class Scaled:
    def __init__(self, factor): self.factor = factor
    def __call__(self, q): return q.inputs * self.factor
method = Scaled(N)""",
    "file": """
import pathlib
def method(q): return q.inputs * int(pathlib.Path(__file__).with_name("factor.txt").read_text())
#FILE factor.txt
N""",
    "array": "FACTOR = np.load('PLACE/factor.npy')\ndef method(q): return q.inputs * FACTOR",
    "module that reads": """
import beside_it
def method(q): return q.inputs * beside_it.F
#FILE beside_it.py
import numpy
F = numpy.load('PLACE/factor.npy')""",
    "environment": "import os\ndef method(q): return q.inputs * int(os.environ['FACTOR_OF_TEST'])",
    "counter": """
calls = 0
def method(q):
    global calls
    calls += 1
    return q.inputs * N""",
    "late import": """
def method(q):
    from a_package.part import F
    return q.inputs * F
#FILE a_package/__init__.py
#FILE a_package/part.py
F = N""",
}
METRIC = "def measure(maps, batch, scores): return maps.reshape(len(maps), -1).sum(axis=1) * N"


@pytest.fixture(scope="session")
def model(toy):
    return attribution.load_model(toy.parent / "network")


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Return a function that writes a file and those that belong to it, with a factor."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)
    for name, module in list(sys.modules.items()):  # loaded tests are custom code, too
        if not fingerprint._origin(name, getattr(module, "__file__", None)):
            monkeypatch.delitem(sys.modules, name)

    def write(source, factor):
        monkeypatch.setenv("FACTOR_OF_TEST", str(factor))
        np.save(tmp_path / "factor.npy", factor)
        for name in [name for name in sys.modules if name.startswith(("beside_it", "a_package"))]:
            del sys.modules[name]
        importlib.invalidate_caches()
        for part in f"mine.py\nimport numpy as np\n{source}".replace("PLACE", str(tmp_path)).split("#FILE "):
            name, _, text = part.partition("\n")
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(re.sub(r"\bN\b", str(factor), text).strip() + "\n")
        return f"{tmp_path}/mine.py"

    return write


@pytest.fixture(autouse=True)
def total(tmp_path_factory):
    """Return a metric of a file that can be keyed, as this file cannot."""
    file = tmp_path_factory.mktemp("metric") / "total.py"
    file.write_text(re.sub(r"\bN\b", "1", METRIC))
    return imported(f"{file}:measure", "metric")


class Counted(Explainer):
    explained = 0

    def _explained(self, model, names, batch):
        self.explained += len(batch)
        return super()._explained(model, names, batch)


def scored(model, method, function, store=None, controls=()):
    """Return the numbers of the last source of maps, in batches of two, and how many inputs were explained."""
    measure = PerSampleMetric("total", function)
    explainer = Counted(model, {"method": attribution.resolve_method(method)}, controls, batch_size=2)
    evaluator = Evaluator(explainer, [measure], {"benchmark": "test"}, store=store)
    found = evaluator.run(Examples(INPUTS).batches(2)).of(explainer.sources[-1], measure)
    return found[:, 0].tolist(), explainer.explained


@pytest.mark.parametrize("how", [*STORED, *NOT_STORED])
def test_a_method_edited_and_edited_back_has_its_own_scores(model, tmp_path, written, total, capsys, how):
    source, store = STORED.get(how) or NOT_STORED[how], tmp_path / "scores"
    found = []
    for factor in (2, 3, 2):
        alone, _ = scored(model, f"{written(source, factor)}:method", total)
        again, explained = scored(model, f"{written(source, factor)}:method", total, ScoreStore(store))
        assert again == alone
        found.append(alone)
    assert found[0] == found[2] != found[1]
    assert explained == (0 if how in STORED else len(INPUTS))
    assert ("scores of 'method' are not stored: " in capsys.readouterr().err) == (how in NOT_STORED)


def test_a_module_that_changed_after_the_start_of_the_process_is_not_keyed(
    model, tmp_path, written, total, monkeypatch, capsys
):
    """It may have been imported before the change."""
    name = f"{written(STORED['module'], 2)}:method"
    monkeypatch.setattr(fingerprint, "STARTED", 0)
    first, _ = scored(model, name, total, ScoreStore(tmp_path / "scores"))
    (tmp_path / "beside_it.py").write_text("F = 3\n")
    assert scored(model, name, total, ScoreStore(tmp_path / "scores")) == (first, len(INPUTS))
    assert "beside_it.py has changed since this process started" in capsys.readouterr().err


def test_a_function_of_a_script_or_notebook_is_not_keyed():
    space = {"__name__": "__main__", "__file__": "/script.py"}
    exec("def method(queries): return queries.inputs", space)
    assert "is of a script, or of a notebook" in Code.of("method", space["method"]).why_not_stored


def test_a_metric_edited_and_edited_back_has_its_own_scores(model, tmp_path, written):
    def found(factor, store):
        return scored(model, "gradient", imported(f"{written(METRIC, factor)}:measure", "metric"), store)

    for factor in (2, 3, 2):
        numbers, explained = found(factor, ScoreStore(tmp_path / "scores"))
        assert numbers == found(factor, None)[0]
    assert explained == 0


def test_custom_code_is_not_keyed_in_a_notebook(written, monkeypatch):
    """It may change the values of a module."""
    method = imported(f"{written(STORED['constant'], 2)}:method", "method")
    assert Code.of("method", method).digest
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    assert "is of a script, or of a notebook" in Code.of("method", method).why_not_stored


def test_functions_of_one_file_have_fingerprints_of_their_own(written):
    file = written("def one(q): return q.inputs\ndef two(q): return -q.inputs", 1)
    assert Code.of("", imported(f"{file}:one", "method")) != Code.of("", imported(f"{file}:two", "method"))


def test_controls_differ_by_the_values_that_they_hold(model, tmp_path, total):
    def found(factor, store):
        def maps(batch, seed):
            return batch.pictures[..., 0] * factor

        return scored(model, "gradient", total, store, controls=[Control("mine", "Mine", maps=maps)])[0]

    assert found(2, ScoreStore(tmp_path)) != found(3, ScoreStore(tmp_path)) == found(3, None)


@pytest.mark.parametrize(
    ("before", "after"), [("SHARE = 1.0", "SHARE = 0.5"), ("left[:, :, :2]", "left[:, :, :1]")]
)  # fmt: skip
def test_a_benchmark_edited_and_edited_back_has_its_own_scores(toy, tmp_path, before, after):
    (tmp_path / "network").symlink_to(toy.parent / "network")
    text, found = toy.read_text(), []
    for content in (text, text.replace(before, after), text):
        (tmp_path / "mine.py").write_text(content)
        rows = attribution_benchmarks.evaluate(f"{tmp_path}/mine.py:TOY", ["gradient"], store=tmp_path / "scores").rows
        found.append(next(row["value"] for row in rows if row["method"] == "gradient"))
    assert found == [1.0, 0.5, 1.0]


class Several:
    """Writes a network whose maps depend on every option of ``load_model``."""

    def __init__(self, directory):
        import tensorflow as tf

        class Network(tf.Module):
            @tf.function(input_signature=[tf.TensorSpec([None, 4, 4, 1], name="x"), tf.TensorSpec([], name="by")])
            def serve(self, x, by):
                scores = tf.stack([by * x[:, 0, 0, 0] ** 2, x[:, 1, 1, 0] ** 3], axis=1)
                return {"scores": tf.nn.softmax(scores), "others": tf.nn.softmax(3 * scores)}

            @tf.function(input_signature=[tf.TensorSpec([None, 4, 4, 1], name="x"), tf.TensorSpec([], name="by")])
            def other(self, x, by):
                inside = tf.tanh(x, name="inside")
                values = by * tf.stack([inside[..., 0], 2 * inside[..., 0] ** 2], axis=-1)
                return {"scores": tf.identity(values)}

        network = Network()
        signatures = {"serving_default": network.serve, "other": network.other}
        tf.saved_model.save(network, str(directory), signatures=signatures)


OPTIONS = [
    {"score": "probabilities"}, {"output": "others"}, {"given": {"by": 2.0}},
    {"signature": "other", "position": (0, 1)}, {"signature": "other", "position": (1, 1)},
    {"signature": "other", "position": (1, 1), "explain_input": "inside"},
]  # fmt: skip


def test_each_option_of_a_model_has_its_own_scores_and_maps(toy, tmp_path, total):
    Several(tmp_path / "network")
    benchmark = loaded_object(f"{toy}:TOY", Benchmark, "--benchmark")

    def found(options, directory):
        model = attribution.load_model(tmp_path / "network", **{"output": "scores", "given": {"by": 1.0}, **options})
        settings = ExampleSettings(save_maps=str(tmp_path / directory / f"maps{number}"))
        measure = PerSampleMetric("total", total)
        benchmark_metric = attribution_benchmarks.core.metric.Metric("total", "Total", measure=measure)
        run = prepare(
            benchmark, ["gradient"], settings, metrics=[benchmark_metric], store=ScoreStore(tmp_path / directory)
        )
        scores = evaluated(ExampleEvaluation(run, {"own": model}, Examples(INPUTS))).groups
        maps = [np.load(tmp_path / directory / f"maps{number}" / "gradient" / f"{row}.npy") for row in range(6)]
        return scores[0].values["gradient"].tolist(), np.stack(maps).tolist()

    numbers = []
    for number, options in enumerate([{}, *OPTIONS, {}]):
        together = found(options, "together")
        assert together == found(options, f"alone{number}"), options
        numbers.append(tuple(together[0]))
    assert len(set(numbers)) == len(OPTIONS) + 1


def test_a_model_that_was_replaced_on_disk_after_loading_is_refused(toy, tmp_path):
    shutil.copytree(toy.parent / "network", tmp_path / "network")
    model = attribution.load_model(tmp_path / "network")
    known = model.fingerprint
    content = (tmp_path / "network" / "saved_model.pb").read_bytes()
    (tmp_path / "network" / "saved_model.pb").write_bytes(content)
    with pytest.raises(BadInput, match="have changed since the model was loaded; load it again"):
        model.fingerprint  # noqa: B018
    assert attribution.load_model(tmp_path / "network").fingerprint == known


def test_saved_maps_are_those_of_the_method_and_of_the_inputs(toy, tmp_path, written):
    """Also where a method or the explained classes change and change back."""
    benchmark = loaded_object(f"{toy}:TOY", Benchmark, "--benchmark")
    model, settings = attribution.load_model(toy.parent / "network"), ExampleSettings(save_maps=str(tmp_path / "maps"))

    def found(factor, target, store, count=6):
        run = prepare(benchmark, [f"{written(STORED['function'], factor)}:method", "gradient"], settings, store=store)
        masks = {"left": np.ones((count, 4, 4), bool)}
        evaluated(ExampleEvaluation(run, {"net": model}, Examples(INPUTS[:count], masks, np.full(count, target))))
        return [np.load(tmp_path / "maps" / name / "0.npy").sum() for name in ("method", "gradient")]

    for store in (ScoreStore(None), ScoreStore(tmp_path / "scores")):
        for factor, target in ((2, 0), (3, 1), (2, 0)):
            own, gradient = found(factor, target, store)
            assert own == pytest.approx(factor * INPUTS[0].sum()) and gradient == (8, -8)[target]
    found(5, 0, ScoreStore(None), count=2)
    assert {path.name for path in (tmp_path / "maps" / "method").glob("*.npy")} == {"0.npy", "1.npy"}


def test_two_methods_with_one_folder_of_maps_are_refused(toy, tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.py").write_text("def f(queries): return queries.inputs")
    settings = ExampleSettings(save_maps=str(tmp_path / "maps"))
    with pytest.raises(BadInput, match=r"--save_maps has one folder for '.*a.py:f' and '.*b.py:f'"):
        attribution_benchmarks.evaluate(f"{toy}:TOY", [f"{tmp_path}/a.py:f", f"{tmp_path}/b.py:f"], settings)


def test_a_map_of_another_program_is_not_overwritten(toy, tmp_path):
    (tmp_path / "gradient").mkdir()
    np.save(tmp_path / "gradient" / "0.npy", np.zeros((4, 4)))
    with pytest.raises(BadInput, match=r"0\.npy is a map without a key"):
        attribution_benchmarks.evaluate(f"{toy}:TOY", ["gradient"], ExampleSettings(save_maps=str(tmp_path)))


def test_blocks_are_not_computed_of_what_is_not_stored(model, written, total):
    explainer = Explainer(model, {"mine": attribution.resolve_method(f"{written(NOT_STORED['file'], 2)}:method")})
    inputs = Inputs("run", range(3), 1, lambda items, rows: [])
    run = Evaluator(explainer, [PerSampleMetric("total", total)], {"benchmark": "test"}, inputs=inputs)
    with pytest.raises(BadInput, match=r"'mine': mine.py may read files .*, and blocks are stored; omit --runner=beam"):
        run.key  # noqa: B018


def fingerprint_in(folder, name, seed="0"):
    """Return a fingerprint computed by another process whose code is in ``folder``."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONHASHSEED": seed}
    done = subprocess.run([sys.executable, "-c", FOUND.format(name=name)], cwd=folder, env=environment,
                          capture_output=True, text=True, check=True)  # fmt: skip
    return done.stdout.strip()


def test_scores_depend_on_the_benchmark_and_the_packages_below_it_alone(tmp_path):
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("embedded", "__pycache__"))
    before = fingerprint_in(tmp_path, "svea.metrics")
    assert fingerprint_in(tmp_path, "svea.metrics", seed="3") == before
    for file, counts in (
        ("bim/scores.py", False),
        ("attribution_benchmarks/report/charts.py", False),
        ("svea/scoring.py", True),
        ("attribution/model/compiled.py", True),
        ("attribution/methods/presets/captum.toml", True),
    ):
        text = (tmp_path / file).read_text()
        (tmp_path / file).write_text(text + "\n# one more line\n")
        assert (fingerprint_in(tmp_path, "svea.metrics") != before) == counts, file
        (tmp_path / file).write_text(text)


def test_methods_of_a_library_depend_on_its_version(monkeypatch):
    def key(name):
        return Explainer(None, {"m": attribution.METHODS[name]}).key(MapSource("m"))["code"]

    before = key("tf_explain.gradient")
    assert before != key("gradient")
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.0")
    assert key("tf_explain.gradient") != before


def test_methods_of_a_library_that_is_missing_are_refused_by_what_to_install(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    for call in (lambda method: method.library_version(), lambda method: attribution.resolve_method(method.name)):
        with pytest.raises(BadInput, match=r"pip install 'tf-explain[^']*' 'tf-keras-vis[^']*'"):
            call(attribution.METHODS["tf_explain.gradient"])


def test_data_files_count_by_their_content(tmp_path):
    folder = tmp_path / "families"
    folder.mkdir()
    (folder / "one.json").write_text("{}")
    before = code_fingerprint(np.mean, files=[folder])
    assert before != code_fingerprint(np.mean)
    (folder / "one.json").write_text("[]")
    assert code_fingerprint(np.mean, files=[folder]) != before


def test_every_registered_method_and_metric_has_a_fingerprint():
    from attribution_benchmarks.metrics.registry import METRIC_REGISTRY

    objects = {name: method.function for name, method in attribution.METHODS.items()}
    objects |= {name: (metric.measure.function, metric.measure.described) for name, metric in METRIC_REGISTRY.items()}
    digests = [code_fingerprint(each) for each in objects.values()]
    assert len(set(digests)) == len(objects)


def test_objects_without_a_fingerprint_are_refused():
    partials = [functools.partial(np.add, factor) for factor in (1, 2)]
    assert code_fingerprint(partials[0]) != code_fingerprint(partials[1])
    nested = []
    for _ in range(100_000):
        nested = [nested]
    assert "recursion" in Code.of("method", nested).why_not_stored
    for value in (open(__file__), (one for one in "ab"), np.array([object()])):
        with pytest.raises(Unidentified):
            code_fingerprint(value)
