"""A stored score is used again only while the code and files that it depends on are the same."""

import functools
import importlib.metadata
import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

import attribution
from attribution.errors import BadInput
from attribution_benchmarks.core.fingerprint import PACKAGES, code_fingerprint, method_fingerprint
from attribution_benchmarks.core.store import ScoreStore

ROOT = pathlib.Path(__file__).resolve().parents[3]
SOURCE = "def custom(passes):\n    import beside\n    return passes.inputs * beside.FACTOR\n"
FOUND = "from attribution_benchmarks.core.fingerprint import code_fingerprint\nprint(code_fingerprint({name!r}))"


def fingerprint_in(folder, name, seed="0"):
    """Return a fingerprint computed by another process whose code is in ``folder``."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONHASHSEED": seed}
    done = subprocess.run([sys.executable, "-c", FOUND.format(name=name)], cwd=folder, env=environment,
                          capture_output=True, text=True, check=True)  # fmt: skip
    return done.stdout.strip()


def test_scores_depend_on_the_benchmark_and_the_packages_below_it_alone(tmp_path):
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("embedded", "__pycache__"))
    before = fingerprint_in(tmp_path, "svea.metrics:region_of_explanation")
    assert fingerprint_in(tmp_path, "svea.metrics:region_of_explanation", seed="3") == before
    for file, counts in (
        ("bim/scores.py", False),
        ("attribution_benchmarks/report/charts.py", False),
        ("svea/scoring.py", True),
        ("attribution/model/compiled.py", True),
        ("attribution_benchmarks/core/evaluator.py", True),
    ):
        text = (tmp_path / file).read_text()
        (tmp_path / file).write_text(text + "\nONE_MORE = 1\n")
        assert (fingerprint_in(tmp_path, "svea.metrics:region_of_explanation") != before) == counts, file
        (tmp_path / file).write_text(text)


def test_a_custom_method_depends_on_its_file_and_on_what_that_imports(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "mine.py").write_text(SOURCE)
    (tmp_path / "beside.py").write_text("FACTOR = 2\n")
    (tmp_path / "unrelated.py").write_text("")

    def found():
        sys.modules.pop("beside", None)
        return method_fingerprint(attribution.resolve_method(f"{tmp_path}/mine.py:custom"))

    before = found()
    (tmp_path / "unrelated.py").write_text("FACTOR = 3\n")
    assert found() == before
    (tmp_path / "beside.py").write_text("FACTOR = 3\n")
    after = found()
    assert after != before
    (tmp_path / "mine.py").write_text(SOURCE + "# a comment\n")
    assert found() != after


SLOW = """
import time
import attribution
def slow(passes):
    time.sleep(0.05)
    maps = passes.inputs * 0
    maps[:, :, 2 * attribution.VERSION:] = 1
    return maps
"""
TWICE = """
import pathlib, sys, time
import attribution
from attribution import cli
from attribution_benchmarks.core import evaluate
toy, folder, version = sys.argv[1], pathlib.Path(sys.argv[2]), attribution.VERSION
(folder / f"{version}").touch()
while len(list(folder.glob("[01]"))) < 2:
    time.sleep(0.01)
for place in ("shared", f"alone{version}"):
    arguments = ["evaluate", f"--benchmark={toy}:TOY", f"--methods={folder}/slow.py:slow", "--batch_size=1",
                 f"--scores_dir={folder / place}", f"--output={folder / place}{version}.json"]
    if code := cli.execute(evaluate.main, evaluate.FLAGS, evaluate.__doc__, arguments):
        sys.exit(code)
"""


def test_two_versions_of_the_code_share_a_store_at_the_same_time(tmp_path, toy, quick_python):
    (tmp_path / "slow.py").write_text(SLOW)
    running = []
    for version in (0, 1):
        tree = tmp_path / f"tree{version}"
        for package in PACKAGES:
            shutil.copytree(ROOT / package, tree / package, ignore=shutil.ignore_patterns("embedded", "__pycache__"))
        with open(tree / "attribution" / "__init__.py", "a") as file:
            file.write(f"\nVERSION = {version}\n")
        environment = {**os.environ, "PYTHONPATH": str(tree)}
        command = [quick_python, "-c", TWICE, toy, tmp_path]
        running.append(subprocess.Popen(command, cwd=tree, env=environment, stderr=subprocess.PIPE, text=True))
    for process in running:
        _, said = process.communicate(timeout=600)  # seconds on an idle machine
        assert process.returncode == 0, said[-2000:]
    shared, *alone = (ScoreStore(tmp_path / name).contents() for name in ("shared", "alone0", "alone1"))
    assert shared == {**alone[0], **alone[1]} and len(shared) == len(alone[0]) + len(alone[1])
    for version, value in ((0, 0.5), (1, 0.0)):
        together, by_itself = (tmp_path / f"{place}{version}.json" for place in ("shared", f"alone{version}"))
        assert together.read_bytes() == by_itself.read_bytes()
        rows = json.loads(together.read_text())["rows"]
        assert [row["value"] for row in rows if row["kind"] == "method"] == [value]


def test_methods_of_a_library_depend_on_its_version(monkeypatch):
    method = attribution.METHODS["tf_explain.gradient"]
    before = method_fingerprint(method)
    assert before != method_fingerprint(attribution.METHODS["gradient"])
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.0")
    assert method_fingerprint(method) != before


def test_methods_of_a_library_that_is_missing_are_refused_by_what_to_install(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    for call in (method_fingerprint, lambda method: attribution.resolve_method(method.name)):
        with pytest.raises(BadInput, match=r"pip install 'tf-explain[^']*' 'tf-keras-vis[^']*'"):
            call(attribution.METHODS["tf_explain.gradient"])


def test_data_files_count_by_what_they_hold(tmp_path):
    folder = tmp_path / "families"
    folder.mkdir()
    (folder / "one.json").write_text("{}")
    before = code_fingerprint(np.mean, files=[folder])
    assert before != code_fingerprint(np.mean)
    (folder / "one.json").write_text("[]")
    assert code_fingerprint(np.mean, files=[folder]) != before


def scaled(x, factor):
    return x * factor


def maker(factor):
    def made(x):
        return x * factor if x else made(x)

    return made


def test_functions_of_one_name_differ_in_what_they_do_and_hold():
    assert code_fingerprint(maker(1)) == code_fingerprint(maker(1)) != code_fingerprint(maker(2))
    assert code_fingerprint(maker({"a": [1]})) != code_fingerprint(maker({"a": [2]}))
    assert code_fingerprint(maker(np.zeros(2))) != code_fingerprint(maker(np.ones(2)))
    partials = [functools.partial(scaled, factor=factor) for factor in (1, 2)]
    assert code_fingerprint(partials[0]) != code_fingerprint(partials[1])
    assert code_fingerprint(lambda x: x + 1) != code_fingerprint(lambda x: x + 2)
    typed_in = [eval(text) for text in ("lambda x: x + 1", "lambda x: x + 2")]
    assert code_fingerprint(typed_in[0]) != code_fingerprint(typed_in[1])


def test_an_unknown_module_is_refused():
    with pytest.raises(ValueError, match=r"no module 'attribution\.nothing'"):
        code_fingerprint("attribution.nothing")
