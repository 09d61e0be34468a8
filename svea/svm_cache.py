"""The ROE test's machines, trained once for the same features: those of the run before are most of a run's."""

from __future__ import annotations

import hashlib

import numpy as np

from attribution.errors import BadInput
from attribution_benchmarks.core import manifest
from attribution_benchmarks.core.fingerprint import code_fingerprint
from attribution_benchmarks.core.store import ScoreStore
from svea import mnist1d, roe
from svea.mnist1d import TEST_SIGNALS, TRAIN_SIGNALS, Mnist1D


class KeptMachines:
    """Machines that classify MNIST-1D by features of its signals.

    Parameters
    ----------
    data
        MNIST-1D.
    store
        Where it is kept which signals they get right; None keeps it in memory.
    """

    def __init__(self, data: Mnist1D, store: ScoreStore | None = None):
        self._data = data
        self._series = (store or ScoreStore(None)).series(
            benchmark="svea", data=mnist1d.FINGERPRINT, machines=code_fingerprint(roe.linear_svm_correct),
            versions=manifest.versions(),
        )  # fmt: skip

    def correct(self, features: np.ndarray) -> np.ndarray:
        """Return which test signals machines get right that were trained on the training signals, (1000,) bool.

        Parameters
        ----------
        features
            (5000, D) numbers, the training signals' first.

        Raises
        ------
        BadInput
            If what is kept is not so many answers.
        """
        features = np.ascontiguousarray(features)
        name = hashlib.sha256(f"{features.shape} {features.dtype}".encode() + features.tobytes()).hexdigest()[:32]
        if name not in self._series:
            labels = self._data.train.labels, self._data.test.labels
            found = roe.linear_svm_correct(features[:TRAIN_SIGNALS], labels[0], features[TRAIN_SIGNALS:], labels[1])
            self._series.append({name: "".join("01"[one] for one in found.astype(int))})
            return found
        record = self._series[name]
        if not isinstance(record, str) or len(record) != TEST_SIGNALS or set(record) - set("01"):
            raise BadInput(f"{self._series.path} holds no answers of machines; remove it to compute them again")
        return np.array(list(record)) == "1"
