"""Paired tests that were computed before, found again by the numbers that they are of."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np

from attribution.errors import BadInput

_NUMBERS = 7  # of a test


class Series(Protocol):
    """A persistent mapping from a name to a record, such as ``core.store.Series``."""

    path: str | None

    def __contains__(self, name: str) -> bool:
        """Return whether a name has a record."""

    def records(self, names: Iterable[str]) -> Iterator[Any]:
        """Yield the records of some names."""

    def append(self, records: Mapping[str, object]) -> None:
        """Add records."""


class CachedTests:
    """Tests of pairs in a series of a store, whose key holds the code, the draws, the seed and the versions.

    A test is known by the differences that it is of, summed by cluster, so that pairs whose scores are the same have
    the same one whatever they are called, and one of changed scores is computed anew.

    Parameters
    ----------
    series
        From ``store.ScoreStore.series``.
    """

    def __init__(self, series: Series):
        self._series = series

    def load(self, sums: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Return the numbers of tests, (7, K) float64, NaN in columns of those that are not there.

        Parameters
        ----------
        sums, sizes
            (clusters, K) each cluster's sum and number of values.

        Raises
        ------
        BadInput
            If what is kept is no test.
        """
        found = np.full((_NUMBERS, sums.shape[1]), np.nan)
        names = _names(sums, sizes)
        there = [place for place, name in enumerate(names) if name in self._series]
        records = self._series.records([names[place] for place in there]) if there else []
        try:
            for place, record in zip(there, records, strict=True):
                found[:, place] = [float.fromhex(number) for number in record]
        except (TypeError, ValueError) as error:
            raise BadInput(f"{self._series.path} holds no paired tests; remove it to compute them again") from error
        return found

    def save(self, sums: np.ndarray, sizes: np.ndarray, numbers: np.ndarray) -> None:
        """Add tests, (7, K) float64, of sums and sizes as of ``load``."""
        # Written so, numbers have all their digits, and may be infinite.
        records = ([number.hex() for number in column] for column in numbers.T.tolist())
        self._series.append(dict(zip(_names(sums, sizes), records, strict=True)))


def _names(sums: np.ndarray, sizes: np.ndarray) -> list[str]:
    columns = zip(np.ascontiguousarray(sums.T), np.ascontiguousarray(sizes.T, np.float64), strict=True)
    return [hashlib.sha256(one.tobytes() + other.tobytes()).hexdigest()[:32] for one, other in columns]
