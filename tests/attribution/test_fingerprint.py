"""Fingerprints follow the code that maps depend on, and nothing else."""

import functools
import importlib.metadata
import textwrap

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


# A user's own folder: a method, what it reaches, and what it does not.
FILES = {
    "own.py": '''
        import numpy as np
        import plots
        from parts import constants, scale as scaled
        from parts.constants import *
        import parts.deep.inner

        TITLE = "Mine"
        LIMIT = 3
        if LIMIT > 2:
            EDGE = 1
        else:
            EDGE = 2

        class Scaler:
            """Scale."""

            factor: float = 1.5

            def __call__(self, x):
                return x * self.factor

        def maps(passes, constant=LIMIT):
            """Return maps."""
            from parts import late

            return late.shifted(Scaler()(scaled(passes.inputs))) + constants.OFFSET + EDGE + parts.deep.inner.DEPTH

        def starred(passes):
            return OFFSET

        def whole(passes):
            return getattr(constants, "OFF" + "SET")

        def local(passes):
            constants = passes.inputs
            return [late for late in constants]

        def figure(values):
            """Draw."""
            return plots.draw(TITLE, values)
        ''',
    "plots.py": """
        COLOUR = "red"

        def draw(title, values):
            return title, COLOUR
        """,
    "parts/__init__.py": """
        from .scaling import scale
        """,
    "parts/scaling.py": '''
        from . import constants

        SIZES = {}
        SIZES["small"] = 1

        def scale(x):
            return _inner(x) * SIZES["small"]

        def _inner(x):
            """Return."""
            return x - constants.MEAN

        def unused(x):
            return x
        ''',
    "parts/constants.py": """
        MEAN = 0.5
        OFFSET = 7
        OTHER = 8
        """,
    "parts/late.py": """
        LATE = 4

        def shifted(x):
            global LATE
            return x + LATE

        def never(x):
            global LATE
            LATE = 5
        """,
    "parts/deep/inner.py": """
        DEPTH = 6
        WIDTH = 9
        """,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(textwrap.dedent(text))
    return folder


def of(folder, name) -> str:
    """Return the fingerprint of a definition of own.py, read anew."""
    tree = SourceTree(folder)
    return code_fingerprint(f"own:{name}", tree=tree)


def changes(folder, name, file, old, new) -> bool:
    path, before = folder / file, of(folder, name)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    try:
        return of(folder, name) != before
    finally:
        path.write_text(text)


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("own.py", "LIMIT = 3", "LIMIT = 4"),
        ("own.py", "factor: float = 1.5", "factor: float = 2.5"),
        ("own.py", "EDGE = 2", "EDGE = 3"),
        ("own.py", "x * self.factor", "x + self.factor"),
        ("own.py", "import constants, scale", "import plots as constants, scale"),
        ("parts/__init__.py", "from .scaling import scale", "from .scaling import unused as scale"),
        ("parts/scaling.py", "x - constants.MEAN", "x + constants.MEAN"),
        ("parts/scaling.py", 'SIZES["small"] = 1', 'SIZES["small"] = 2'),
        ("parts/constants.py", "MEAN = 0.5", "MEAN = 0.4"),
        ("parts/constants.py", "OFFSET = 7", "OFFSET = 8"),
        ("parts/late.py", "LATE = 4", "LATE = 3"),
        ("parts/late.py", "LATE = 5", "LATE = 3"),
        ("parts/late.py", "LATE = 4", "LATE = 4\nprint('loaded')"),
        ("parts/deep/inner.py", "DEPTH = 6", "DEPTH = 5"),
    ],
)
def test_what_a_function_reaches_counts(folder, file, old, new):
    assert changes(folder, "maps", file, old, new)


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("own.py", "Return maps.", "Return other maps."),
        ("own.py", "LIMIT = 3", "LIMIT  =  (3)  # three"),
        ("own.py", "def maps(passes,", "def maps(passes: list,"),
        ("own.py", "plots.draw(TITLE, values)", "plots.draw(values, TITLE)"),
        ("own.py", 'TITLE = "Mine"', 'TITLE = "Yours"'),
        ("plots.py", "red", "blue"),
        ("parts/scaling.py", "return x\n", "return 2 * x\n"),
        ("parts/scaling.py", "Return.", "Subtract the mean."),
        ("parts/constants.py", "OTHER = 8", "OTHER = 9"),
        ("parts/constants.py", "MEAN = 0.5\nOFFSET = 7", "OFFSET = 7\nMEAN = 0.5"),
        ("parts/deep/inner.py", "WIDTH = 9", "WIDTH = 8"),
    ],
)
def test_what_it_does_not_reach_does_not(folder, file, old, new):
    assert not changes(folder, "maps", file, old, new)


@pytest.mark.parametrize("name", ["starred", "whole"])
def test_where_a_name_cannot_be_followed_the_whole_module_counts(folder, name):
    assert changes(folder, name, "parts/constants.py", "OTHER = 8", "OTHER = 9")


def test_a_local_name_is_not_the_module_of_that_name(folder):
    assert not changes(folder, "local", "parts/constants.py", "MEAN = 0.5", "MEAN = 0.4")
    assert not changes(folder, "local", "parts/late.py", "LATE = 4", "LATE = 3")


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
    assert {"python", "numpy", "tensorflow"} == set(versions)
    assert versions["numpy"] == np.__version__
    assert code_fingerprint(np.mean) != code_fingerprint(np.median)


def test_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match="there is no module"):
        code_fingerprint("attribution.nothing")
    with pytest.raises(ValueError, match="defines no 'nothing'"):
        code_fingerprint("attribution.cam:nothing")
