"""Kill a run on Beam at random moments until it ends, and compare its bytes with a run that nobody disturbed.

    python tests/faults/killed_blocks.py --kills=50
    python tests/faults/killed_blocks.py --kills=10 --workers=2 -- -m svea.benchmark --methods=gradient --batch_size=500
    python tests/faults/killed_blocks.py --data=data_dir --block_size=8 -- scripts/construct_bim_dataset.py --drawn \
        --num_train=2 --num_val=2

What is killed, always with signal 9: all processes of the run, its first process alone, or one of its workers.
"""

from __future__ import annotations

import argparse
import collections
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from attribution_benchmarks.core.store import ScoreStore

COMMAND = ["-m", "attribution_benchmarks.exact.evaluate", "--methods=gradient,rise", "--num_imgs=45", "--batch_size=4"]
WRITTEN = {"scores_dir": "scores", "output": "out.json", "input_scores": "inputs.json"}


def run(command: list[str], folder: pathlib.Path, data: str) -> subprocess.Popen:
    """Start a command in a group of its own, its standard output in a file."""
    flags = {data: "data"} if data else WRITTEN
    written = [f"--{flag}={folder / name}" for flag, name in flags.items()]
    place = {**os.environ, "ATTRIBUTION_BENCHMARKS_CACHE": str(folder / "cache")} if data else None
    with open(folder / "printed", "wb") as out, open(folder / "said", "ab") as said:
        return subprocess.Popen(
            [sys.executable, *command, *written], stdout=out, stderr=said, start_new_session=True, env=place
        )  # fmt: skip


def left(folder: pathlib.Path) -> dict[str, object]:
    """Return all that a run leaves, but the block files, which hold times."""
    scores = {"scores": ScoreStore(folder / "scores").contents()}
    if (folder / "data").is_dir():
        files = [path for path in (folder / "data").rglob("*") if path.is_file()]
    else:
        files = [folder / "printed", folder / "out.json", folder / "inputs.json"]
    return scores | {str(path.relative_to(folder)): path.read_bytes() for path in files}


def of_group(group: int) -> list[int]:
    """Return the processes of a group."""
    found = subprocess.run(["ps", "-eo", "pid=,pgid="], capture_output=True, text=True, check=True).stdout
    pairs = (map(int, line.split()) for line in found.splitlines())
    return [process for process, its_group in pairs if its_group == group]


def strike(started: subprocess.Popen, draw: random.Random) -> str:
    """Kill a part of a run and, where that is one worker, wait for what becomes of the rest; say what was killed."""
    what = draw.choice(("all", "all", "the first process", "a worker"))
    if what == "all":
        os.killpg(started.pid, signal.SIGKILL)
    elif what == "the first process":
        started.kill()
    else:
        others = [process for process in of_group(started.pid) if process != started.pid]
        if others:
            os.kill(draw.choice(others), signal.SIGKILL)
    started.wait(timeout=300)
    deadline = time.monotonic() + 10
    while of_group(started.pid):
        if time.monotonic() > deadline:
            raise SystemExit(f"processes live on after {what} was killed: {of_group(started.pid)}")
        time.sleep(0.1)
    return what


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", default="", help="the flag of the directory, of a command that makes data")
    parser.add_argument("--block_size", default="", help="that of --batch_size when empty")
    parser.add_argument("command", nargs="*", help="after --: a command of the house, without what it writes")
    given = parser.parse_args()
    draw = random.Random(given.seed)
    command = given.command or COMMAND
    batch = given.block_size or next(
        (flag.partition("=")[2] for flag in command if flag.startswith("--batch_size=")), None
    )
    with tempfile.TemporaryDirectory() as temporary:
        undisturbed = pathlib.Path(temporary, "undisturbed")
        undisturbed.mkdir()
        if run(command, undisturbed, given.data).wait():
            raise SystemExit((undisturbed / "said").read_text())
        wanted = left(undisturbed)
        struck, ended, seconds = collections.Counter(), 0, 30.0
        folder = pathlib.Path(temporary, "disturbed")
        while sum(struck.values()) < given.kills or ended == 0:
            folder.mkdir(exist_ok=True)
            beam = ["--runner=beam", f"--workers={given.workers}", *([f"--block_size={batch}"] if batch else [])]
            began = time.monotonic()
            started = run([*command, *beam], folder, given.data)
            try:
                started.wait(None if sum(struck.values()) >= given.kills else draw.uniform(0.3, 1) * seconds)
            except subprocess.TimeoutExpired:
                struck[strike(started, draw)] += 1
                continue
            if started.returncode:
                raise SystemExit((folder / "said").read_text())
            seconds = min(seconds, time.monotonic() - began)
            if left(folder) != wanted:
                raise SystemExit(f"other bytes after {dict(struck)}")
            ended += 1
            shutil.rmtree(folder)
        print(f"{ended} runs, killed {sum(struck.values())} times ({dict(struck)}): the same bytes each time")


if __name__ == "__main__":
    main()
