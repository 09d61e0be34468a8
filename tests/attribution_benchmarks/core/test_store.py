"""Scores on disk: found by what they depend on, never changed by a kill, a second writer or a damaged disk."""

import concurrent.futures
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
import tracemalloc

import pytest

from attribution.errors import BadInput
from attribution_benchmarks.core import store as store_module
from attribution_benchmarks.core.store import FILE, ScoreStore

KEY = {"model": "abc", "data": "def", "method": "gradient", "parameters": {"samples": 25}, "seed": 0}
RECORDS = {f"image-{number}": {"value": number / 7, "flat": False} for number in range(12)}
# Writes batches of two records until it is killed; says which batches are written.
WRITER = """
import sys
from attribution_benchmarks.core.store import ScoreStore
series = ScoreStore(sys.argv[1]).series(method="rise")
for batch in range(10**6):
    series.append({f"{batch}a": batch, f"{batch}b": batch})
    print(batch, flush=True)
"""


def written(directory, steps):
    store = ScoreStore(directory)
    names = list(RECORDS)
    for start in range(0, len(names), steps):
        store.series(**KEY).append({name: RECORDS[name] for name in names[start : start + steps]})
    return store


@pytest.mark.parametrize("on_disk", [True, False])
def test_scores_come_back_as_they_were_and_in_their_order(tmp_path, on_disk):
    series = written(tmp_path if on_disk else None, 5).series(**KEY)
    assert len(series) == 12 and list(series) == list(RECORDS)
    assert {name: series[name] for name in RECORDS} == RECORDS
    backwards = list(RECORDS)[::-1]
    assert list(series.records(backwards)) == [RECORDS[name] for name in backwards]
    assert series.missing(["image-3", "image-99"]) == ["image-99"]
    assert "image-3" in series and "image-99" not in series
    with pytest.raises(BadInput, match="the score of 'image-99' in"):
        series["image-99"]


@pytest.mark.parametrize(
    "change", [{"model": "other"}, {"data": "x"}, {"parameters": {"samples": 24}}, {"seed": 1}, {"method": "m"}]
)
def test_a_changed_key_finds_no_old_scores(tmp_path, change):
    assert len(written(tmp_path, 12).series(**{**KEY, **change})) == 0


def test_the_order_of_a_key_does_not_matter(tmp_path):
    assert len(written(tmp_path, 12).series(**dict(reversed(KEY.items())))) == 12


def test_any_name_of_a_file_is_a_name_of_an_input(tmp_path):
    names = ["\udcff.png", "a\nb", "", "'; DROP TABLE records; --", "ü"]
    series = ScoreStore(tmp_path).series(**KEY)
    series.append({name: number for number, name in enumerate(names)})
    assert list(series.records(names)) == list(range(5)) and list(series) == names


def test_a_killed_writer_loses_nothing_that_it_had_written(tmp_path):
    """Each batch is there whole or not at all."""
    last = -1
    for seed in range(4):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, tmp_path], stdout=subprocess.PIPE, text=True)
        while int(writer.stdout.readline()) <= last:
            pass
        time.sleep(random.Random(seed).random() / 5)
        writer.send_signal(signal.SIGKILL)
        last = max(map(int, writer.stdout.read().split()), default=last)
        writer.wait()
        series = ScoreStore(tmp_path).series(method="rise")
        batches = {int(name[:-1]) for name in series}
        assert batches >= set(range(last + 1)) and len(series) == 2 * len(batches)
        assert list(series.records(series)) == [int(name[:-1]) for name in series]
        last = max(batches)


def test_the_first_record_of_an_input_counts_whoever_writes_it(tmp_path):
    first, second = (ScoreStore(tmp_path).series(method="rise") for _ in range(2))
    first.append({"a": 1})
    second.append({"a": 2, "b": 3})
    for series in (first, second, ScoreStore(tmp_path).series(method="rise")):
        assert (series["a"], series["b"]) == (1, 3)


def test_writers_that_begin_together_lose_nothing(tmp_path):
    every = [ScoreStore(tmp_path).series(**KEY) for _ in range(16)]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda pair: pair[1].append({f"image-{pair[0]}": pair[0]}), enumerate(every)))
    series = ScoreStore(tmp_path).series(**KEY)
    assert [series[f"image-{number}"] for number in range(16)] == list(range(16))


def test_a_writer_waits_for_the_transaction_of_another(tmp_path):
    series = ScoreStore(tmp_path).series(**KEY)
    series.append({"image-0": 0})
    other = sqlite3.connect(tmp_path / FILE, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(series.append, {"image-1": 1})
        assert concurrent.futures.wait([waiting], 0.2).not_done
        other.execute("COMMIT")
        waiting.result()
    assert series["image-1"] == 1


def test_a_writer_waits_for_another_that_makes_the_database():
    """SQLite does not wait there; when it reports that is up to the operating system, so that a stand-in does."""
    answers = ["database is locked", "database table is locked", None, "disk I/O error"]

    class Database:
        def execute(self, statement):
            if answer := answers.pop(0):
                raise sqlite3.OperationalError(answer)

    store_module._write_ahead(Database())
    assert answers == ["disk I/O error"]
    with pytest.raises(sqlite3.OperationalError, match="disk"):
        store_module._write_ahead(Database())


def test_threads_share_a_store(tmp_path):
    series = ScoreStore(tmp_path).series(**KEY)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: series.append({str(number): number}), range(50)))
        assert list(pool.map(lambda number: series[str(number)], range(50))) == list(range(50))
        with series._store._lock:
            waiting = pool.submit(len, series)
            assert concurrent.futures.wait([waiting], 0.2).not_done
        assert waiting.result() == 50


def test_not_a_number_is_refused_and_leaves_no_trace(tmp_path):
    series = ScoreStore(tmp_path).series(**KEY)
    with pytest.raises(ValueError, match="not JSON compliant"):
        series.append({"a": 1.0, "b": float("nan")})
    assert not list(tmp_path.iterdir()) and "a" not in series


def test_a_key_beyond_json_is_refused(tmp_path):
    with pytest.raises(BadInput, match="plain JSON"):
        ScoreStore(tmp_path).series(model=object())


def test_reading_makes_no_file(tmp_path):
    store = ScoreStore(tmp_path / "none")
    assert store.contents() == {} and len(store.series(**KEY)) == 0 and not (tmp_path / "none").exists()


@pytest.mark.parametrize("log", [False, True], ids=["database", "log"])
def test_flipped_bits_never_give_another_number(tmp_path, log):
    """A damaged store, or its write-ahead log, is refused or has lost records; what it returns is what was written."""
    store = written(tmp_path / "whole", 12)
    store.series(**KEY).append({"last": 1})  # a second transaction
    expected = {**RECORDS, "last": 1}
    if not log:
        store.query("PRAGMA wal_checkpoint(TRUNCATE)")
    files = {path.name: path.read_bytes() for path in (tmp_path / "whole").iterdir() if not path.name.endswith("-shm")}
    damaged_file = max(files) if log else FILE
    generator, refused, lost = random.Random(0), 0, 0
    for number in range(150 if log else 1000):
        content = bytearray(files[damaged_file])
        place = generator.randrange(len(content) * 8)
        content[place // 8] ^= 1 << place % 8
        copy = tmp_path / str(number)
        copy.mkdir()
        for name, whole in {**files, damaged_file: content}.items():
            (copy / name).write_bytes(whole)
        try:
            damaged = ScoreStore(copy)
            series = damaged.series(**KEY)
            known = [name for name in expected if name not in series.missing(expected)]
            assert list(series.records(known)) == [expected[name] for name in known]
            lost += len(known) < len(expected)
            for key, records in damaged.contents().items():
                assert key == series.header and records.items() <= expected.items()
        except BadInput:
            refused += 1
    assert refused + lost > 10 and (log or refused < 1000)  # SQLite stops at the first wrong page of a log


def test_a_changed_record_is_named(tmp_path):
    store = written(tmp_path, 12)
    store.query("UPDATE records SET record = replace(record, '0.1428', '0.1429')")
    with pytest.raises(BadInput, match=r"the score of 'image-1' in .* is damaged; remove the file to compute again"):
        list(store.series(**KEY).records(RECORDS))


@pytest.mark.parametrize("column", ["input", "series"])
def test_a_record_of_another_input_or_series_is_refused(tmp_path, column):
    """Two records that have changed places have valid content, but not the checksum of their place."""
    store = written(tmp_path, 12)
    other = store.series(**{**KEY, "seed": 1})
    other.append({"image-0": 5})
    if column == "input":
        store.query("UPDATE records SET input = '\"image-99\"' WHERE input = '\"image-3\"'")
        series, name = store.series(**KEY), "image-99"
    else:
        store.query("DELETE FROM records WHERE input = '\"image-0\"' AND series != ?", (other.name,))
        store.query("UPDATE records SET series = ? WHERE series = ?", (store.series(**KEY).name, other.name))
        series, name = store.series(**KEY), "image-0"
    with pytest.raises(BadInput, match=f"the score of '{name}' in .* is damaged"):
        series[name]


@pytest.mark.parametrize("value", ["7", "x'5b5d'", "CAST(record AS BLOB)"])
def test_a_record_of_another_type_is_refused(tmp_path, value):
    store = written(tmp_path, 12)
    store.query(f"UPDATE records SET record = {value}")
    with pytest.raises(BadInput, match=r"the score of 'image-0' in .* is damaged"):
        store.series(**KEY)["image-0"]


def test_a_batch_is_written_whole_or_not_at_all(tmp_path):
    store = ScoreStore(tmp_path)
    series = store.series(**KEY)
    with pytest.raises(BadInput, match="cannot write scores to"):
        store.insert(series, {"a": "1", "b": object()})
    assert len(series) == 0 and store.contents() == {}
    series.append({"b": 2})
    assert store.contents() == {series.header: {"b": 2}}


def test_a_transaction_reaches_the_disk(tmp_path):
    store = written(tmp_path, 12)
    assert store.query("PRAGMA journal_mode") == [("wal",)] and store.query("PRAGMA synchronous") == [(1,)]


def test_files_that_cannot_be_read_or_written_are_named(tmp_path):
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / FILE).write_text("no database " * 100)
    with pytest.raises(BadInput, match=r"cannot read scores from .*text/scores.sqlite: file is not a database"):
        len(ScoreStore(tmp_path / "text").series(**KEY))
    (tmp_path / "file").write_text("x")
    with pytest.raises(BadInput, match="cannot write scores to"):
        ScoreStore(tmp_path / "file").series(**KEY).append({"a": 1})
    os.makedirs(tmp_path / "folder" / FILE)
    with pytest.raises(BadInput, match="cannot read scores from"):
        len(ScoreStore(tmp_path / "folder").series(**KEY))


@pytest.mark.parametrize("ending", ["", "-journal", "-wal", "-shm"])
def test_a_pipe_in_place_of_a_file_of_the_database_is_refused(tmp_path, ending):
    if ending:
        written(tmp_path, 12)
    (tmp_path / f"{FILE}{ending}").unlink(missing_ok=True)
    os.mkfifo(tmp_path / f"{FILE}{ending}")
    with pytest.raises(BadInput, match=f"cannot read scores from .*: {FILE}{ending} is not a regular file"):
        len(ScoreStore(tmp_path).series(**KEY))


def test_memory_does_not_hold_the_records(tmp_path):
    """Twenty series of the same 500 inputs, 2 kB each: 20 MB on disk."""
    store = ScoreStore(tmp_path)
    names = [f"{number} 0123456789abcdef" for number in range(500)]
    for method in range(20):
        store.series(method=method).append(dict.fromkeys(names, "0.123456789 " * 170))
    tracemalloc.start()
    opened = [store.series(method=method) for method in range(20)]
    assert sum(len(record) for one in opened for record in one.records(names)) == 20 * 500 * 2040
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 4_000_000
