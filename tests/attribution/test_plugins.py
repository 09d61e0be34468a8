"""A file without an object is answered with what it defines, and is not run; custom code moves nothing."""

import os
import re

import pytest

import attribution
from attribution import plugins
from attribution.errors import BadInput
from attribution_benchmarks.core.registry import benchmark_named
from attribution_benchmarks.metrics.registry import select_metrics

MINE = """
raise SystemExit("it was run")
SIZE = 3
PEAK = of_maps("peak", sharpened)
TOY = Benchmark(name="toy")
def _blurred(maps):
    return maps
def sharpened(passes):
    return _blurred(passes.gradients)
"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "ok.py").write_text("def sharpened(queries):\n    return queries\n")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("resolve", "name", "message"),
    [
        (attribution.resolve_method, "mine.py", "A custom method is written module:function or file.py:function"),
        (attribution.resolve_method, "mime.py:f", "'mime.py' (there is no such file; did you mean 'mine.py'?)"),
        (attribution.resolve_method, "ok.py:sharpend", "has no function 'sharpend'; did you mean 'sharpened'?"),
        (lambda name: select_metrics([name], {}), "mine.py", "or name your own as file.py:NAME"),
        (benchmark_named, "mine.py", "or name your own as file.py:NAME"),
    ],
)  # fmt: skip
def test_a_wrong_name_is_answered_with_how_to_write_it(files, resolve, name, message):
    with pytest.raises(BadInput, match=re.escape(message)):
        resolve(name)


def test_custom_code_moves_no_output(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "moves.py").write_text("import os\nos.chdir('/')\n\ndef f(passes):\n    pass\n")
    assert callable(plugins.imported("moves.py:f", "method")) and os.getcwd() == str(tmp_path)


def test_a_pipe_is_no_module(tmp_path):
    """Importing it would wait without end."""
    os.mkfifo(tmp_path / "pipe.py")
    with pytest.raises(BadInput, match=r"cannot import .*pipe\.py is not a regular file"):
        plugins.imported(f"{tmp_path}/pipe.py:f", "method")
