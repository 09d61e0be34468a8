"""Block files are whole or not there, on file systems that rename and on stores that do not."""

import concurrent.futures
import dataclasses

import pytest

pytest.importorskip("apache_beam")
from attribution_benchmarks.beam import file_systems, shards
from attribution_benchmarks.beam.shards import BlockFile, Damaged
from attribution_benchmarks.beam.work import Task

TASK = Task(3, "work", "key", [1, 2], "names", {})
BLOCK = BlockFile({"b": {"z": "1.5 2", "a": [1, 0.1]}, "a": {"é": None}}, {"inputs": 2})


def test_results_come_back_in_their_order(tmp_path):
    assert shards.read_block(str(tmp_path), TASK) is None
    shards.write_block(str(tmp_path), TASK, BLOCK)
    found = shards.read_block(str(tmp_path), TASK)
    assert found == BLOCK and list(found.results) == ["b", "a"] and list(found.results["b"]) == ["z", "a"]
    assert file_systems.there(str(tmp_path)) == {TASK.file}


def test_every_changed_byte_and_every_cut_is_found(tmp_path):
    shards.write_block(str(tmp_path), TASK, BLOCK)
    path = tmp_path / TASK.file
    whole = path.read_bytes()
    for place in range(len(whole) - 1):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(Damaged):
            shards.read_block(str(tmp_path), TASK)
        path.write_bytes(whole[:place])
        with pytest.raises(Damaged):
            shards.read_block(str(tmp_path), TASK)


def test_a_file_of_another_block_is_none_of_this(tmp_path):
    other = dataclasses.replace(TASK, key="other")
    shards.write_block(str(tmp_path), other, BLOCK)
    (tmp_path / other.file).rename(tmp_path / TASK.file)
    with pytest.raises(Damaged, match="another block"):
        shards.read_block(str(tmp_path), TASK)


def test_many_writers_of_one_block_leave_one_whole_file(tmp_path):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda _: shards.write_block(str(tmp_path), TASK, BLOCK), range(64)))
    assert shards.read_block(str(tmp_path), TASK) == BLOCK
    assert [path.name for path in tmp_path.iterdir()] == [TASK.file]


def test_a_failure_is_told_apart(tmp_path):
    assert shards.read_failure(str(tmp_path), TASK) is None
    shards.write_failure(str(tmp_path), TASK, "no reason", ["1", "2"])
    assert shards.read_failure(str(tmp_path), TASK) == {"reason": "no reason", "inputs": ["1", "2"]}
    assert shards.read_block(str(tmp_path), TASK) is None


def test_an_object_store_gets_one_put_and_no_renaming(object_store):
    shards.write_block("toy://bucket/blocks", TASK, BLOCK)
    assert shards.read_block("toy://bucket/blocks", TASK) == BLOCK
    assert file_systems.there("toy://bucket/blocks") == {TASK.file}
    assert object_store.created == [f"toy://bucket/blocks/{TASK.file}"]
    file_systems.remove("toy://bucket/blocks", [TASK.file])
    assert file_systems.there("toy://bucket/blocks") == set()
