"""Presets name what exists, custom methods are scored in the same tables, and bad input costs nothing."""

import json
import pathlib

import pytest

import attribution
from attribution import cli
from attribution_benchmarks.core import metric, registry
from attribution_benchmarks.core.definition import ReportTask
from attribution_benchmarks.core.evaluation import prepare
from attribution_benchmarks.core.store import ScoreStore
from attribution_benchmarks.metrics import registry as shared
from attribution_benchmarks.report import presets, reproduce
from bim import scores as bim_scores
from clevr_xai.metrics import ACCURACIES
from svea import metrics as svea_metrics

ROOT = pathlib.Path(__file__).resolve().parents[3]
OWN = '''
import numpy as np


def towards_the_middle(passes):
    """Absolute gradient, pulled towards the middle of the axis."""
    maps = np.abs(passes.input_gradient())
    shape = [1, maps.shape[1]] + [1] * (maps.ndim - 2)
    return maps * np.hanning(maps.shape[1] + 2)[1:-1].reshape(shape)


def half(passes):
    return np.repeat(passes.inputs, 2, axis=-1)
'''


def tasks(quick, seed=0, **options):
    return [
        task for name in registry.REPORTED
        for task in presets.tasks_of(registry.benchmark_named(name), name, quick, seed, **options)
    ]  # fmt: skip


def run(*arguments):
    return cli.execute(reproduce.main, reproduce.FLAGS, reproduce.__doc__, ["reproduce", *arguments])


@pytest.mark.parametrize("quick", [True, False])
def test_benchmarks_accept_the_tasks_of_the_presets(quick):
    for task in tasks(quick, seed=3, networks=2):
        benchmark = registry.benchmark_named(task.place)
        run = prepare(benchmark, task.methods, task.settings, metrics=task.metrics, store=ScoreStore(None))
        assert task.settings.seed == 3 and list(run.methods) == list(task.methods)
        if task.own_model:
            assert "x" in str(benchmark.with_model(task.settings, "x"))
        assert len(set(task.methods)) == len(task.methods)


def test_one_network_alone_has_the_metrics_and_methods_that_are_once():
    first, *further = [task for task in tasks(False, networks=3) if task.benchmark == "bim" and task.random_networks]
    assert {"IIR", "integrated_gradients_smoothgrad"} == set(first.once) <= {*first.metrics, *first.methods}
    for number, task in enumerate(further, start=1):
        assert task.network == number and not set(first.once) & {*task.metrics, *task.methods}
        assert {*first.metrics, *first.methods} == {*first.once, *task.metrics, *task.methods}
    assert len(further) == 2


def test_each_further_network_is_a_task():
    first, *further = [task for task in tasks(False, networks=20) if task.benchmark == "svea"]
    assert [task.network for task in further] == list(range(1, 20)) and {task.series for task in further} == {"svea"}
    assert {task.settings.model for task in further} == {f"saved_models/svea/baseline_seed{n}" for n in range(1, 20)}
    assert all(task.methods == first.methods and task.settings.random_networks == 1 for task in (first, *further))


@pytest.mark.parametrize("quick", [True, False])
def test_every_blank_of_the_matrix_has_a_reason_and_every_reason_a_blank(quick):
    scored = {name: set() for name in registry.REPORTED}
    for task in tasks(quick):
        if task.scores:
            scored[task.benchmark] |= set(task.methods)
    everything = set().union(*scored.values())
    blanks = {(name, benchmark) for benchmark, names in scored.items() for name in everything - names}
    definitions = {name: registry.benchmark_named(name) for name in registry.REPORTED}
    reasons = {(method, name) for name, definition in definitions.items() for method in definition.report.reasons}
    assert blanks <= reasons
    if not quick:
        assert reasons - blanks == {  # of the quick run
            ("integrated_gradients_smoothgrad", "bim"),
            *((name, "sequences") for name in ("gradient", "lrp_alpha1beta0", "smoothgrad")),
        }
    assert everything <= set(reproduce.titles(definitions.values()))


def test_every_method_of_a_benchmark_has_a_family(tmp_path):
    definitions = [registry.benchmark_named(name) for name in registry.BENCHMARKS]
    (tmp_path / "variants.py").write_text(
        "def variant(queries):\n    return queries.input_gradient()\n\nvariant.family = 'modified ReLU'\n"
    )
    candidate = f"{tmp_path / 'variants.py'}:variant"
    own = {name: attribution.resolve_method(name) for name in (candidate, "os.path:abspath")}
    found = reproduce.families(definitions, own)
    assert {name for definition in definitions for name in definition.methods} <= set(found)
    assert found["integrated_gradients_gray"] == found["integrated_gradients_smoothgrad"] == "path"
    assert found["grad_cam_smoothgrad"] == found["layer_cam"] == "class activation"
    assert found[candidate] == "modified ReLU"
    assert "os.path:abspath" not in found  # a family by itself


def test_the_presets_compute_all_columns_of_the_matrix():
    found = tasks(False)
    columns = [column for name in registry.REPORTED for column in presets.columns_of(registry.benchmark_named(name))]
    assert len({column.key for column in columns}) == len(columns) == 13
    for column in columns:
        scored = [
            task
            for task in found
            if task.benchmark == column.benchmark and column.metric in map(str.lower, task.metrics)
        ]
        if "questions" in column.where:
            scored = [task for task in scored if task.settings.questions == column.where["questions"]]
            assert column.where["ground_truth"] in scored[0].settings.ground_truth
        assert scored, column.key


def test_a_metric_of_all_benchmarks_is_computed_and_has_a_column_in_each(monkeypatch):
    toy = metric.of_maps("toy", lambda maps, block, scores: maps.reshape(len(maps), -1).max(axis=1))
    for module in (shared, presets):
        monkeypatch.setattr(module, "METRIC_REGISTRY", {"toy": toy})
    asked = {task.benchmark for task in tasks(True) if "toy" in task.metrics}
    definitions = [registry.benchmark_named(name) for name in registry.REPORTED]
    keys = [column.key for one in definitions for column in presets.columns_of(one) if column.metric == "toy"]
    assert asked == set(registry.REPORTED)
    assert keys == [
        "svea toy", "bim toy", "clevr_xai toy simple", "clevr_xai toy complex", "parts toy", "sequences toy",
    ]  # fmt: skip
    for name, own in (("svea", svea_metrics.METRICS), ("bim", bim_scores.METRICS), ("clevr_xai", ACCURACIES)):
        assert shared.select_metrics([*own, "toy"], own)["toy"] is toy, name


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Return a directory for reports, which share their scores."""
    return tmp_path_factory.mktemp("report")


def test_custom_methods_are_scored_in_the_same_tables(report, toy, tmp_path, capsys):
    outside = tmp_path / "my_method.py"
    outside.write_text(OWN)
    own, unfit = f"{outside}:towards_the_middle", f"{outside}:half"
    flags = [
        f"--benchmarks={toy}:TOY",
        "--quick",
        f"--output_dir={report}",
        f"--methods={own},{unfit},smoothgrad,gradient@xplique",
    ]
    assert run(*flags) == 0
    captured = capsys.readouterr()
    rows = json.loads((report / "tables" / "toy.json").read_text())["rows"]
    methods = {row["method"] for row in rows if row["kind"] == "method"}
    assert methods == {"gradient", "gradient_x_input", own, "smoothgrad", "gradient@xplique"}
    matrix = json.loads((report / "tables" / "matrix.json").read_text())["rows"]
    score = {(row["method"], row["column"]): row for row in matrix}[own, "toy mass"]
    assert score["rank"] == 3 and score["value"] == 1.0
    page = (report / "index.html").read_text()
    assert "Vanilla Gradient (Xplique)" in (report / "methods.html").read_text()
    for name, badges in (("index", 2), ("methods", 1)):
        assert (report / f"{name}.html").read_text().count('class="badge">yours') == badges
    assert ">my_method.py:half under Toy does not fit: " in page and "shape" in page
    assert "towards_the_middle" in captured.out
    assert "A quick run, with fewer networks, inputs, samples and masks than a full run." in page

    before = {path: path.read_bytes() for path in sorted(report.rglob("*.*")) if path.is_file()}
    assert run(*flags) == 0
    assert {path: path.read_bytes() for path in before} == before


def test_a_network_that_fits_no_benchmark_is_named_and_the_code_is_2(report, toy, capsys):
    model = ROOT / "saved_models" / "svea" / "baseline"
    assert run(f"--benchmarks={toy}:TOY", "--quick", f"--output_dir={report}", f"--model={model}") == 2
    instead = "does not fit Toy, whose own network is scored instead"
    errors = capsys.readouterr().err
    assert instead in errors and "error: " in errors and "fits none of these benchmarks" in errors
    page = (report / "index.html").read_text()
    assert instead in page and "fits none of these benchmarks" in page and "With your own network" not in page
    assert list(json.loads((report / "manifest.json").read_text())["tables"]["toy"]["models"]) == ["network"]


def test_a_failed_task_is_reported_in_one_line_and_the_rest_is_published(tmp_path, monkeypatch, capsys):
    settings = registry.benchmark_named("clevr_xai").settings(subset=())
    broken = ReportTask(
        "broken", "clevr_xai", "The broken one", settings, ("gradient",), place="clevr_xai", metrics=("mass",)
    )
    monkeypatch.setattr(presets, "tasks_of", lambda *_: [broken])
    why = "--subset is empty; choose of 'all', 'confident', 'large_mask'"
    assert run("--benchmarks=clevr_xai", "--recompute", f"--output_dir={tmp_path / 'report'}") == 2
    assert capsys.readouterr().err.splitlines()[-1] == "error: 'The broken one' could not be computed: " + why
    assert "The broken one is missing: --subset is empty; choose of" in (tmp_path / "report" / "index.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--benchmarks=svea,imagenet"], "choose of 'svea', 'bim', 'bim_vit'"),
        (["--benchmarks="], "--benchmarks is empty; choose of 'svea', 'bim', 'bim_vit'"),
        (["--methods=grad_camm"], "did you mean 'grad_cam'"),
        (["--methods=missing.py:maps"], "missing.py"),
        (["--metrics=missing.py:MINE"], "cannot import 'missing.py' (there is no such file)"),
        (["--benchmarks=missing.py:MINE"], "cannot import 'missing.py' (there is no such file)"),
        (["--model=nowhere"], "'nowhere' does not exist"),
        (["--output_dir=file"], "is a file; name a directory"),
        (["--output_dir=file/report"], "is a file; name a directory"),
        (["--output_dir="], "--output_dir is empty; name a directory"),
        (["report"], "unexpected argument 'report'"),
    ],
)
def test_bad_input_is_one_line_exit_code_2_and_no_file(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    assert run(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1 and message in captured.err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
