"""Blocks are fixed and of full batches, whatever the number of workers; complete blocks are not planned."""

import dataclasses

import pytest

from attribution.errors import BadInput
from attribution_benchmarks.core.work import BATCHES, MissingWork, _block_size_of, plan_fingerprint, plan_tasks


@dataclasses.dataclass
class Letters:
    items: str = "abcdefghij"
    done: str = ""
    key: str = "k"
    name: str = "letters"
    batch_size: int = 2

    def missing(self, items):
        return None if set(items) <= set(self.done) else MissingWork(list(items), {})


def places(tasks):
    return [(task.place, "".join(task.items)) for task in tasks]


def test_blocks_are_fixed_and_keep_their_places():
    assert places(plan_tasks([Letters()], 4)) == [(0, "abcd"), (1, "efgh"), (2, "ij")]
    assert places(plan_tasks([Letters(done="abcdej")], 4)) == [(1, "efgh"), (2, "ij")]
    assert places(plan_tasks([Letters(done="abcdefghij"), Letters("xyz")], 4)) == [(3, "xyz")]
    assert len(list(plan_tasks([Letters("a" * 40)], 0))) == -(-40 // (2 * BATCHES))


def test_a_block_has_full_batches():
    with pytest.raises(BadInput, match=r"--block_size=5 is not a multiple of --batch_size=2; .* for example 4"):
        _block_size_of(Letters(), 5)


def test_the_name_of_a_shard_depends_on_everything_that_results_depend_on():
    task, *_ = plan_tasks([Letters()], 4)
    others = [
        dataclasses.replace(task, **changed)
        for changed in ({"key": "l"}, {"names": "x"}, {"held": {"a": [1]}}, {"items": list("abce")}, {"work": "w"})
    ]
    assert len({one.file for one in [task, *others]}) == 6
    assert dataclasses.replace(task, place=7).digest == task.digest


def test_the_fingerprint_depends_on_code_and_block_size():
    one = plan_fingerprint("module", [Letters()], 4)
    assert one == plan_fingerprint("module", [Letters("ab")], 4)  # the inputs are in the files' names
    others = [
        plan_fingerprint("module", [Letters(key="l")], 4),
        plan_fingerprint("module", [Letters()], 2),
        plan_fingerprint("other", [Letters()], 4),
        plan_fingerprint("module", [Letters(batch_size=4)], 4),
    ]
    assert len({one, *others}) == 5
