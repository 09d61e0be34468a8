"""Check whether a custom method keeps the contract of attribution methods, on small networks or a model.

Each check takes a ``_Trial``, returns its observation as text, and raises ``_Failed`` with it where the method breaks
the contract.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from attribution.errors import BadInput, described, listed, print_line, shortened
from attribution.explain import BrokenContract, explain
from attribution.loading import load_model
from attribution.methods.registry import Method, with_parameters

if TYPE_CHECKING:  # it imports TensorFlow
    from attribution.model.model import Model

PASSED, FAILED, REFUSED = "passed", "FAILED", "refused"
ROWS = 8  # inputs of a trial: a multiple of the batch sizes tried, so that no pass is padded
TOLERANCE = 1e-4  # relative to a map's largest value: what another order of summation may change
# The same where inputs keep their positions in batches of one size (``row_independence``). Over the networks and
# methods of tests/zoo such maps were the same to the bit, except SISE's, 2e-6 at most: an input has as many masks
# as channels with a positive gradient, so that other inputs decide which of its masks share a pass.
ROW_TOLERANCE = 1e-5


@dataclasses.dataclass(frozen=True)
class Finding:
    """The result of one check on one model.

    Attributes
    ----------
    check
        Name of the check (``CHECKS``).
    on
        Kind of the inputs.
    outcome
        ``"passed"``, ``"FAILED"`` or ``"refused"`` (the method cannot explain this model and says so); of metrics also
        ``"allowed"`` (failed, as expected).
    words
        Observation.
    """

    check: str
    on: str
    outcome: str
    words: str

    def __str__(self) -> str:
        return f"{self.outcome.ljust(7)}  {self.on.ljust(7)}  {self.check.ljust(20)}  {self.words}"


def check_method(
    method: Any,
    model: Any = None,
    *,
    explain_input: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    show: bool = True,
) -> list[Finding]:
    """Check a method's contract.

    Parameters
    ----------
    method
        As ``attribution.explain`` takes it: ``"file.py:function"``, a function, a name of the registry.
    model : attribution.model.model.Model, optional
        The model to try it on, at random inputs, or what ``load_model`` takes; a small network of signals and one of
        images by default.
    explain_input
        Name of the explained input, where the model has several.
    parameters
        Parameters of the method in place of its defaults.
    show
        Whether to print the results.

    Returns
    -------
    list[Finding]
        One for each check and model; a method keeps the contract if none has the outcome ``"FAILED"``.

    Raises
    ------
    BadInput
        If the method does not exist.
    """
    parameters = parameters or {}
    ((resolved, _),) = with_parameters({"": (method, parameters)}).values()
    if model is not None:
        model = model if hasattr(model, "feed") else load_model(model)
    models = _small_networks() if model is None else {str(model.path): model}
    findings = []
    for title, one in models.items():
        findings += _Trial(title, one, explain_input, resolved, parameters).findings()
    if all(finding.outcome == REFUSED for finding in findings):
        findings = [dataclasses.replace(finding, outcome=FAILED) for finding in findings]
    if show:
        passed, failed = (sum(finding.outcome == outcome for finding in findings) for outcome in (PASSED, FAILED))
        refused = [finding.on for finding in findings if finding.outcome == REFUSED]
        for finding in findings:
            print_line(finding)
        end = f", refuses {listed(refused)}" if refused else ""
        print_line(f"{resolved.name}: {passed} checks passed, {failed} failed{end}")
    return findings


@functools.cache
def _small_networks() -> Mapping[str, Model]:
    """Return a network of two convolutions for signals and one for images, with seeded random weights."""
    import keras

    generator, networks = np.random.default_rng(0), {}
    for title, shape, axes in (("signals", (24, 2), 1), ("images", (16, 16, 3), 2)):
        convolution, pooling = (getattr(keras.layers, f"{name}{axes}D") for name in ("Conv", "MaxPooling"))
        network = keras.Sequential(
            [
                keras.Input(shape),
                convolution(6, 7 - 2 * axes, padding="same", activation="relu"),
                pooling(2),
                convolution(5, 3, padding="same", activation="relu"),
                keras.layers.Flatten(),
                keras.layers.Dense(4),
            ]
        )
        drawn = [generator.normal(0, 0.3, weight.shape) for weight in network.weights]
        # Positive biases: no channel is dead, so that no class activation map is empty.
        network.set_weights([np.abs(values) if values.ndim == 1 else values for values in drawn])
        networks[title] = load_model(network)
    return networks


class _Failed(Exception):
    """The method breaks the contract."""


class _Refused(Exception):
    """The method refuses to explain this model."""


class _Trial:
    """A method with its parameters on random inputs of a model, each with a class to explain."""

    def __init__(
        self, title: str, model: Any, explain_input: str | None, method: Method, parameters: Mapping[str, Any]
    ) -> None:
        from attribution.batching import random_feed

        self.title, self.model, self.method, self.parameters = title, model, method, parameters
        self.feed = model.feed(random_feed(model, ROWS))
        self.explain_input = model.explained_input(explain_input)
        self.inputs = self.feed[self.explain_input]
        self.total = len(self.inputs)
        self.largest_batch = model.batch_size(8)
        self.prescribes_batch = model.batch_size(1) != 1

    def findings(self) -> list[Finding]:
        """Return a finding for each check, until the method returns no maps."""
        findings = []
        for name, check in CHECKS.items():
            try:
                findings.append(Finding(name, self.title, PASSED, check(self)))
            except _Failed as failure:
                findings.append(Finding(name, self.title, FAILED, str(failure)))
                if name == "returns_maps":  # the other checks need maps
                    return findings
            except _Refused as refusal:
                return [Finding(name, self.title, REFUSED, str(refusal))]
            except Exception as error:  # it ran before, and fails on other batches or orders
                words = shortened(error, 200) if isinstance(error, BadInput) else described(error, 200)
                findings.append(Finding(name, self.title, FAILED, words))
        return findings

    @functools.cached_property
    def maps(self) -> np.ndarray:
        """Maps of the inputs in order, in passes of eight."""
        return self.run()

    def run(
        self, batch_size: int | None = None, order: Sequence[int] | np.ndarray | None = None, seed: int = 0
    ) -> np.ndarray:
        """Return the maps of inputs in an order, each with its key, in passes of a batch size."""
        order = np.arange(self.total) if order is None else np.asarray(order)
        self.model.counts.clear()
        maps: np.ndarray = explain(
            self.method,
            self.model,
            {name: array[order] if array.ndim else array for name, array in self.feed.items()},
            (order % self.model.num_classes).astype(np.int32),
            explain_input=self.explain_input,
            batch_size=batch_size or self.largest_batch,
            seed=seed,
            keys=[f"input {row}" for row in order],
            **self.parameters,
        )
        return maps

    def difference(self, others: np.ndarray, maps: np.ndarray | None = None) -> float:
        """Return the largest difference of other maps from these, of the largest value of all."""
        maps = self.maps if maps is None else maps
        if others.shape != maps.shape:
            raise _Failed(f"maps had shape {maps.shape} and then {others.shape}")
        return float(np.abs(others - maps).max() / (np.abs(maps).max() or 1.0))


def _returns_maps(trial: _Trial) -> str:
    """Check that it runs and returns one map for each input."""
    try:
        maps = trial.maps
    except BrokenContract as error:
        raise _Failed(str(error)) from error
    except BadInput as error:
        raise _Refused(str(error)) from error
    except Exception as error:  # any exception breaks the contract
        raise _Failed(described(error, 200)) from error
    kind = "the inputs' shape" if maps.shape == trial.inputs.shape else "the inputs' places"
    if maps.ndim < trial.inputs.ndim and maps.shape != trial.inputs.shape[:-1]:
        kind = "a layer's resolution, to be resized"
    return f"{maps.shape}, {kind}"


def _same_seed_same_bytes(trial: _Trial) -> str:
    """Check that the same call gives the same bytes."""
    if trial.run().tobytes() != trial.maps.tobytes():
        raise _Failed("a second call gave other maps; draw random numbers from queries.generator(row, purpose) alone")
    return "the seed changes nothing" if trial.run(seed=1).tobytes() == trial.maps.tobytes() else "it uses the seed"


def _row_independence(trial: _Trial) -> str:
    """Check that a map depends on neither the size of the batch, nor the input's place, nor the other inputs."""
    order = np.arange(trial.total)[::-1]
    by_place = trial.difference(trial.run(order=order)[::-1])
    if by_place > TOLERANCE:
        raise _Failed(
            f"with the inputs in reverse maps differ by {by_place:.1e} of the largest value; does it normalize over "
            "all of them, or draw numbers by row instead of from queries.generator(row, purpose)?"
        )
    sizes = () if trial.prescribes_batch else (1, 4)
    by_size = max([trial.difference(trial.run(batch_size=size)) for size in sizes], default=0.0)
    if by_size > TOLERANCE:
        raise _Failed(
            f"in batches of 1 or 4 maps differ by {by_size:.1e} of the largest value from those in batches of 8"
        )
    by_others = max(
        trial.difference(trial.run(order=order)[kept], trial.maps[kept]) for order, kept in exchanges(trial.total)
    )
    if by_others > ROW_TOLERANCE:
        raise _Failed(
            f"an input's map changes by {by_others:.1e} of the largest value when other inputs of its batch do; does "
            "it normalize or average over the batch?"
        )
    return f"differs by {max(by_size, by_place, by_others):.0e} of the largest value"


def exchanges(total: int) -> Iterator[tuple[np.ndarray, slice]]:
    """Yield batches that keep half of the inputs and put copies of these in place of the others.

    Both halves are preserved in turn, because the statistic of a batch, such as its maximum, may come from one of them.

    Yields
    ------
    order : np.ndarray
        ``(total,)`` int64, the input at each place.
    kept : slice
        The places whose inputs are the same as before.
    """
    places, half = np.arange(total), total // 2
    yield np.where(places < half, places, places % half), slice(0, half)
    yield np.where(places < half, places + total - half, places), slice(half, total)


def _passes_per_input(trial: _Trial) -> str:
    """Check that the number of passes per input does not depend on the batch size."""
    counts = trial.model.counts

    def counted(batch_size: int) -> tuple[int, int, int]:
        trial.run(batch_size=batch_size)
        return counts["forward"], counts["backward"], counts["forward_passes"] + counts["backward_passes"]

    forward, backward, passes = counted(trial.largest_batch)
    if not passes:
        return "it makes no query"
    shown = f"{forward / trial.total:g} forward and {backward / trial.total:g} gradient passes for each input"
    alone = (forward, backward) if trial.prescribes_batch else counted(1)
    # The last pass of a block may be filled up: by fewer rows than passes.
    if abs(alone[0] + alone[1] - forward - backward) > passes:
        raise _Failed(
            f"{shown} in batches of 8, {alone[0] / trial.total:g} and {alone[1] / trial.total:g} in batches of 1; "
            "results that depend on the model alone are recomputed for every batch"
        )
    return shown


CHECKS: Mapping[str, Callable[[_Trial], str]] = MappingProxyType(
    {
        check.__name__.removeprefix("_"): check
        for check in (_returns_maps, _same_seed_same_bytes, _row_independence, _passes_per_input)
    }
)
