"""Tasks side by side: as many as asked, the longest first, results in order, and the first failure ends the rest."""

import threading

import pytest

from attribution_benchmarks.report import scheduler
from attribution_benchmarks.report.scheduler import Progress


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_results_come_in_order_the_longest_begin_first_and_no_more_run_than_asked(jobs):
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
        return task * 10

    found = list(scheduler.run_in_order(work, [0, 1, 2, 3, 4], [1, 5, 2, 4, 3], jobs, pytest.fail))
    assert found == [0, 10, 20, 30, 40] and most <= jobs
    assert most > 1 or jobs == 1
    if jobs == 1:
        assert begun == [1, 3, 4, 2, 0]


def test_a_result_is_there_as_soon_as_it_and_those_before_it_are():
    last = threading.Event()
    results = scheduler.run_in_order(
        lambda task: task if task < 2 else last.wait(20), [0, 1, 2], [1, 1, 9], 3, last.set
    )
    assert [next(results), next(results)] == [0, 1]
    last.set()
    assert list(results) == [True]


@pytest.mark.parametrize("error", [ValueError("second"), KeyboardInterrupt()])
def test_a_failure_is_raised_at_once_and_stops_the_others(error):
    stopped, begun = threading.Event(), []

    def work(task):
        begun.append(task)
        if task == 1:
            raise error
        assert stopped.wait(20)  # as commands that are ended

    with pytest.raises(type(error)):
        list(scheduler.run_in_order(work, [0, 1, 2], [3, 2, 1], 2, stopped.set))
    assert stopped.is_set() and set(begun) >= {0, 1}


def test_as_many_run_as_cores_and_memory_allow(monkeypatch):
    monkeypatch.setattr(scheduler, "available_cores", lambda: 8)
    for free, units, jobs in ((None, 6, 6), (64 << 30, 6, 6), (64 << 30, 20, 8), (7 << 30, 6, 3), (1 << 20, 6, 1)):
        monkeypatch.setattr(scheduler, "available_memory", lambda free=free: free)
        assert scheduler.default_jobs(units) == jobs


def test_lines_of_concurrent_tasks_have_their_name_and_bars_are_shown_on_terminals_only(capsys):
    progress = Progress(3, 2)
    progress.start(1, "svea", "SVEA")
    progress.on_stderr("svea", b"\rsignals:  10%|#    | 500/5000 [00:01<00:09]")
    progress.start(2, "bim", "BIM")
    progress.on_stderr("bim", b"waiting for ano")
    progress.on_stderr("svea", b"\rsignals: 100%|#####| 5000/5000 [00:01<00:00]\nfigure: a.png\n")
    progress.on_stderr("bim", b"ther process\n")
    progress.finish(1, "svea", "SVEA", "done")
    lines = capsys.readouterr().err.splitlines()
    assert lines[:4] == ["[1/3] SVEA", "[2/3] BIM", "svea: figure: a.png", "bim: waiting for another process"]
    assert lines[4].startswith("[1/3] SVEA done after ") and len(lines) == 5


def test_a_status_line_on_a_terminal_shows_the_progress_of_all_tasks(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    progress = Progress(2, 2)
    progress._status.mininterval = 0
    progress.start(1, "svea", "SVEA")
    progress.start(2, "bim", "BIM")
    progress.on_stderr("bim", b"\rimages:  40%|##   | 4/10 [00:01<00:09]")
    assert capsys.readouterr().err.endswith("\rsvea, bim 40 %")
    progress.finish(1, "svea", "SVEA", "done")
    assert "[1/2] SVEA done" in capsys.readouterr().err
    progress.close()
