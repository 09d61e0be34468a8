"""MNIST-1D: 4,000 training and 1,000 test signals of 40 points, ten classes.

Greydanus and Kobak, "Scaling Down Deep Learning with MNIST-1D", arXiv:2011.14439. The data is generated, not
downloaded: the package ``mnist1d`` with its default arguments (seed 42) reproduces the published set, and a
checksum keeps it so.

Each signal is one of ten templates of 12 points, padded, dilated, scaled and shifted on a line of 72 points,
to which noise and a slope are added before it is sampled at 40 points. Where the template went is known to
the generator alone, and is what a faithful explanation should find: ``load`` recovers it by running the
generator a second time.
"""

from __future__ import annotations

import functools
import hashlib
import random
from dataclasses import dataclass, fields

import numpy as np

from attribution.errors import BadInput

CLASSES = 10
LENGTH = 40
TRAIN_SIGNALS = 4000
TEST_SIGNALS = 1000
SEED = 42  # of the published set
FINGERPRINT = "39fa1e41ef5b6035e31cb093707c676daba55b47d8ff6e032fe5ec0ff60380e5"


@dataclass(frozen=True)
class Split:
    """One split of MNIST-1D.

    Attributes
    ----------
    signals
        (N, 40) float32; zero mean and unit variance over both splits together.
    labels
        (N,) int64, 0 to 9.
    template_first, template_last
        (N,) float64, position of the template's first and last point on the signal's axis, 0 to 39.
    """

    signals: np.ndarray
    labels: np.ndarray
    template_first: np.ndarray
    template_last: np.ndarray

    @property
    def template_centre(self) -> np.ndarray:
        """Return the middle of the template, (N,) float64, in points of the signal."""
        return (self.template_first + self.template_last) / 2

    @property
    def template(self) -> np.ndarray:
        """Return which points lie within the template, (N, 40) bool."""
        points = np.arange(LENGTH)
        return (points >= self.template_first[:, None]) & (points <= self.template_last[:, None])


@dataclass(frozen=True)
class Mnist1D:
    """Both splits of MNIST-1D, ``train`` and ``test``."""

    train: Split
    test: Split

    @functools.cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of labels and signals rounded to 1e-4, both splits, as 64 hexadecimal digits.

        The last bits of another platform's floating point do not matter.
        """
        digest = hashlib.sha256()
        for split in (self.train, self.test):
            digest.update(np.rint(split.signals.astype(np.float64) * 1e4).astype("<i4").tobytes())
            digest.update(split.labels.astype("<i8").tobytes())
        return digest.hexdigest()


@functools.lru_cache(maxsize=1)
def load(seed: int = SEED) -> Mnist1D:
    """Generate MNIST-1D, check it against the published set, and return it. Takes about two seconds.

    Any other ``seed`` draws other signals of the same distribution, as many.

    Returns
    -------
    Mnist1D
        The arrays are read-only, because the result is kept for the next call.

    Raises
    ------
    BadInput
        If the installed ``mnist1d`` does not generate the published data.
    """
    generated = _generate(seed=seed)
    first, last = _template_extent(seed)
    splits = []
    for signals, labels, rows in (
        (generated["x"], generated["y"], slice(0, TRAIN_SIGNALS)),
        (generated["x_test"], generated["y_test"], slice(TRAIN_SIGNALS, None)),
    ):
        splits.append(_read_only(Split(signals.astype(np.float32), labels.astype(np.int64), first[rows], last[rows])))
    data = Mnist1D(*splits)
    if seed == SEED and data.fingerprint != FINGERPRINT:
        raise BadInput(
            "the installed package mnist1d does not generate the published MNIST-1D; install mnist1d==0.0.2.post1"
        )
    return data


def _read_only(split: Split) -> Split:
    for field in fields(split):
        getattr(split, field.name).setflags(write=False)
    return split


def _generate(**changes) -> dict:
    """Run the package's generator with its default arguments, some of them changed."""
    from mnist1d.data import get_dataset_args, make_dataset  # imports matplotlib, hence not at the top

    arguments = get_dataset_args()
    for name, value in changes.items():
        setattr(arguments, name, value)
    states = np.random.get_state(), random.getstate()  # noqa: NPY002 - the generator seeds the global ones
    try:
        return make_dataset(arguments)
    finally:
        np.random.set_state(states[0])  # noqa: NPY002
        random.setstate(states[1])


def _template_extent(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Replay the generator without noise and return where each template begins and ends.

    Noise of scale zero is still drawn, so the replay draws the same padding, scale and shift for every
    signal, in the same order. Left at its 72 points, a signal then differs from the constant background
    exactly where the template lies. No shift brings a template to the last of the 72 points, so that one is
    always background.

    Returns
    -------
    (first, last)
        (5000,) float64 each, in points of the 40-point axis.
    """
    fine = 72
    replayed = _generate(seed=seed, corr_noise_scale=0.0, iid_noise_scale=0.0, shear_scale=0.0, final_seq_length=fine)
    signals = np.concatenate([replayed["x"], replayed["x_test"]])
    template = signals != signals[:, -1:]
    first = template.argmax(axis=1)
    last = fine - 1 - template[:, ::-1].argmax(axis=1)
    scale = (LENGTH - 1) / (fine - 1)
    return first * scale, last * scale
