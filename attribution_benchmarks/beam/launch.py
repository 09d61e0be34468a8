"""Who runs the pipeline: this process, worker processes on this machine, or whatever runner Beam's options name."""

from __future__ import annotations

import contextlib
import logging
import os
import pathlib
import shlex
import signal
import sys
import tempfile
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from attribution.errors import BadInput
from attribution_benchmarks.beam import worker
from attribution_benchmarks.beam.work import Job


def launch(plan: str, job: Job, workers: int, options: Sequence[str]) -> None:
    """Run the pipeline to its end.

    Parameters
    ----------
    plan, job
        As for ``pipeline.build``.
    workers
        Processes on this machine, where no option names a runner.
    options
        Of Beam; a ``--runner`` among them takes the place of this machine.

    Raises
    ------
    BadInput
        If the system ended a worker process, or the options are none of Beam's.
    """
    from attribution_benchmarks.beam import pipeline

    logging.getLogger("apache_beam").setLevel(logging.ERROR)
    steps = pipeline_of(workers, options)
    pipeline.build(steps, plan, job)
    if workers > 1 and not _names_a_runner(options):
        _with_processes(lambda: steps.run().wait_until_finish())
    else:
        steps.run().wait_until_finish()


def pipeline_of(workers: int, options: Sequence[str]) -> Any:
    """Return an empty pipeline.

    Raises
    ------
    BadInput
        If the options are none of Beam's.
    """
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    try:
        if _names_a_runner(options):
            return beam.Pipeline(options=PipelineOptions(list(options)))
        settings = PipelineOptions([*options, f"--direct_num_workers={workers}"])
        return beam.Pipeline(runner=_runner(workers), options=settings)
    except (ValueError, SystemExit) as error:
        raise BadInput(f"Beam does not take the options after --: {error}") from error


def _names_a_runner(options: Sequence[str]) -> bool:
    return any(option.split("=")[0] == "--runner" for option in options)


def _runner(workers: int):
    """Return Beam's own runner, never the one that it would download."""
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    from apache_beam.transforms import environments

    if workers == 1:
        return FnApiRunner()
    # "exec", so that no shell stands between this process and the worker.
    command = f"exec {shlex.quote(sys.executable)} -m {worker.__name__}"
    return FnApiRunner(environments.SubprocessSDKEnvironment.from_command_string(command))


def _with_processes(run) -> None:
    """Run a pipeline whose workers are processes; where one of them dies, Beam itself would wait for ever."""
    ended, problems = threading.Event(), []
    # What goes wrong in a worker comes back otherwise; that its channel was closed is no news.
    logging.getLogger("apache_beam.runners.worker.data_plane").setLevel(logging.CRITICAL)

    def running() -> None:
        try:
            run()
        except BaseException as error:
            problems.append(error)
        ended.set()

    def died(told) -> None:
        if told.thread is not None and told.thread.name == "run_worker":
            logging.getLogger("apache_beam").setLevel(logging.CRITICAL)
            problems.append(_DIED)
            ended.set()

    with _known_workers() as workers:
        before, threading.excepthook = threading.excepthook, died
        try:
            threading.Thread(target=running, name="pipeline", daemon=True).start()
            ended.wait()
        finally:
            if problems or not ended.is_set():
                for number in workers():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(number, signal.SIGKILL)
            threading.excepthook = _without(threading.enumerate(), before) if problems else before
    if problems:
        raise problems[0]


def _without(threads: Sequence[threading.Thread], hook):
    """Return a hook for all threads but some: those that read from a process that was killed say so a little later."""
    deaf = weakref.WeakSet(threads)

    def heard(told) -> None:
        if told.thread not in deaf:
            hook(told)

    return heard


_DIED = BadInput(
    "the system ended a worker process, perhaps for lack of memory; the same command goes on, with fewer --workers"
)


@contextlib.contextmanager
def _known_workers() -> Iterator:
    """Yield a function that returns the numbers of the worker processes that are started meanwhile."""
    with tempfile.TemporaryDirectory() as directory:
        found_at = os.pathsep.join(path or os.getcwd() for path in sys.path)  # a worker finds what this process does
        told = {worker.PARENT: str(os.getpid()), worker.KNOWN: directory, "PYTHONPATH": found_at}
        before = {name: os.environ.get(name) for name in told}
        os.environ.update(told)
        try:
            yield lambda: [int(path.name) for path in pathlib.Path(directory).iterdir()]
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
