"""Scores on disk: found by what they depend on, unchanged by an interruption."""

import concurrent.futures
import json
import os
import tracemalloc

import pytest

from attribution_benchmarks.command_line import BadInput
from attribution_benchmarks.leaderboard import store as store_module
from attribution_benchmarks.leaderboard.store import ScoreStore, _cut_half_line

KEY = {"model": "abc", "data": "def", "method": "gradient", "parameters": {"samples": 25}, "seed": 0}
RECORDS = {f"image-{number}": {"value": number / 7, "flat": False} for number in range(12)}


def written(directory, steps):
    store = ScoreStore(str(directory))
    names = list(RECORDS)
    for start in range(0, len(names), steps):
        store.series(**KEY).append({name: RECORDS[name] for name in names[start : start + steps]})
    return store


def test_scores_come_back_as_they_were(tmp_path):
    series = written(tmp_path, 5).series(**KEY)
    assert len(series) == 12
    assert {name: series[name] for name in RECORDS} == RECORDS
    assert series.missing(["image-3", "image-99"]) == ["image-99"]


@pytest.mark.parametrize(
    "change", [{"model": "other"}, {"data": "x"}, {"parameters": {"samples": 24}}, {"seed": 1}, {"method": "m"}]
)
def test_a_changed_key_finds_no_old_scores(tmp_path, change):
    assert len(written(tmp_path, 12).series(**{**KEY, **change})) == 0


def test_the_order_of_a_key_does_not_matter(tmp_path):
    assert len(written(tmp_path, 12).series(**dict(reversed(KEY.items())))) == 12


def test_killed_anywhere_and_resumed_gives_the_same_bytes(tmp_path):
    whole = written(tmp_path / "whole", 3).series(**KEY)
    with open(whole.path, "rb") as file:
        expected = file.read()
    for cut in range(0, len(expected) + 1, 13):
        store = ScoreStore(str(tmp_path / f"cut{cut}"))
        path = store.series(**KEY).path
        (tmp_path / f"cut{cut}").mkdir()
        with open(path, "wb") as file:
            file.write(expected[:cut])
        series = store.series(**KEY)
        series.append({name: RECORDS[name] for name in series.missing(RECORDS)})
        with open(path, "rb") as file:
            assert file.read() == expected, cut


def test_an_input_keeps_its_first_record(tmp_path):
    series = written(tmp_path, 12).series(**KEY)
    series.append({"image-0": {"value": 99.0}, "new": {"value": 1.0}})
    again = ScoreStore(str(tmp_path)).series(**KEY)
    assert again["image-0"] == RECORDS["image-0"] and again["new"] == {"value": 1.0}


def test_two_writers_lose_nothing(tmp_path):
    first, second = ScoreStore(str(tmp_path)).series(**KEY), ScoreStore(str(tmp_path)).series(**KEY)
    first.append({"a": 1})
    second.append({"b": 2})
    first.append({"c": 3})
    series = ScoreStore(str(tmp_path)).series(**KEY)
    assert [series[name] for name in "abc"] == [1, 2, 3]


def test_not_a_number_is_refused_and_leaves_no_trace(tmp_path):
    series = ScoreStore(str(tmp_path)).series(**KEY)
    with pytest.raises(ValueError, match="not JSON compliant"):
        series.append({"a": float("nan")})
    assert not list(tmp_path.iterdir()) and "a" not in series


def test_a_damaged_file_is_named(tmp_path):
    path = written(tmp_path, 12).series(**KEY).path
    with open(path, "ab") as file:
        file.write(b"no json\n")
    with pytest.raises(BadInput, match="line 14 is damaged"):
        ScoreStore(str(tmp_path)).series(**KEY)


def test_a_key_beyond_json_is_refused(tmp_path):
    with pytest.raises(BadInput, match="plain JSON"):
        ScoreStore(str(tmp_path)).series(model=object())


def test_the_manifest_lists_every_series(tmp_path):
    store = written(tmp_path, 4)
    store.series(**{**KEY, "seed": 5}).append({"a": 1})
    found = store.manifest()
    assert sorted(entry["scores"] for entry in found) == [1, 12]
    assert {json.dumps(entry["key"], sort_keys=True) for entry in found} == {
        json.dumps({**KEY, "seed": seed}, sort_keys=True) for seed in (0, 5)
    }
    assert ScoreStore(str(tmp_path / "none")).manifest() == []


def test_writers_that_begin_at_once_write_one_header_and_lose_nothing(tmp_path):
    every = [ScoreStore(str(tmp_path)).series(**KEY) for _ in range(16)]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda pair: pair[1].append({f"image-{pair[0]}": pair[0]}), enumerate(every)))
    series = ScoreStore(str(tmp_path)).series(**KEY)
    assert [series[f"image-{number}"] for number in range(16)] == list(range(16))


def test_a_writer_waits_until_the_file_is_free(tmp_path):
    import fcntl

    series = written(tmp_path, 2).series(**KEY)
    with open(series.path, "rb") as held, concurrent.futures.ThreadPoolExecutor(1) as pool:
        fcntl.flock(held, fcntl.LOCK_EX)
        before = held.read()
        waiting = pool.submit(series.append, {"late": 1})
        with pytest.raises(concurrent.futures.TimeoutError):
            waiting.result(timeout=0.3)
        held.seek(0)
        assert held.read() == before
        fcntl.flock(held, fcntl.LOCK_UN)
        waiting.result(timeout=30)
    assert ScoreStore(str(tmp_path)).series(**KEY)["late"] == 1


@pytest.mark.parametrize("line", [b"5\n", b'["name"]\n', b"\xff\xfe\n"])
def test_a_line_of_another_form_is_named(tmp_path, line):
    path = written(tmp_path, 12).series(**KEY).path
    with open(path, "ab") as file:
        file.write(line)
    with pytest.raises(BadInput, match="line 14 is damaged"):
        ScoreStore(str(tmp_path)).series(**KEY)


def test_a_line_nested_deeply_is_damaged(tmp_path):
    path = written(tmp_path, 12).series(**KEY).path
    with open(path, "ab") as file:
        file.write(b"[" * 100_000 + b"\n")
    with pytest.raises(BadInput, match="line 14 is damaged"):
        ScoreStore(str(tmp_path)).series(**KEY)
    with open(path, "wb") as file:
        file.write(b"[" * 100_000 + b"\n")
    with pytest.raises(BadInput, match="line 1 is damaged"):
        ScoreStore(str(tmp_path)).manifest()


def test_what_cannot_be_read_or_written_is_one_line(tmp_path):
    path = ScoreStore(str(tmp_path)).series(**KEY).path
    os.mkdir(path)
    with pytest.raises(BadInput, match="cannot read scores"):
        ScoreStore(str(tmp_path)).series(**KEY)
    (tmp_path / "file").write_text("x")
    with pytest.raises(BadInput, match="cannot write scores"):
        ScoreStore(str(tmp_path / "file")).series(**KEY).append({"a": 1})


def test_two_that_compute_the_same_end_with_the_bytes_of_one(tmp_path):
    """Both opened the series before either wrote; each is ahead once."""
    alone = ScoreStore(str(tmp_path / "alone")).series(method="rise")
    first, second = (ScoreStore(str(tmp_path / "shared")).series(method="rise") for _ in range(2))
    blocks = [{f"{block}{row}": block + row / 10 for row in range(2)} for block in range(4)]
    for block in blocks:
        alone.append(block)
    for series, block in ((first, 0), (second, 0), (second, 1), (first, 1), (first, 2), (first, 3), (second, 2)):
        series.append(blocks[block])
    second.append(blocks[3])
    files = [next((tmp_path / name).iterdir()) for name in ("alone", "shared")]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert {name: second[name] for block in blocks for name in block} == {k: v for b in blocks for k, v in b.items()}


def test_the_first_record_counts_also_for_who_was_late(tmp_path):
    first, second = (ScoreStore(str(tmp_path)).series(method="rise") for _ in range(2))
    first.append({"a": 1})
    second.append({"a": 2, "b": 3})
    assert (second["a"], second["b"]) == (1, 3)
    again = ScoreStore(str(tmp_path)).series(method="rise")
    assert (again["a"], again["b"]) == (1, 3)


def test_memory_holds_where_records_are_and_not_the_records(tmp_path):
    """Twenty series of the same 500 inputs, 2 kB each: 20 MB on disk."""
    store = ScoreStore(str(tmp_path))
    names = [f"{number} 0123456789abcdef" for number in range(500)]
    for method in range(20):
        store.series(method=method).append(dict.fromkeys(names, "0.123456789 " * 170))
    tracemalloc.start()
    opened = [store.series(method=method) for method in range(20)]
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 20 * 500 * 200
    assert sum(len(record) for one in opened for record in one.records(names)) == 20 * 500 * 2040


def test_a_file_that_was_changed_after_it_was_opened_is_named(tmp_path):
    series = written(tmp_path, 12).series(**KEY)
    with open(series.path, "r+b") as file:
        file.seek(-5, os.SEEK_END)
        file.write(b"?????")
    with pytest.raises(BadInput, match="was changed meanwhile"):
        list(series.records(list(RECORDS)))


def test_appending_reads_nothing_again_unless_another_has_written(tmp_path, monkeypatch):
    series, other = (ScoreStore(str(tmp_path)).series(**KEY) for _ in range(2))
    read = []
    monkeypatch.setattr(store_module, "_cut_half_line", lambda file: read.append(file) or _cut_half_line(file))
    for number in range(5):
        series.append({f"image-{number}": number})
    assert not read
    other.append({"image-0": "late", "image-9": 9})
    series.append({"image-9": "later", "image-10": 10})
    assert len(read) == 2 and [series[f"image-{number}"] for number in (0, 9, 10)] == [0, 9, 10]
    assert [other[f"image-{number}"] for number in (0, 4, 9)] == [0, 4, 9]
