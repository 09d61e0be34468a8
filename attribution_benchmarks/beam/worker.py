"""A worker process on this machine: Beam's, but quiet, and ended by the system when the one that started it ends."""

from __future__ import annotations

import logging
import os
import pathlib
import sys
import threading

PARENT = "ATTRIBUTION_BENCHMARKS_PARENT"  # number of the process that started the worker
KNOWN = "ATTRIBUTION_BENCHMARKS_WORKERS"  # directory where workers leave their numbers


def main() -> None:
    """Take blocks until there are none."""
    from attribution_benchmarks.cli.workers import end_with_the_parent

    end_with_the_parent(int(os.environ[PARENT]))
    (pathlib.Path(os.environ[KNOWN]) / str(os.getpid())).touch()
    logging.getLogger().addHandler(logging.NullHandler())  # else Beam's lines of every start go to standard error
    from apache_beam.runners.worker import sdk_worker_main

    threading.current_thread().name = "worker"
    sdk_worker_main.main(sys.argv)
    os._exit(0)  # every file is written; taking TensorFlow down takes seconds


if __name__ == "__main__":
    main()
