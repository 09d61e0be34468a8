"""Run the pipeline in this process, in worker processes of this machine, or on the runner that Beam's options name."""

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
from collections.abc import Callable, Iterator, Sequence
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
        Number of processes on this machine, if no option names a runner.
    options
        Of Beam. ``--runner`` among them replaces this machine.

    Raises
    ------
    BadInput
        If the system ended a worker process, or Beam does not accept the options.
    """
    from attribution_benchmarks.beam import pipeline

    logging.getLogger("apache_beam").setLevel(logging.ERROR)
    steps = pipeline_of(workers, options)
    pipeline.build(steps, plan, job)
    if workers > 1 and not _names_a_runner(options):
        _run_with_processes(lambda: steps.run().wait_until_finish())
    else:
        steps.run().wait_until_finish()


def pipeline_of(workers: int, options: Sequence[str]) -> Any:
    """Return an empty pipeline.

    Raises
    ------
    BadInput
        If Beam does not accept the options.
    """
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    try:
        if _names_a_runner(options):
            return beam.Pipeline(options=PipelineOptions(list(options)))
        settings = PipelineOptions([*options, f"--direct_num_workers={workers}"])
        return beam.Pipeline(runner=_local_runner(workers), options=settings)
    except (ValueError, SystemExit) as error:
        raise BadInput(f"Beam does not accept the options after --: {error}") from error


def _names_a_runner(options: Sequence[str]) -> bool:
    return any(option.split("=")[0] == "--runner" for option in options)


def _local_runner(workers: int) -> Any:
    """Return Beam's runner in Python; its default may download one."""
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    from apache_beam.transforms import environments

    if workers == 1:
        return FnApiRunner()
    # "exec", so that the worker is a child of this process and not of a shell.
    command = f"exec {shlex.quote(sys.executable)} -m {worker.__name__}"
    return FnApiRunner(environments.SubprocessSDKEnvironment.from_command_string(command))


def _run_with_processes(run: Callable[[], object]) -> None:
    """Run a pipeline with worker processes. Beam alone would wait for ever if one of them dies."""
    ended = threading.Event()
    errors: list[BaseException] = []
    # Errors in a worker are returned otherwise; a closed channel to it needs no message.
    logging.getLogger("apache_beam.runners.worker.data_plane").setLevel(logging.CRITICAL)

    def run_pipeline() -> None:
        try:
            run()
        except BaseException as error:
            errors.append(error)
        ended.set()

    def on_thread_error(arguments: threading.ExceptHookArgs) -> None:
        if arguments.thread is not None and arguments.thread.name == "run_worker":
            logging.getLogger("apache_beam").setLevel(logging.CRITICAL)
            errors.append(
                BadInput(
                    "the system ended a worker process, perhaps for lack of memory; run the same command again with "
                    "fewer --workers"
                )
            )
            ended.set()

    with _registered_workers() as workers:
        before, threading.excepthook = threading.excepthook, on_thread_error
        try:
            threading.Thread(target=run_pipeline, name="pipeline", daemon=True).start()
            ended.wait()
        finally:
            if errors or not ended.is_set():
                for process in workers():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process, signal.SIGKILL)
            threading.excepthook = _ignoring(threading.enumerate(), before) if errors else before
    if errors:
        raise errors[0]


def _ignoring(threads: Sequence[threading.Thread], hook: Callable) -> Callable:
    """Return an exception hook that ignores some threads: those that read from a killed process fail a little later."""
    ignored = weakref.WeakSet(threads)

    def filtered(arguments: threading.ExceptHookArgs) -> None:
        if arguments.thread not in ignored:
            hook(arguments)

    return filtered


@contextlib.contextmanager
def _registered_workers() -> Iterator[Callable[[], list[int]]]:
    """Yield a function that returns the process ids of the workers that are started meanwhile."""
    with tempfile.TemporaryDirectory() as directory:
        modules = os.pathsep.join(path or os.getcwd() for path in sys.path)  # a worker finds the same modules
        changed = {worker.PARENT: str(os.getpid()), worker.WORKERS: directory, "PYTHONPATH": modules}
        before = {name: os.environ.get(name) for name in changed}
        os.environ.update(changed)
        try:
            yield lambda: [int(path.name) for path in pathlib.Path(directory).iterdir()]
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
