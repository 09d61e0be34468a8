"""Fixed blocks of whole batches, whatever the number of workers; what lacks nothing is not planned."""

import dataclasses

import pytest

from attribution.errors import BadInput
from attribution_benchmarks.beam.plan import BATCHES, block_size_of, fingerprint, tasks_of
from attribution_benchmarks.beam.work import Lacking, Task


@dataclasses.dataclass
class Letters:
    items: str = "abcdefghij"
    done: str = ""
    key: str = "k"
    name: str = "letters"
    rows: int = 2

    def lacking(self, items):
        return None if set(items) <= set(self.done) else Lacking(list(items), {})


def places(tasks):
    return [(task.place, "".join(task.items)) for task in tasks]


def test_blocks_are_fixed_and_keep_their_places():
    assert places(tasks_of([Letters()], 4)) == [(0, "abcd"), (1, "efgh"), (2, "ij")]
    assert places(tasks_of([Letters(done="abcdej")], 4)) == [(1, "efgh"), (2, "ij")]
    assert places(tasks_of([Letters(done="abcdefghij"), Letters("xyz")], 4)) == [(3, "xyz")]
    assert len(list(tasks_of([Letters("a" * 40)], 0))) == -(-40 // (2 * BATCHES))


def test_a_block_is_of_whole_batches():
    with pytest.raises(BadInput, match=r"--block_size=5 is no multiple of --batch_size=2; .* such as 4"):
        block_size_of(Letters(), 5)


def test_a_file_is_named_by_all_that_its_results_depend_on():
    task, *_ = tasks_of([Letters()], 4)
    assert Task.from_line(task.to_line()) == task
    others = [
        dataclasses.replace(task, **changed)
        for changed in ({"key": "l"}, {"names": "x"}, {"held": {"a": [1]}}, {"items": list("abce")}, {"work": "w"})
    ]
    assert len({one.file for one in [task, *others]}) == 6
    assert dataclasses.replace(task, place=7).digest == task.digest


def test_the_fingerprint_follows_code_and_size_of_blocks():
    one = fingerprint("door", [Letters()], 4)
    assert one == fingerprint("door", [Letters("ab")], 4)  # the inputs are in the files' names
    assert len({one, fingerprint("door", [Letters(key="l")], 4), fingerprint("door", [Letters()], 2),
                fingerprint("window", [Letters()], 4), fingerprint("door", [Letters(rows=4)], 4)}) == 5  # fmt: skip
