"""What the user sees of a run: which units begin and end, and how far those at work are."""

from __future__ import annotations

import re
import shutil
import sys
import threading
import time

from attribution.errors import print_line
from attribution_benchmarks.report.processes import PROGRESS, pass_on

_PERCENT = re.compile(rb"(\d+)%\|")
_EVERY = 0.2  # seconds between two states of the line on a terminal


class Progress:
    """Writes to standard error; units at work at the same time may call it from their threads.

    One unit at a time is shown as it shows itself. Of several, what they say has their name in front, and their
    progress bars become one line, on a terminal alone: ``first 40 %, second 85 %``.

    Parameters
    ----------
    units
        How many there are.
    jobs
        How many run at the same time.
    """

    def __init__(self, units: int, jobs: int):
        self._units, self._jobs = units, jobs
        self._lock = threading.Lock()
        self._begun: dict[str, float] = {}
        self._pending: dict[str, bytes] = {}
        self._percent: dict[str, int] = {}
        self._drawn, self._width = 0.0, 0

    def begin(self, number: int, name: str, title: str) -> None:
        """Tell that a unit begins."""
        with self._lock:
            self._begun[name] = time.monotonic()
            self._line(f"[{number}/{self._units}] {title}")

    def end(self, number: int, name: str, title: str, how: str) -> None:
        """Tell how a unit has ended; told beside others only, as what follows a unit alone says it."""
        with self._lock:
            seconds = time.monotonic() - self._begun.pop(name)
            self._percent.pop(name, None)
            if self._jobs > 1:
                self._line(f"[{number}/{self._units}] {title} {how} after {seconds:.0f} s")
            elif how != "done":
                self._line(f"  {how}")

    def hear(self, name: str, said: bytes) -> None:
        """Take what a unit's command writes to standard error."""
        if self._jobs == 1:
            pass_on(said)
            return
        with self._lock:
            *lines, rest = re.split(rb"[\r\n]", self._pending.get(name, b"") + said)
            # A bar is redrawn without a line's end, and complete in what is written at once.
            bar = PROGRESS.search(rest.decode(errors="replace"))
            self._pending[name] = b"" if bar else rest
            for line in [*lines, rest] if bar else lines:
                text = line.decode(errors="replace").rstrip()
                if PROGRESS.search(text):
                    found = _PERCENT.search(line)
                    if found:
                        self._percent[name] = int(found[1])
                elif text:
                    self._line(f"{name}: {text}")
            self._draw()

    def _line(self, text: str) -> None:
        self._clear()
        print_line(text, file=sys.stderr, flush=True)

    def _draw(self) -> None:
        if not sys.stderr.isatty() or time.monotonic() - self._drawn < _EVERY:
            return
        self._clear()
        at_work = (f"{name} {self._percent[name]} %" if name in self._percent else name for name in self._begun)
        text = ", ".join(at_work)[: shutil.get_terminal_size().columns - 1]
        print(text, end="", file=sys.stderr, flush=True)
        self._drawn, self._width = time.monotonic(), len(text)

    def _clear(self) -> None:
        if self._width:
            print("\r" + " " * self._width + "\r", end="", file=sys.stderr)
            self._width = 0
