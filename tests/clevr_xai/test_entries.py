"""Entries are what was put in, and take little more than their text."""

import json
import tracemalloc

from clevr_xai.entries import Entries, NamedEntries
from clevr_xai.generation import questions, scenes


def test_entries_come_back_each_time_anew():
    given = [{"name": "é", "value": [1, 2.5, None]}, {"name": "b", "deep": {"x": True}}]
    entries, named = Entries(given), NamedEntries(given, "name")
    assert list(entries) == given and entries[-1] == given[1] and len(entries) == 2
    assert dict(named) == {entry["name"]: entry for entry in given} and "b" in named and "c" not in named
    entries[0]["value"].append(3)
    assert entries[0] == given[0]
    entries[0] = {"other": 1}
    assert list(entries) == [{"other": 1}, given[1]]


def test_they_take_little_more_than_their_text():
    asked = questions.generate_block([scenes.sample_scene(0, index) for index in range(5)], "complex", 0)
    text = len(json.dumps(asked))
    tracemalloc.start()
    entries = Entries(asked * 20)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(entries) == 1000 and taken < 1.1 * 20 * text
