"""How far a run is: steps that it reports, and bars that show them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Step(NamedTuple):
    """How many of the inputs of a part of a run are done.

    Attributes
    ----------
    title
        Of the part.
    unit
        What is counted, such as "image".
    done, total
        Numbers of inputs.
    """

    title: str
    unit: str
    done: int
    total: int


Progress = Callable[[Step], object]


def ignored(step: Step) -> None:
    """Show nothing."""


class Reporter:
    """Report the steps of one part; called with the number of inputs that were done since the last call."""

    def __init__(self, progress: Progress, title: str, unit: str, total: int):
        self._progress, self._step = progress, Step(title, unit, 0, total)
        progress(self._step)

    def __call__(self, done: int) -> None:
        """Report that more inputs are done."""
        self._step = self._step._replace(done=self._step.done + done)
        self._progress(self._step)


class Bars:
    """Show each part as a bar of tqdm on standard error; call ``close`` at the end, or use it in ``with``."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._part: tuple[Any, ...] = ()

    def __call__(self, step: Step) -> None:
        """Show a step; the first of a part, with nothing done, begins another bar."""
        import tqdm

        part = (step.title, step.unit, step.total)
        if part != self._part or not step.done:
            self.close()
            self._bar, self._part = tqdm.tqdm(total=step.total, desc=step.title, unit=step.unit), part
        self._bar.update(step.done - self._bar.n)
        if step.done == step.total:  # what is printed next begins a line
            self.close()

    def close(self) -> None:
        """End the last bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar, self._part = None, ()

    def __enter__(self) -> Bars:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
