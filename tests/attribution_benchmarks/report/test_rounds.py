"""Tasks side by side: as many as asked, the longest first, results in order, and the first failure ends the rest."""

import threading

import pytest

from attribution_benchmarks.report import rounds
from attribution_benchmarks.report.rounds import Progress


def chains(*rounds_and_costs):
    """Return a chain for each list of (round, cost); a task is the place of its chain and its round."""
    return [[(number, cost, (place, number)) for number, cost in one] for place, one in enumerate(rounds_and_costs)]


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_the_first_round_begins_with_the_cheapest_later_ones_with_the_longest_and_no_more_run_than_requested(jobs):
    begun, running, most, lock = [], 0, 0, threading.Lock()

    def work(task):
        nonlocal running, most
        with lock:
            begun.append(task)
            running += 1
            most = max(most, running)
        threading.Event().wait(0.02)
        with lock:
            running -= 1
        return task

    queue = chains([(0, 2), (1, 1)], [(0, 5), (1, 9)], [(0, 1)], [(1, 3)])
    found = list(rounds.run_chains(work, queue, jobs, pytest.fail))
    assert sorted(found) == [
        (place, (place, number)) for place, number in [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (3, 1)]
    ]
    assert most <= jobs and (most > 1 or jobs == 1)
    assert begun.index((0, 0)) < begun.index((0, 1)) and begun.index((1, 0)) < begun.index((1, 1))
    if jobs == 1:
        # The longest, (1, 1), waits until the result of (1, 0) is taken.
        assert begun == [(2, 0), (0, 0), (1, 0), (3, 1), (1, 1), (0, 1)]


def test_a_chain_waits_for_its_own_task_and_a_result_is_there_as_soon_as_it_is_finished():
    last = threading.Event()
    queue = chains([(0, 1), (1, 1)], [(0, 9)])
    results = rounds.run_chains(lambda task: task if task[0] == 0 else last.wait(20), queue, 2, last.set)
    assert [next(results), next(results)] == [(0, (0, 0)), (0, (0, 1))]
    last.set()
    assert list(results) == [(1, True)]


@pytest.mark.parametrize("error", [ValueError("second"), KeyboardInterrupt()])
def test_a_failure_is_raised_at_once_and_stops_the_others(error):
    stopped, begun = threading.Event(), []

    def work(task):
        begun.append(task[0])
        if task[0] == 1:
            raise error
        assert stopped.wait(20)  # as commands that are ended

    with pytest.raises(type(error)):
        list(rounds.run_chains(work, chains([(0, 1)], [(0, 2)], [(0, 3)]), 3, stopped.set))
    assert stopped.is_set() and set(begun) >= {0, 1}


def test_as_many_run_as_cores_and_memory_allow(monkeypatch):
    monkeypatch.setattr(rounds, "available_cores", lambda: 8)
    for free, units, jobs in ((None, 6, 6), (64 << 30, 6, 6), (64 << 30, 20, 8), (7 << 30, 6, 3), (1 << 20, 6, 1)):
        monkeypatch.setattr(rounds, "available_memory", lambda free=free: free)
        assert rounds.default_jobs(units) == jobs


def test_the_time_to_go_follows_the_costs_first_and_then_the_clock(monkeypatch):
    now = 0.0
    monkeypatch.setattr(rounds.time, "monotonic", lambda: now)
    progress = Progress([100.0, 300.0], 2)
    assert progress.to_go() == "3 minutes to go"  # 400 CPU seconds on two cores
    progress.start("first", "First", 100.0)
    now = 940.0  # much slower than its cost said
    progress.finish("first", "First", "done")
    assert progress.to_go() == f"{300 / ((100 + 120) / 1000) / 60:.0f} minutes to go"
    progress.start("second", "Second", 300.0)
    now += 250.0
    assert progress.to_go().endswith("minutes to go")
    progress.finish("second", "Second", "done")
    assert progress.to_go() == "0 s to go"
