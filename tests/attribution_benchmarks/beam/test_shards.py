"""Shards are complete or missing."""

import concurrent.futures
import dataclasses

import pytest

pytest.importorskip("apache_beam")
from attribution_benchmarks.core import work
from attribution_benchmarks.core.work import DamagedShard, Task

TASK = Task(3, "work", "key", [1, 2], "names", {})
SHARD = {"b": {"z": "1.5 2", "a": [1, 0.1]}, "a": {"é": None}}


def test_results_keep_their_order(tmp_path):
    assert work.read_shard(str(tmp_path), TASK) is None
    work.write_shard(str(tmp_path), TASK, SHARD)
    found = work.read_shard(str(tmp_path), TASK)
    assert found == SHARD and list(found) == ["b", "a"] and list(found["b"]) == ["z", "a"]
    assert [path.name for path in tmp_path.iterdir()] == [TASK.file]


def test_every_changed_byte_and_every_cut_is_detected(tmp_path):
    work.write_shard(str(tmp_path), TASK, SHARD)
    path = tmp_path / TASK.file
    whole = path.read_bytes()
    for place in range(len(whole) - 1):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(DamagedShard):
            work.read_shard(str(tmp_path), TASK)
        path.write_bytes(whole[:place])
        with pytest.raises(DamagedShard):
            work.read_shard(str(tmp_path), TASK)


def test_the_shard_of_another_block_is_an_error(tmp_path):
    other = dataclasses.replace(TASK, key="other")
    work.write_shard(str(tmp_path), other, SHARD)
    (tmp_path / other.file).rename(tmp_path / TASK.file)
    with pytest.raises(DamagedShard, match="another block"):
        work.read_shard(str(tmp_path), TASK)


def test_many_writers_of_one_block_leave_one_complete_shard(tmp_path):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda _: work.write_shard(str(tmp_path), TASK, SHARD), range(64)))
    assert work.read_shard(str(tmp_path), TASK) == SHARD
    assert [path.name for path in tmp_path.iterdir()] == [TASK.file]


def test_a_failure_is_not_a_shard(tmp_path):
    assert work.read_failure(str(tmp_path), TASK) is None
    work.write_failure(str(tmp_path), TASK, "no reason")
    assert work.read_failure(str(tmp_path), TASK) == "no reason"
    assert work.read_shard(str(tmp_path), TASK) is None
