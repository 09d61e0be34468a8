"""Kill the commands at random moments, start several at once, fill and break their disks; then look at what is left.

    python tests/faults/attack.py --kills=200 --races=50 --disks=50 --seed=0

Every run that follows a disturbance must end with exit code 0 and the bytes of a run that was never disturbed. A run
that meets a full disk or missing rights must end with exit code 2 and one line, or with 0. Bad and hostile inputs are
tried by ``tests/faults/test_bad_inputs.py``. Figures go to standard output, also those of a run that is interrupted,
failures to standard error; exit code 1 with any.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
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
KINDS = {
    "kills": 200,
    "races": 50,
    "disks": 50,
    "small_disks": 20,
    "rights": 20,
    "failing": 20,
}  # and how many of each by default
WRITING_CALLS = ("write", "pwrite64", "writev", "fsync", "fdatasync", "rename", "mkdir", "ftruncate", "unlink")
OVERRIDING_RIGHTS = (1, 2)  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, <linux/capability.h>


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
    keep
        Where directories go that are not as they must be; empty for nowhere.
    longest
        Seconds that a run may take.
    """

    def __init__(self, directory: pathlib.Path, names: Sequence[str], seed: int, keep: str, longest: float):
        self.directory, self.names, self.random, self.keep = directory, names, random.Random(seed), keep
        self.longest = longest
        self.failures: list[str] = []
        self.counts: dict[str, dict[str, int]] = {}
        self.data = directory / "set"
        targets.prepare(names, self.data)
        self.whole, self.seconds = {}, {}  # by name
        for name in names:
            out, begun = self._fresh(name), time.monotonic()
            code, said = self._finish(targets.started(name, out, self.data))
            self.seconds[name] = time.monotonic() - begun
            if code:
                sys.exit(f"{name}: an undisturbed run ended with {code}: {said[-500:]}")
            self.whole[name] = targets.content(out, targets.TARGETS[name])
            self._forget(out)

    def kills(self, name: str) -> int:
        """Kill a run, perhaps again and again, and let the next one end; return how many were killed."""
        out, killed = self._fresh(name), 0
        for _ in range(self.random.choice((1, 1, 2, 4))):
            process = targets.started(name, out, self.data)
            number = self.random.choice(SIGNALS)
            group = self.random.random() < 0.5
            try:
                process.wait(timeout=self.random.uniform(0.02, 1.0) * self.seconds[name])
            except subprocess.TimeoutExpired:
                killed += 1
                if checkpoint := targets.TARGETS[name].checkpoint:
                    when = f" {'after' if (out / checkpoint).exists() else 'before'} its first checkpoint"
                self._count("kills", name, number.name + (when if checkpoint else ""))
                if group:
                    self._signal_all(process, number)
                else:
                    process.send_signal(number)
            else:
                self._count("kills", name, "too late")
            code, said = self._finish(process)
            ended = code in (-number, 130 if number == signal.SIGINT else -number)
            if not ended and not targets.TARGETS[name].ends_well(code, said):
                self._fail("kills", f"{name}: ended with {code} after {number.name}: {said[-300:]}")
        self._again("kills", name, out)
        return killed

    def races(self, name: str) -> int:
        """Start two or eight at once on the same fresh directory."""
        out = self._fresh(name)
        together = self.random.choice((2, 2, 2, 8))
        running = []
        for _ in range(together):
            running.append(targets.started(name, out, self.data))
            time.sleep(self.random.choice((0, 0, 0.3)))
        for process in running:
            code, said = self._finish(process, together / 2)
            if not targets.TARGETS[name].ends_well(code, said):
                self._fail("races", f"{name}: one of {together} ended with {code}: {said[-300:]}")
        self._again("races", name, out)
        self._count("races", name, f"{together} at once")
        return 1

    def disks(self, name: str) -> int:
        """Let a run meet the end of the disk: no file may grow beyond a few pages."""
        out = self._fresh(name)
        size = 4096 * self.random.randint(0, 40)
        process = targets.started(name, out, self.data, lambda: _limit(size))
        self._refused("disks", name, process, f"with files of at most {size} bytes")
        self._again("disks", name, out)
        return 1

    def small_disks(self, name: str) -> int:
        """The same on a small file system of its own, for which root is needed; nothing happens without."""
        mount = self.directory / "disk"
        mount.mkdir(exist_ok=True)
        size = self.random.randint(60, 4000)
        kind = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(mount)]
        if subprocess.run(kind, capture_output=True).returncode:
            return 0
        try:
            out = mount / "out"
            out.mkdir()
            if targets.TARGETS[name].begins_with_data:
                copied = subprocess.run(["cp", "-r", f"{self.data}/.", str(out)], capture_output=True)
                if copied.returncode:  # not even the data fit
                    self._count("small disks", name, "too small for the data")
                    return 1
            self._refused("small disks", name, targets.started(name, out, self.data), f"on {size} kB")
            if list(out.rglob("*.unfinished")):
                self._fail("small disks", f"{name}: left {next(out.rglob('*.unfinished')).name}")
            subprocess.run(["mount", "-o", "remount,size=1g", str(mount)], check=True)
            self._again("small disks", name, out)
            return 1
        finally:
            subprocess.run(["umount", "-l", str(mount)], check=False)

    def rights(self, name: str) -> int:
        """Take the right to write at a random moment from a run that obeys it, even if root's."""
        out = self._fresh(name)
        process = targets.started(name, out, self.data, None if os.getuid() else _obey_rights)
        time.sleep(self.random.uniform(0.0, 1.0) * self.seconds[name])
        folders = [out, *(path for path in out.rglob("*") if path.is_dir())]
        taken = self.random.choice((folders, [self.random.choice(folders)]))
        for folder in taken:
            _set_mode(folder, 0o555)
        self._refused("rights", name, process, f"without rights on {len(taken)} folders")
        for folder in taken:
            _set_mode(folder, 0o755)
        self._again("rights", name, out)
        return 1

    def failing(self, name: str) -> int:
        """Let one system call that writes end with EIO; strace is needed, and nothing happens without."""
        if not shutil.which("strace"):
            return 0
        call, place = self.random.choice(WRITING_CALLS), self.random.choice((1, 2, 3, self.random.randint(4, 100)))
        inject = ["-e", f"trace={call}", "-e", f"inject={call}:error=EIO:when={place}"]
        out = self._fresh(name)
        through = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", os.devnull, *inject]
        process = targets.started(name, out, self.data, through=through)
        self._refused("failing", name, process, f"where {call} number {place} fails")
        self._again("failing", name, out)
        return 1

    def _refused(self, kind: str, name: str, process, how: str) -> None:
        """Wait for a run that may end well, or with one line."""
        code, said = self._finish(process)
        lines = [line for line in said.replace("\r", "\n").splitlines() if line.strip()]
        if code not in (0, 2) or "Traceback" in said or (code == 2 and not lines[-1].startswith("error: ")):
            self._fail(kind, f"{name}: {code} {how}: {said[-300:]}")
        self._count(kind, name, f"exit {code}")

    def _again(self, kind: str, name: str, out: pathlib.Path) -> None:
        """Run a target to its end and compare what is there with an undisturbed run."""
        code, said = self._finish(targets.started(name, out, self.data))
        target = targets.TARGETS[name]
        if not target.ends_well(code, said):
            self._fail(kind, f"{name}: the run afterwards ended with {code}: {said[-300:]}")
        elif others := targets.differing(self.whole[name], targets.content(out, target)):
            self._fail(kind, f"{name}: {len(others)} files are others than in an undisturbed run: {others[:4]}")
            if self.keep:
                shutil.copytree(out, os.path.join(self.keep, f"{kind}_{name}_{len(self.failures)}"))
        self._forget(out)

    def _fresh(self, name: str) -> pathlib.Path:
        out = pathlib.Path(tempfile.mkdtemp(dir=self.directory)) / "out"
        if targets.TARGETS[name].begins_with_data:
            shutil.copytree(self.data, out)
        else:
            out.mkdir()
        for model in targets.TARGETS[name].models:
            shutil.copytree(targets.MODELS / model, out / model)
        return out

    def _forget(self, out: pathlib.Path) -> None:
        if out.parent.parent == self.directory:
            shutil.rmtree(out if out.parent.is_mount() else out.parent, ignore_errors=True)

    def _finish(self, process, share: float = 1) -> tuple[int, str]:
        """Return how a process ended and what it said."""
        seconds = share * self.longest
        try:
            said = process.communicate(timeout=seconds)[1]
        except subprocess.TimeoutExpired:
            self._signal_all(process, signal.SIGKILL)
            process.communicate()
            return -99, f"no end within {seconds:g} s"
        return process.returncode, said

    def _signal_all(self, process, number: int) -> None:
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


def _obey_rights() -> None:
    """Let this process of root's be refused what the rights on files refuse, whatever it starts."""
    library = ctypes.CDLL(None, use_errno=True)
    for capability in OVERRIDING_RIGHTS:
        if library.prctl(24, capability, 0, 0, 0):  # PR_CAPBSET_DROP: for the programs it executes
            raise OSError(ctypes.get_errno(), "prctl")
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    library.capget(header, sets)
    for effective in (0, 1):
        sets[effective] &= ~sum(1 << capability for capability in OVERRIDING_RIGHTS)
    if library.capset(header, sets):
        raise OSError(ctypes.get_errno(), "capset")


def _set_mode(folder: pathlib.Path, mode: int) -> None:
    with contextlib.suppress(FileNotFoundError):  # renamed or gone meanwhile
        folder.chmod(mode)


def main() -> int:
    """Attack, report, and return 1 with any failure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for kind, default in (*KINDS.items(), ("seed", 0)):
        parser.add_argument(f"--{kind}", type=int, default=default)
    parser.add_argument("--targets", default=",".join(targets.TARGETS), help="of " + ", ".join(targets.TARGETS))
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no further attack after so long")
    parser.add_argument("--longest", type=float, default=300, help="seconds that a run may take")
    parser.add_argument("--keep", default="", help="directory for what is not as it must be")
    given = parser.parse_args()
    # A shell starts what runs in its background deaf to interruptions, and all that it starts would be, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    end = time.monotonic() + 60 * given.minutes
    wanted = {kind: getattr(given, kind) for kind in KINDS}
    done = dict.fromkeys(KINDS, 0)
    with tempfile.TemporaryDirectory(prefix="faults_") as directory:
        attack = Attack(pathlib.Path(directory), given.targets.split(","), given.seed, given.keep, given.longest)
        try:
            for kind, name in planned_attacks(wanted, given.targets.split(",")):
                if done[kind] < wanted[kind] and time.monotonic() < end:
                    done[kind] += getattr(attack, kind)(name)
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
    for what, counts in sorted(attack.counts.items()):
        print(f"{what}: " + ", ".join(f"{number} {how}" for how, number in sorted(counts.items())))
    print(", ".join(f"{done[kind]} of {number} {kind}" for kind, number in wanted.items() if number))
    print(f"{len(attack.failures)} failures")
    return 1 if attack.failures else 0


def planned_attacks(numbers: Mapping[str, int], names: Sequence[str]) -> list[tuple[str, str]]:
    """Return kinds of attacks and their targets, the kinds mixed evenly, so that a run cut short has tried all."""
    places = sorted((place / number, kind, place) for kind, number in numbers.items() for place in range(number))
    return [(kind, names[place % len(names)]) for _, kind, place in places]


if __name__ == "__main__":
    sys.exit(main())
