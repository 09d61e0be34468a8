"""Fingerprints follow the code that maps depend on, and nothing else."""

import functools
import importlib.metadata

import numpy as np
import pytest

import attribution
from attribution import fingerprint
from attribution.fingerprint import code_fingerprint, library_versions
from attribution.reached_code import SourceTree
from attribution_benchmarks.command_line import BadInput

SOURCE = '''"""Own methods."""
def own(passes):
    """One."""
    return passes.inputs * 2  # twice
'''


def own_method(tmp_path, source):
    path = tmp_path / "own.py"
    path.write_text(source)
    fingerprint.loaded_code.cache_clear()
    return attribution.resolve_method(f"{path}:own").fingerprint


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("twice", "two times", True),
        ("One.", "Two.", True),
        ("inputs * 2", "inputs  *  2", True),
        ("inputs * 2", "inputs * 3", False),
        ("def own(passes)", "def own(passes: object) -> object", True),
    ],
)
def test_own_methods_are_told_apart_by_their_code_alone(old, new, same, tmp_path):
    assert old in SOURCE
    before = own_method(tmp_path, SOURCE)
    assert (own_method(tmp_path, SOURCE.replace(old, new)) == before) == same


def test_methods_of_this_package_are_told_apart_by_the_code_they_reach():
    found = {name: attribution.METHODS[name].fingerprint for name in ("gradient", "rise", "lrp_epsilon")}
    assert len(set(found.values())) == 3
    assert found == {name: attribution.METHODS[name].fingerprint for name in found}


@pytest.mark.parametrize("module", ["passes", "compiled", "canonise", "relevance", "batching", "model", "saved_model"])
def test_every_method_depends_on_what_its_maps_go_through(module, monkeypatch):
    """Nothing names these modules in a method: they are reached through the passes alone."""
    before = attribution.METHODS["random"].fingerprint
    tree = SourceTree()
    text = tree.text
    monkeypatch.setattr(fingerprint, "loaded_code", lambda: tree)
    monkeypatch.setattr(tree, "text", lambda file, name: text(file, name) + "#" * file.name.endswith(f".{module}"))
    assert attribution.METHODS["random"].fingerprint != before


def test_methods_of_libraries_depend_on_the_librarys_version(monkeypatch):
    method = attribution.METHODS["tf_explain.gradient"]
    before = method.fingerprint
    assert before != attribution.METHODS["gradient"].fingerprint
    monkeypatch.setattr(fingerprint.importlib.metadata, "version", lambda name: "0.0")
    assert method.fingerprint != before


def test_methods_of_a_library_that_is_missing_are_refused_by_what_to_install(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    for ask in (lambda: attribution.METHODS["tf_explain.gradient"].fingerprint, resolved):
        with pytest.raises(BadInput, match=r"pip install 'attribution-benchmarks\[peers\]'"):
            ask()


def resolved():
    return attribution.resolve_method("tf_explain.gradient")


def test_functions_without_a_file_have_one_too():
    first, second = (attribution.Method("own", "Own", eval(code)) for code in ("lambda p: 1", "lambda p: p"))
    assert first.fingerprint != second.fingerprint


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


def test_functions_made_by_code_differ_in_what_they_hold():
    assert code_fingerprint(maker(1)) == code_fingerprint(maker(1)) != code_fingerprint(maker(2))
    assert code_fingerprint(maker({"a": [1]})) != code_fingerprint(maker({"a": [2]}))
    assert code_fingerprint(maker(np.zeros(2))) != code_fingerprint(maker(np.ones(2)))
    partials = [functools.partial(scaled, factor=factor) for factor in (1, 2)]
    assert code_fingerprint(partials[0]) != code_fingerprint(partials[1])
    assert code_fingerprint(lambda x: x + 1) != code_fingerprint(lambda x: x + 2)


def test_libraries_count_by_name_and_are_told_with_their_versions():
    versions = library_versions("attribution.passes:Passes", "attribution.model:load_model")
    assert {"python", "numpy", "tensorflow"} <= set(versions)
    assert versions["numpy"] == np.__version__
    assert code_fingerprint(np.mean) != code_fingerprint(np.median)


def test_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match="there is no module"):
        code_fingerprint("attribution.nothing")
    with pytest.raises(ValueError, match="defines no 'nothing'"):
        code_fingerprint("attribution.cam:nothing")
