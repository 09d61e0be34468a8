"""Regions of explanation of all 5,000 signals: explained block by block, each block kept in a store when it is done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

import attribution
from attribution import Method
from attribution_benchmarks.command_line import BadInput
from attribution_benchmarks.leaderboard.store import ScoreStore
from svea import mnist1d, roe
from svea.mnist1d import LENGTH

DEFINITION = 1  # of what is stored; a change of it makes stored regions stale


@dataclass(frozen=True)
class Regions:
    """Where one method's regions begin, (N,) int64 in 0 to 28, and which maps are zero everywhere, (N,) bool."""

    starts: np.ndarray
    zero: np.ndarray


def find_regions(
    model, signals, methods: Mapping, seed: int, batch_size: int, store: ScoreStore | None = None
) -> dict[str, Regions]:
    """Explain signals with each method and find where the regions of explanation begin.

    Parameters
    ----------
    model
        Result of ``scoring.load_network``.
    signals
        (N, 40) float32; a signal's place is the key of its random numbers.
    methods
        Result of ``methods.settings``.
    seed
        Of random methods.
    batch_size
        Rows in one pass, and signals in one block.
    store
        Where regions are kept; what is found there is not computed again. None keeps none.

    Raises
    ------
    BadInput
        If a method gives maps of another shape, or what is stored is damaged.
    """
    from tqdm import tqdm

    series = (
        {name: store.series(**_key(model, name, *entry), seed=seed) for name, entry in methods.items()} if store else {}
    )
    found = {name: [] for name in methods}
    for start in tqdm(range(0, len(signals), batch_size), "signals explained", unit="block"):
        rows = range(start, min(start + batch_size, len(signals)))
        names = [str(row) for row in rows]
        wanted = {name: methods[name] for name in methods if not series or series[name].missing(names)}
        fresh = {}
        if wanted:
            maps = attribution.explain_many(
                wanted, model, signals[rows.start : rows.stop, :, None], seed=seed, batch_size=batch_size, keys=rows
            )
            fresh = {name: _records(name, found_maps) for name, found_maps in maps.items()}
        for name in methods:
            if series:
                if name in fresh:
                    series[name].append(dict(zip(names, fresh[name], strict=True)))
                found[name] += [series[name][row] for row in names]
            else:
                found[name] += fresh[name]
    try:
        arrays = {name: np.array(records, np.int64).reshape(len(signals), 2) for name, records in found.items()}
    except (TypeError, ValueError) as error:
        raise BadInput(f"the scores in {store.directory} are damaged; remove that folder to compute anew") from error
    return {name: Regions(array[:, 0], array[:, 1].astype(bool)) for name, array in arrays.items()}


def _records(name: str, maps) -> list[list[int]]:
    """Return ``[start, zero]`` of each map."""
    if maps.shape[1:] not in ((LENGTH,), (LENGTH, 1)):
        raise BadInput(f"method '{name}' gave maps of shape {maps.shape[1:]}; SVEA reads one value per point")
    return np.stack([roe.region_of_explanation(maps), roe.all_zero(maps)], axis=1).tolist()


def _key(model, name: str, method, overrides: Mapping) -> dict:
    """Return what a method's regions depend on: network, data, the method's code and its parameters."""
    if not isinstance(method, Method):
        method = Method(method.__name__, name, method)
    return {
        "benchmark": "svea",
        "definition": DEFINITION,
        "model": model.fingerprint,
        "data": mnist1d.FINGERPRINT,
        "method": name,
        "code": method.fingerprint,
        "parameters": {
            parameter: value if isinstance(value, (int, float, str, bool, type(None))) else repr(value)
            for parameter, value in method.parameters(overrides).items()
        },
    }
