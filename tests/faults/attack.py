"""Kill the commands at random moments, start several at once, fill their disks; then look at what is left.

    python tests/faults/attack.py --kills=200 --races=50 --disks=50 --seed=0

Every run that follows a disturbance must end with exit code 0 and the bytes of a run that was never disturbed. A run
on a full or read-only disk must end with exit code 2 and one line, or with 0. Bad and hostile inputs are tried by
``tests/faults/test_bad_inputs.py``. Figures go to standard output, failures to standard error; exit code 1 with any.
"""

from __future__ import annotations

import argparse
import math
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence

import targets

SIGNALS = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
KINDS = {"kills": 200, "races": 50, "disks": 50, "small_disks": 20}  # and how many of each by default
LONGEST = 300  # seconds that a run may take


class Attack:
    """Undisturbed runs, and what becomes of disturbed ones.

    Parameters
    ----------
    directory
        Where all runs write.
    names
        Of targets.
    seed
        Of every choice.
    """

    def __init__(self, directory: pathlib.Path, names, seed: int):
        self.directory, self.names, self.random = directory, names, random.Random(seed)
        self.failures: list[str] = []
        self.counts: dict[str, dict[str, int]] = {}
        self.data = directory / "set"
        arguments = [*targets.CONSTRUCT, f"--data_dir={self.data}"]
        subprocess.run([sys.executable, *arguments], cwd=targets.ROOT, env=targets.environment(directory / "cache"),
                       check=True, capture_output=True)  # fmt: skip
        self.whole, self.seconds = {}, {}
        for name in names:
            out = self._fresh(name)
            begun = time.monotonic()
            code, said = self._finish(targets.started(name, out, self.data))
            self.seconds[name] = time.monotonic() - begun
            if code:
                sys.exit(f"{name}: an undisturbed run ended with {code}: {said[-500:]}")
            self.whole[name] = targets.content(out)
            shutil.rmtree(out)

    def kills(self, name: str) -> None:
        """Kill a run, perhaps twice, and let the next one end."""
        out, ended = self._fresh(name), False
        for _ in range(self.random.choice((1, 1, 2))):
            process = targets.started(name, out, self.data)
            number_ = self.random.choice(SIGNALS)
            group = self.random.random() < 0.5
            try:
                process.wait(timeout=self.random.uniform(0.02, 1.0) * self.seconds[name])
                ended = True
            except subprocess.TimeoutExpired:
                if group:
                    self._signal_all(process, number_)
                else:
                    process.send_signal(number_)
            code, said = self._finish(process)
            if code not in (0, -number_, 130 if number_ == signal.SIGINT else -number_):
                self._fail("kills", f"{name}: ended with {code} after {number_.name}: {said[-300:]}")
        self._again("kills", name, out)
        self._count("kills", name, "too late" if ended else "killed")

    def races(self, name: str) -> None:
        """Start two or eight at once on the same fresh directory."""
        out = self._fresh(name)
        together = self.random.choice((2, 2, 2, 8))
        running = []
        for _ in range(together):
            running.append(targets.started(name, out, self.data))
            time.sleep(self.random.choice((0, 0, 0.3)))
        for process in running:
            code, said = self._finish(process, LONGEST * together / 2)
            if code:
                self._fail("races", f"{name}: one of {together} ended with {code}: {said[-300:]}")
        self._again("races", name, out)
        self._count("races", name, f"{together} at once")

    def disks(self, name: str) -> None:
        """Let a run meet the end of the disk: no file may grow beyond a few pages."""
        out = self._fresh(name)
        size = 4096 * self.random.randint(0, 40)
        process = targets.started(name, out, self.data, preexec_fn=lambda size=size: _limit(size))
        code, said = self._finish(process)
        lines = [line for line in said.replace("\r", "\n").splitlines() if line.strip()]
        if code not in (0, 2) or "Traceback" in said or (code == 2 and not lines[-1].startswith("error: ")):
            self._fail("disks", f"{name}: {code} with files of at most {size} bytes: {said[-300:]}")
        self._again("disks", name, out)
        self._count("disks", name, f"exit {code}")

    def small_disks(self, name: str) -> None:
        """The same on a small file system of its own, for which root is needed; nothing happens without."""
        mount = self.directory / "disk"
        mount.mkdir(exist_ok=True)
        size = self.random.randint(60, 4000)
        kind = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(mount)]
        if subprocess.run(kind, capture_output=True).returncode:
            return
        try:
            out = mount / "out"
            out.mkdir()
            if targets.TARGETS[name].begins_with_data:
                copied = subprocess.run(["cp", "-r", f"{self.data}/.", str(out)], capture_output=True)
                if copied.returncode:  # not even the data fit
                    return
            code, said = self._finish(targets.started(name, out, self.data))
            lines = [line for line in said.replace("\r", "\n").splitlines() if line.strip()]
            if code not in (0, 2) or "Traceback" in said or (code == 2 and not lines[-1].startswith("error: ")):
                self._fail("small disks", f"{name}: {code} on {size} kB: {said[-300:]}")
            if list(out.rglob("*.unfinished")):
                self._fail("small disks", f"{name}: left {next(out.rglob('*.unfinished')).name}")
            subprocess.run(["mount", "-o", "remount,size=1g", str(mount)], check=True)
            self._again("small disks", name, out)
            self._count("small disks", name, f"exit {code}")
        finally:
            subprocess.run(["umount", "-l", str(mount)], check=False)

    def _again(self, kind: str, name: str, out: pathlib.Path) -> None:
        """Run a target to its end and compare what is there with an undisturbed run."""
        code, said = self._finish(targets.started(name, out, self.data))
        if code:
            self._fail(kind, f"{name}: the run afterwards ended with {code}: {said[-300:]}")
        elif (found := targets.content(out)) != self.whole[name]:
            other = {path for path in {*found, *self.whole[name]} if found.get(path) != self.whole[name].get(path)}
            self._fail(kind, f"{name}: {len(other)} files are others than in an undisturbed run: {sorted(other)[:4]}")
        shutil.rmtree(out, ignore_errors=True)

    def _fresh(self, name: str) -> pathlib.Path:
        out = pathlib.Path(tempfile.mkdtemp(dir=self.directory)) / "out"
        if targets.TARGETS[name].begins_with_data:
            shutil.copytree(self.data, out)
        else:
            out.mkdir()
        return out

    def _finish(self, process: subprocess.Popen, seconds: float = LONGEST) -> tuple[int, str]:
        """Return how a process ended and what it said."""
        try:
            said = process.communicate(timeout=seconds)[1]
        except subprocess.TimeoutExpired:
            self._signal_all(process, signal.SIGKILL)
            process.communicate()
            return -99, f"no end within {seconds:g} s"
        return process.returncode, said

    def _signal_all(self, process: subprocess.Popen, number: int) -> None:
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return

    def _count(self, kind: str, name: str, what: str) -> None:
        counts = self.counts.setdefault(f"{kind}, {name}", {})
        counts[what] = counts.get(what, 0) + 1

    def _fail(self, kind: str, what: str) -> None:
        self.failures.append(f"{kind}: {what}")
        print(f"FAILED {kind}: {what}", file=sys.stderr, flush=True)


def _limit(size: int) -> None:
    """Let this process write no file beyond so many bytes, and be told so instead of ended."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def main() -> int:
    """Attack, report, and return 1 with any failure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for kind, default in (*KINDS.items(), ("seed", 0)):
        parser.add_argument(f"--{kind}", type=int, default=default)
    parser.add_argument("--targets", default=",".join(targets.TARGETS), help="of " + ", ".join(targets.TARGETS))
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no further attack after so long")
    given = parser.parse_args()
    end = time.monotonic() + 60 * given.minutes
    planned = planned_attacks({kind: getattr(given, kind) for kind in KINDS}, given.targets.split(","))
    with tempfile.TemporaryDirectory(prefix="faults_") as directory:
        attack, begun = Attack(pathlib.Path(directory), given.targets.split(","), given.seed), 0
        for kind, name in planned:
            if time.monotonic() > end:
                break
            getattr(attack, kind)(name)
            begun += 1
    for what, counts in sorted(attack.counts.items()):
        print(f"{what}: " + ", ".join(f"{number} {how}" for how, number in sorted(counts.items())))
    print(f"{begun} of {len(planned)} attacks, {len(attack.failures)} failures")
    return 1 if attack.failures else 0


def planned_attacks(numbers: Mapping[str, int], names: Sequence[str]) -> list[tuple[str, str]]:
    """Return kinds of attacks and their targets, the kinds mixed evenly, so that a run cut short has tried all."""
    places = sorted((place / number, kind, place) for kind, number in numbers.items() for place in range(number))
    return [(kind, names[place % len(names)]) for _, kind, place in places]


if __name__ == "__main__":
    sys.exit(main())
