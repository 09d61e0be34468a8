"""A Beam worker process on this machine that is quiet and ends with the process that started it."""

from __future__ import annotations

import logging
import os
import pathlib
import sys
import threading

PARENT = "ATTRIBUTION_BENCHMARKS_PARENT"  # id of the process that started the worker
WORKERS = "ATTRIBUTION_BENCHMARKS_WORKERS"  # directory in which workers register their process ids


def main() -> None:
    """Compute blocks until there are none."""
    from attribution_benchmarks.cli.workers import end_with_parent

    end_with_parent(int(os.environ[PARENT]))
    (pathlib.Path(os.environ[WORKERS]) / str(os.getpid())).touch()
    logging.getLogger().addHandler(logging.NullHandler())  # else Beam logs every start to standard error
    from apache_beam.runners.worker import sdk_worker_main

    threading.current_thread().name = "worker"
    sdk_worker_main.main(sys.argv)
    os._exit(0)  # every file is written; TensorFlow needs seconds to shut down


if __name__ == "__main__":
    main()
