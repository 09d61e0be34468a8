"""What a function reaches counts, through every kind of import; what stands beside it does not."""

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

from attribution.fingerprint import code_fingerprint
from attribution.reached_code import SourceTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
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


def test_a_name_that_is_imported_and_assigned_is_both_in_every_order(tmp_path):
    """Strings, and so sets of them, have another order in every process."""
    (tmp_path / "own.py").write_text(
        "try:\n    import json\nexcept ImportError:\n    json = None\n\n\ndef maps(x):\n    return json.dumps(x)\n"
    )
    script = (
        "import pathlib; from attribution.reached_code import *\n"
        "tree = SourceTree(); file = tree.file_at(pathlib.Path('own.py'))\n"
        "print('|'.join(ReachedCode(tree, [(file, 'maps')]).texts()))"
    )
    said = set()
    for seed in "01234567":
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        said.add(done.stdout)
    (text,) = said
    assert "json = json" in text
