"""A function over many items gives the same files and values in one process and in several."""

import functools
import importlib
import sys

from attribution_benchmarks.beam.parallel_map import local_map, serial_map

CUBES = """
import pathlib

from attribution.files import atomic_write


def cube(directory, item):
    number, word = item
    atomic_write(pathlib.Path(directory, f"{number}.txt"), f"{number**3}")
    return {"word": word, "cube": number**3 / 7}
"""
ITEMS = [[number, f"\u00e9{number}"] for number in range(20)]


def test_processes_return_and_write_what_one_does(tmp_path, monkeypatch):
    (tmp_path / "cubes.py").write_text(CUBES)
    monkeypatch.syspath_prepend(tmp_path)
    cubes, found = importlib.import_module("cubes"), []
    with local_map(2, chunk=2) as several:
        for name, each in (("one", serial_map), ("two", several)):
            returned = list(each("cubes", functools.partial(cubes.cube, str(tmp_path / name)), ITEMS))
            found.append((returned, {path.name: path.read_text() for path in (tmp_path / name).iterdir()}))
    assert found[0] == found[1] and len(found[0][1]) == 20
    assert [entry["word"] for entry in found[0][0]] == [word for _, word in ITEMS]
    sys.modules.pop("cubes", None)
