"""A changed method or metric never finds an old score, however it is written; what nothing identifies is not stored."""

import dataclasses
import functools
import importlib
import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import attribution
import attribution_benchmarks
from attribution import cli
from attribution.errors import BadInput
from attribution.plugins import imported
from attribution_benchmarks.core import custom_code, evaluate, fingerprint, manifest
from attribution_benchmarks.core.batch import MapSource
from attribution_benchmarks.core.controls import Control
from attribution_benchmarks.core.evaluator import Evaluator, ShardedRun
from attribution_benchmarks.core.examples import Examples
from attribution_benchmarks.core.explainer import Explainer
from attribution_benchmarks.core.fingerprint import Unidentified, identify
from attribution_benchmarks.core.metric import PerSampleMetric
from attribution_benchmarks.core.store import ScoreStore
from svea.scoring import of_test_signals

INPUTS = np.random.default_rng(0).random((6, 4, 4, 1)).astype(np.float32)
HEAD = """
import functools, json, operator, os, pathlib, types
import numpy as np
HERE = pathlib.Path(__file__).parent
"""
GIVEN = "import os\nGIVEN = int(os.environ['FACTOR_OF_TEST'])\n"  # the factor as a value, not in the text of a file
# Each is a file with a method of the factor N, and whether its scores are stored. Further files follow their names.
STORED = {
    "function": "def method(q): return q.inputs * N",
    "lambda": "method = lambda q: q.inputs * N",
    "default": "def method(q, factor=N): return q.inputs * factor",
    "keyword": "def method(q, *, factor=N): return q.inputs * factor",
    "partial": "method = functools.partial(lambda factor, q: q.inputs * factor, N)",
    "partial of keyword": "method = functools.partial(lambda q, factor: q.inputs * factor, factor=N)",
    "partialmethod": """
class Scaled:
    def by(self, factor, q): return q.inputs * factor
    explain = functools.partialmethod(by, N)
method = Scaled().explain""",
    "bound method": """
class Scaled:
    def __init__(self, factor): self.factor = factor
    def explain(self, q): return q.inputs * self.factor
method = Scaled(N).explain""",
    "class method": """
class Scaled:
    factor = N
    @classmethod
    def explain(cls, q): return q.inputs * cls.factor
method = Scaled.explain""",
    "class attribute set later": """
class Scaled:
    def explain(self, q): return q.inputs * self.factor
Scaled.factor = operator.add(N, 0)
method = Scaled().explain""",
    "object": """
class Scaled:
    def __init__(self, factor): self.factor = np.full(3, factor)
    def __call__(self, q): return q.inputs * self.factor[0]
method = Scaled(N)""",
    "slots": """
class Scaled:
    __slots__ = ("factor",)
    def __call__(self, q): return q.inputs * self.factor
method = Scaled()
method.factor = N""",
    "hidden_state": """
class Scaled:
    def __init__(self, factor): self.factor = factor
    def __reduce__(self): return Scaled, (1,)
    def __call__(self, q): return q.inputs * self.factor
method = Scaled(N)""",
    "property": """
class Scaled:
    factor = property(lambda self: N)
    def __call__(self, q): return q.inputs * self.factor
method = Scaled()""",
    "inherited": """
class Base:
    def factor(self): return N
class Scaled(Base):
    def __call__(self, q): return q.inputs * self.factor()
method = Scaled()""",
    "dictionary subclass": """
class Scaled(dict):
    def __call__(self, q): return q.inputs * self["factor"]
method = Scaled(factor=N)""",
    "closure": """
def made(factor):
    def method(q): return q.inputs * factor
    return method
method = made(N)""",
    "closure of a list of dictionaries": """
def made(factors):
    return lambda q: q.inputs * factors[0]["factor"]
method = made([{"factor": N}])""",
    "wrapper": """
def scaled(function, factor):
    @functools.wraps(function)
    def wrapper(q): return function(q) * factor
    return wrapper
def base(q): return q.inputs
method = scaled(base, N)""",
    "decorator with an argument": """
def scaled(factor):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(q): return function(q) * factor
        return wrapper
    return decorate
@scaled(N)
def method(q): return q.inputs""",
    "nested function": """
def method(q):
    def scaled(x):
        def inner(): return x * N
        return inner()
    return scaled(q.inputs)""",
    "global": "FACTOR = [N]\ndef method(q): return q.inputs * FACTOR[0]",
    "global set from outside": "def method(q): return q.inputs * FACTOR\nglobals()['FACTOR'] = N",
    "loop": "methods = []\nfor factor in (N,):\n    methods.append(lambda q: q.inputs * factor)\nmethod = methods[0]",
    "replaced helper": """
def helper(x): return x
def method(q): return helper(q.inputs)
helper = types.FunctionType((lambda x: x * N).__code__, globals())""",
    "replaced function of a library": """
def method(q): return np.sharper(q.inputs)
np.sharper = lambda x: x * N""",
    "array": "FACTOR = np.full((4, 4, 1), N * 1.0)\ndef method(q): return q.inputs * FACTOR",
    "objects in an array": "F = np.array([N, None], object)\ndef method(q): return q.inputs * F[0]",
    "set": "F = {'ab', 'cd', N}\ndef method(q): return q.inputs * sum(f for f in F if not isinstance(f, str))",
    "module beside": """
import beside_it
def method(q): return q.inputs * beside_it.FACTOR
#FILE beside_it.py
FACTOR = N""",
    "module imported when it runs": """
def method(q):
    from a_package import inner
    return q.inputs * inner.deeper.FACTOR
#FILE a_package/__init__.py
#FILE a_package/inner.py
from . import deeper
#FILE a_package/deeper.py
FACTOR = N""",
    "by_attribute": """
import beside_it as other
def method(q): return q.inputs * getattr(other, "FAC" + "TOR")
#FILE beside_it.py
FACTOR = N""",
    "file read at import": """
F = json.loads((HERE / "f.json").read_text())
def method(q): return q.inputs * F
#FILE f.json
N""",
    "variable read at import": "F = float(os.environ['FACTOR_OF_TEST'])\ndef method(q): return q.inputs * F",
    "iterator": "F = iter(lambda: N, None)\ndef method(q): return q.inputs * next(F)",
    "library function replaced": """
@functools.wraps(np.median)
def median(*arguments): return N
np.sharper = median
def method(q): return q.inputs * np.sharper(q.inputs)""",
    "TensorFlow inside": "def method(q):\n    import tensorflow as tf\n    return tf.abs(q.inputs * N).numpy()",
}
NOT_STORED = {
    "file": "def method(q): return q.inputs * json.loads((HERE / 'f.json').read_text())#FILE f.json\nN",
    "weights": "def method(q): return q.inputs * np.loadtxt(HERE / 'f.txt')#FILE f.txt\nN",
    "file kept": """
@functools.lru_cache
def factor(): return json.loads((HERE / "f.json").read_text())
def method(q): return q.inputs * factor()
#FILE f.json
N""",
    "variable": "def method(q): return q.inputs * float(os.environ['FACTOR_OF_TEST'])",
    "variable under another name": """
from os import getenv as g
def method(q): return q.inputs * float(g("FACTOR_OF_TEST"))""",
    "environment": "E = os.environ\ndef method(q): return q.inputs * float(E['FACTOR_OF_TEST'])",
    "file of TensorFlow": """
import tensorflow as tf
def method(q): return q.inputs * float(tf.io.read_file(str(HERE / "f.txt")).numpy())
#FILE f.txt
N""",
    "shared memory": """
def method(q): return q.inputs * np.loadtxt(SHARED)
SHARED = f"/dev/shm/{HERE.name}.txt" if os.path.isdir("/dev/shm") else str(HERE / "f.txt")
open(SHARED, "w").write("N")""",
    "variable in a path": """
def method(q): return q.inputs * float(os.path.expandvars("$FACTOR_OF_TEST"))""",
    "flag": """
from absl import flags
if "factor_of_test" not in flags.FLAGS: flags.DEFINE_float("factor_of_test", 0, "")
flags.FLAGS["factor_of_test"].value = N
flags.FLAGS.mark_as_parsed()
def method(q): return q.inputs * flags.FLAGS.factor_of_test""",
    "globals of a function": """
FACTOR = N
def method(q): return q.inputs * method.__globals__["FACTOR"]""",
    "code as text": "def method(q): return eval('q.inputs * N')",
    "module found by text": """
import importlib
def method(q): return q.inputs * importlib.import_module("beside" + "_it").FACTOR
#FILE beside_it.py
FACTOR = N""",
    "process": """
import subprocess
def method(q): return q.inputs * float(subprocess.check_output(["cat", HERE / "f.txt"]))
#FILE f.txt
N""",
    "dispatch": """
@functools.singledispatch
def helper(x): return x
@helper.register
def _(x: np.ndarray): return x * N
def method(q): return helper(q.inputs)""",
    "network": """
import keras
NET = keras.Sequential([keras.Input((4, 4, 1)), keras.layers.Rescaling(N)])
def method(q): return NET(q.inputs).numpy()""",
    "random numbers in order": "RNG = np.random.default_rng(N)\ndef method(q): return q.inputs * RNG.random()",
    "counter": "CALLS = [N]\ndef method(q):\n    CALLS[0] += 1\n    return q.inputs * CALLS[0]",
    "vectorized": "F = np.vectorize(lambda x: x * N)\ndef method(q): return F(q.inputs)",
    "ufunc": "F = np.frompyfunc(lambda x: x * N, 1, 1)\ndef method(q): return F(q.inputs).astype(float)",
}  # fmt: skip


LOOKS = [
    lambda folder: os.listdir(folder),
    lambda folder: list(os.scandir(folder)),
    lambda folder: os.path.getsize(folder),
    lambda folder: folder.exists(),
]


@pytest.mark.parametrize("look", LOOKS)
def test_what_looks_at_files_without_reading_them_is_not_stored(look, tmp_path):
    code = custom_code.Code("method", look)
    code.function(tmp_path)
    assert code.why_not_stored()


@pytest.fixture(scope="module")
def model(toy):
    return attribution.load_model(toy.parent / "network")


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Return a function that writes a file and those that belong to it, with a factor."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)

    def write(source, factor, by_value=False):
        monkeypatch.setenv("FACTOR_OF_TEST", str(factor))
        for name in [name for name in sys.modules if name.startswith(("beside_it", "a_package"))]:
            del sys.modules[name]
        importlib.invalidate_caches()
        for part in f"mine.py\n{HEAD}{source}".split("#FILE "):
            name, _, text = part.partition("\n")
            given = by_value and name.endswith(".py")
            text = (GIVEN if given else "") + re.sub(r"\bN\b", "GIVEN" if given else str(factor), text)
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text.strip() + "\n")
        return f"{tmp_path}/mine.py"

    yield write
    vars(np).pop("sharper", None)


def total(maps, batch, scores):
    return maps.reshape(len(maps), -1).sum(axis=1)


class Counted(Explainer):
    explained = 0

    def _explained(self, model, names, batch):
        self.explained += len(batch)
        return super()._explained(model, names, batch)


def scored(model, name, store=None, measure=None):
    """Return the numbers of a method, in batches of two, and how many inputs were explained."""
    measure = measure or PerSampleMetric("total", total)
    explainer = Counted(model, {"method": attribution.resolve_method(name)}, batch_size=2)
    evaluator = Evaluator(explainer, [measure], {"benchmark": "test"}, store=store)
    found = evaluator.run(Examples(INPUTS).batches(2)).numbers(MapSource("method"), measure)
    return found[:, 0].tolist(), explainer.explained


@pytest.mark.parametrize("how", [*STORED, *NOT_STORED, *(f"{how}_by_value" for how in STORED)])
def test_a_changed_method_never_finds_an_old_score(model, tmp_path, written, capsys, how):
    how, by_value = how.removesuffix("_by_value"), how.endswith("_by_value")
    written = functools.partial(written, by_value=by_value)
    source, store = STORED.get(how) or NOT_STORED[how], tmp_path / "scores"
    found = []
    for factor in (2, 3):
        name = f"{written(source, factor)}:method"
        alone, _ = scored(model, name)
        custom_code._read.clear()  # as in another process
        assert scored(model, f"{written(source, factor)}:method", ScoreStore(store))[0] == alone
        custom_code._read.clear()
        found.append(alone)
    assert found[0] != found[1]
    _, explained = scored(model, f"{written(source, 3)}:method", ScoreStore(store))
    assert explained == (0 if how in STORED else len(INPUTS))
    assert ("scores of 'method' are not stored: " in capsys.readouterr().err) == (how in NOT_STORED)


METRICS = {
    "function": "def measure(maps, batch, scores): return maps.reshape(len(maps), -1).sum(axis=1) * N",
    "helper": """
def by(x): return x * N
def measure(maps, batch, scores): return by(maps.reshape(len(maps), -1).sum(axis=1))""",
    "object": """
class Scaled:
    def __init__(self, factor): self.factor = factor
    def __call__(self, maps, batch, scores): return maps.reshape(len(maps), -1).sum(axis=1) * self.factor
measure = Scaled(N)""",
    "file": """
def measure(maps, batch, scores):
    return maps.reshape(len(maps), -1).sum(axis=1) * json.loads((HERE / "f.json").read_text())
#FILE f.json
N""",
}


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("how", METRICS)
def test_a_changed_metric_never_finds_an_old_score(model, tmp_path, written, how, wrapped):
    """Also where a benchmark wraps a user's metric in a function of its own, as SVEA does."""
    store, found = tmp_path / "scores", []

    def measured(factor):
        measure = PerSampleMetric("mine", imported(f"{written(METRICS[how], factor)}:measure", "metric"))
        return of_test_signals(measure) if wrapped else measure

    def both(factor, place):
        custom_code._read.clear()
        measure = measured(factor)
        explainer = Explainer(model, {"method": attribution.METHODS["gradient_x_input"]})
        batches = list(Examples(INPUTS).batches(2))
        for batch in batches:
            loaded = batch.load()
            object.__setattr__(batch, "load", lambda loaded=loaded: dataclasses.replace(loaded, seeds=[5000, 5001]))
        evaluator = Evaluator(explainer, [measure], {"benchmark": "test"}, store=place)
        return evaluator.run(batches).numbers(MapSource("method"), measure)[:, 0].tolist()

    for factor in (2, 3):
        assert both(factor, ScoreStore(store)) == both(factor, None)
        found.append(both(factor, None))
    assert found[0] != found[1]


@pytest.mark.parametrize("kind", ["maps", "disturb"])
def test_a_changed_control_never_finds_an_old_score(model, tmp_path, kind):
    def control(factor):
        if kind == "maps":
            return Control("mine", "Mine", maps=lambda batch, seed: batch.pictures[..., 0] * factor)
        return Control(
            "mine",
            "Mine",
            disturb=lambda model, batch, seed: (model, dataclasses.replace(batch, inputs=batch.inputs * factor)),
        )

    def found(factor, store):
        explainer = Explainer(model, {"method": attribution.METHODS["gradient_x_input"]}, [control(factor)])
        measure = PerSampleMetric("total", total)
        evaluator = Evaluator(explainer, [measure], {"benchmark": "test"}, store=store)
        source = evaluator.explainer.sources[-1]
        return evaluator.run(Examples(INPUTS).batches(2)).numbers(source, measure)[:, 0].tolist()

    first, second = (found(factor, ScoreStore(tmp_path)) for factor in (2, 3))
    assert first != second == found(3, None)


def test_functions_of_one_name_are_scored_each_by_python(toy, tmp_path, monkeypatch):
    """Bound methods, wrappers and functions made in a loop, with an old score in the cache."""
    monkeypatch.setenv("ATTRIBUTION_BENCHMARKS_CACHE", str(tmp_path))

    class Shifted:
        def __init__(self, shift):
            self.shift = shift

        def explain(self, queries):
            return np.roll(abs(queries.input_gradient()), self.shift, axis=2)

    def base(queries):
        return abs(queries.input_gradient())

    def wrapped(shift):
        @functools.wraps(base)
        def explain(queries):
            return np.roll(base(queries), shift, axis=2)

        explain.__name__ = "explain"
        return explain

    for makers in (lambda shift: Shifted(shift).explain, wrapped):
        values = []
        for shift in (0, 2):
            (row,) = [
                row
                for row in attribution_benchmarks.score(makers(shift), f"{toy}:TOY").rows
                if (row["method"], row.get("metric")) == ("explain", "mass")
            ]
            values.append(row["value"])
        assert values == [1.0, 0.0]


def run_command(monkeypatch, toy, place, folder):
    """Run the command as in a process of its own; return the method's value and its manifest."""
    custom_code._read.clear()
    manifest.UNIDENTIFIED.clear()
    arguments = ["evaluate", f"--benchmark={toy}:TOY", f"--methods={place}", f"--scores_dir={folder / 'scores'}",
                 f"--output={folder / 'out.json'}"]  # fmt: skip
    assert cli.execute(evaluate.main, evaluate.FLAGS, evaluate.__doc__, arguments) == 0
    document = json.loads((folder / "out.json").read_text())
    (value,) = {row["value"] for row in document["rows"] if (row["kind"], row["metric"]) == ("method", "mass")}
    return value, document["manifest"]


FILES = {
    "file": """
def method(q): return np.roll(abs(q.input_gradient()), json.loads((HERE / "f.json").read_text()), 2)
#FILE f.json
N""",
    "module": """
import beside_it
def method(q): return np.roll(abs(q.input_gradient()), beside_it.F, 2)
#FILE beside_it.py
F = N""",
}


@pytest.mark.parametrize("how", FILES)
def test_the_same_command_after_a_change_of_another_file_prints_the_new_row(
    toy, tmp_path, monkeypatch, written, capsys, load_once, how
):
    found = [run_command(monkeypatch, toy, f"{written(FILES[how], shift)}:method", tmp_path) for shift in (0, 2)]
    assert [value for value, _ in found] == [1.0, 0.0]
    said = [line for line in capsys.readouterr().err.splitlines() if "are not stored" in line]
    assert len(said) == (how == "file")
    assert ("unidentified" in found[0][1]) == (how == "file")
    assert not list(tmp_path.glob("scores/*-wal"))


def test_a_fingerprint_is_the_same_in_every_process(tmp_path, written):
    code = "import sys, attribution\nfrom attribution_benchmarks.core.fingerprint import identify\n"
    code += "for name in sys.argv[1:]: print(identify(attribution.resolve_method(name).function)[0])"
    names = []
    for number, source in enumerate(STORED.values()):
        file = pathlib.Path(written(source, 2))
        names.append(f"{file.rename(file.with_name(f'mine{number}.py'))}:method")
    names = [name for name, how in zip(names, STORED, strict=True) if "library" not in how]
    found = []
    for seed in "12":
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]), "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", code, *names], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found.append(done.stdout)
    assert found[0] == found[1] and len(set(found[0].split())) == len(names)


def test_files_of_libraries_do_not_count_and_written_ones_neither(tmp_path):
    def method(path, mode):
        with open(path, mode):
            pass

    code = custom_code.Code("method", method)
    code.function(np.__file__, "rb")
    code.function(tmp_path / "log", "a")
    assert not code.why_not_stored()
    code.function(tmp_path / "log", "rb")
    assert str(tmp_path / "log") in code.why_not_stored()


def test_what_cannot_be_looked_into_is_refused():
    nested = []
    for _ in range(100_000):
        nested = [nested]
    for value in (open(__file__), (one for one in "ab"), nested):
        with pytest.raises(Unidentified):
            identify(value)


@pytest.mark.parametrize("how", ["file", "variable"])
def test_blocks_which_are_files_are_not_computed_of_what_is_not_stored(model, written, how):
    explainer = Explainer(model, {"mine": attribution.resolve_method(f"{written(NOT_STORED[how], 2)}:method")})
    evaluator = Evaluator(explainer, [PerSampleMetric("total", total)], {"benchmark": "test"})
    batches = list(Examples(INPUTS).batches(2))
    run = ShardedRun("run", evaluator, range(3), 1, lambda items, rows: [batches[item] for item in items])
    with pytest.raises(BadInput, match=r"'mine': .*, and blocks are stored; omit --runner=beam"):
        run.compute([0, 1], {}) if how == "file" else run.key
    with pytest.raises(BadInput):
        run.key  # noqa: B018


@pytest.mark.parametrize(
    ("before", "after"),
    [("SHARE = 1.0", "SHARE = 0.5"), ("left[:, :, :2]", "left[:, :, :1]"), ("/ maps.sum", "/ 2 / maps.sum")],
)
def test_a_changed_benchmark_never_finds_an_old_score(toy, tmp_path, monkeypatch, load_once, before, after):
    (tmp_path / "network").symlink_to(toy.parent / "network")
    text = toy.read_text()
    found = []
    for content in (text, text.replace(before, after)):
        (tmp_path / "mine.py").write_text(content)
        found.append(run_command(monkeypatch, tmp_path / "mine.py", "gradient", tmp_path)[0])
    assert found == [1.0, 0.5] and before in text


def test_an_installed_method_depends_on_what_is_installed_and_is_watched(tmp_path, monkeypatch):
    """Also where a package is installed again under the same version."""
    folder = tmp_path / "site-packages"
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    found = []
    for factor in (2, 3):
        information = folder / "installed_method-1.dist-info"
        information.mkdir(parents=True, exist_ok=True)
        (folder / "installed_method.py").write_text(
            f"def method(q): return open(__file__[:-2] + 'txt').read() * {factor}"
        )
        (folder / "installed_method.txt").write_text("read")
        (information / "METADATA").write_text("Metadata-Version: 2.1\nName: installed-method\nVersion: 1\n")
        (information / "RECORD").write_text(f"installed_method.py,sha256={factor},9\n")
        (information / "top_level.txt").write_text("installed_method")
        for cached in (fingerprint._origin, fingerprint._installed, fingerprint._distributions):
            cached.cache_clear()
        sys.modules.pop("installed_method", None)
        importlib.invalidate_caches()
        code = custom_code.Code("method", importlib.import_module("installed_method").method)
        found.append(code.digest)
        code.function(None)
    assert found[0] != found[1]
    for cached in (fingerprint._origin, fingerprint._installed, fingerprint._distributions):
        cached.cache_clear()
