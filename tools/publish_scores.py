"""Compute the published scores of attribution_benchmarks/published/sets.toml.

    python -m tools.publish_scores CHECKPOINTS [TASK ...]

The folder CHECKPOINTS keeps the scores of each network, so that a stopped run resumes, and several processes can share
the work. A set's file is written when all of its networks are there.

Cost: about one CPU hour.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import subprocess
import sys

from attribution.tensorflow_log import quiet_tensorflow
from attribution_benchmarks.core.definition import ReportTask
from attribution_benchmarks.core.evaluation import evaluated, load, prepare
from attribution_benchmarks.core.registry import benchmark_named
from attribution_benchmarks.core.scores import Scores
from attribution_benchmarks.core.store import ScoreStore
from attribution_benchmarks.report import published

TOP = pathlib.Path(__file__).resolve().parents[1]


def scores_of(task: ReportTask, folder: pathlib.Path) -> Scores:
    """Return the scores of a task on one network, from the folder if they are there."""
    path = folder / f"{task.name}.json"
    if not path.exists():
        print(task.title, flush=True)
        benchmark = benchmark_named(task.place)
        with contextlib.closing(ScoreStore(str(folder / "store"))) as store:
            run = prepare(benchmark, task.methods, task.settings, metrics=task.metrics, store=store, place=task.place)
            found = evaluated(load(run))
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=TOP, capture_output=True, text=True).stdout.strip()
        about = {**found.manifest, "commit": commit, "processor": published.processor()}
        dataclasses.replace(found, manifest=about).save(path)
    return Scores.load(path)


def main(folder: str, *tasks: str) -> None:
    """Compute some sets, or all."""
    quiet_tensorflow()
    for one in published.sets(complete=False):
        if one.task in tasks or not tasks:
            parts = [scores_of(task, pathlib.Path(folder)) for task in one.tasks]
            published.publish(one, parts)


if __name__ == "__main__":
    main(*sys.argv[1:])
