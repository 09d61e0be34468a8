"""Try whether a method applies to a model, as far as the first of its passes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from attribution.batching import random_feed
from attribution.errors import BadInput, shortened
from attribution.methods.queries import ModelQueries, RequiredQueries
from attribution.methods.registry import with_parameters

if TYPE_CHECKING:  # it imports TensorFlow
    from attribution.model.model import Model


@dataclasses.dataclass(frozen=True)
class Trial:
    """Whether a method can explain a file.

    Attributes
    ----------
    applies
        Whether it can.
    reason
        Why not; empty where it can.
    passes
        Passes of one input, a backward pass with the forward pass before it counted as one: those until the end, or all
        of the first series of many.
    """

    applies: bool
    reason: str = ""
    passes: int = 0


class _Enough(Exception):
    """The first of many passes has run; the others are skipped."""


class _FirstQueries(ModelQueries):
    """Queries that end a method with many variants of its inputs after the first of them."""

    skipped = 0  # passes of the series that was ended

    def _pair_stream(self, grid: Any, variant: Any, run: Any) -> Iterator[Any]:
        self.skipped = (grid if isinstance(grid, int) else len(grid)) - 1
        for _ in super()._pair_stream(1 if isinstance(grid, int) else grid[:1], variant, run):
            raise _Enough
        self.skipped = 0
        yield from ()


def try_method(
    method: Any, model: Model, feed: Mapping[str, np.ndarray] | None = None, explain_input: str | None = None
) -> Trial:
    """Try a method on a model, as far as its first pass.

    Parameters
    ----------
    method
        A method as ``attribution.explain`` takes it.
    model : attribution.model.model.Model
        The model.
    feed
        Inputs as ``Model.feed`` takes them, one row or the number of rows that the file prescribes; by default
        random ones.
    explain_input
        Name of the explained input, or of a tensor inside.
    """
    ((method, parameters),) = with_parameters([method]).values()
    given = model.feed(random_feed(model) if feed is None else feed)
    view = model.at(explain_input, like=given)
    arrays = view.feed_of(given)
    rows = len(arrays[view.input])
    queries = _FirstQueries(view, arrays, view.input, None, rows, 0, range(rows), RequiredQueries())
    before = model.counts["forward"] + model.counts["backward"]
    try:
        if view.joined(arrays) and method.needs_positions:
            return Trial(False, "it explains one input at a time, by its positions")
        maps = np.asarray(method.function(queries, **parameters))
    except _Enough:
        maps = np.zeros(1)
    except BadInput as error:
        return Trial(False, str(error))
    except Exception as error:  # whatever TensorFlow or a library raises is the answer here, and not a crash
        return Trial(False, f"{type(error).__name__}: {shortened(error) or type(error).__name__}")
    if not np.isfinite(maps).all():
        return Trial(False, "its map of a random input is NaN or infinite")
    run = model.counts["forward"] + model.counts["backward"] - before
    return Trial(True, passes=run // rows + queries.skipped)
