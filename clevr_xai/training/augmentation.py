"""Images under another light: a network that saw only one exposure extrapolates wildly to every other.

The path of Integrated Gradients leads from black or gray to the image. What a network says there decides its maps, so
training shows it that stretch, too: some images are faded to an even picture in which there is nothing to be seen.
Half of the images stay as they were rendered: 24 channels that only ever see altered ones tell fewer shapes.
"""

from __future__ import annotations

import numpy as np

RELIT = 0.5  # share of the images that come under another light
GAIN = 1.6  # exposure is divided or multiplied by up to this
CONTRAST = 0.25  # of each image around its mean, more or less by up to this
TEMPERATURE = 0.12  # red is multiplied, blue divided, by up to 1 plus this, or the reverse
NOISE = 4.0  # largest standard deviation, in gray levels
FADED = 0.24  # share of these that are mixed with an even picture
EVEN = 0.2  # share of the faded images of which nothing is left
BLACK = 0.5  # share of the even pictures that are black; the others have one random gray level


def relit(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return images, ``RELIT`` of them under another light.

    Parameters
    ----------
    images : (B, height, width, 3) uint8
    rng

    Returns
    -------
    (B, height, width, 3) uint8
    """
    result, chosen = images.copy(), rng.random(len(images)) < RELIT
    result[chosen] = changed(images[chosen], rng)
    return result


def changed(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return images with another exposure, contrast, colour temperature and noise, some of them faded.

    Parameters and result are those of ``relit``.
    """
    number = len(images)

    def drawn(low, high):
        return rng.uniform(low, high, (number, 1, 1, 1)).astype(np.float32)

    gain = GAIN ** drawn(-1, 1)
    warmth = (1 + TEMPERATURE) ** drawn(-1, 1)
    color = np.concatenate([warmth, np.ones_like(warmth), 1 / warmth], axis=-1)
    values = images * (gain * color)
    mean = values.mean(axis=(1, 2, 3), keepdims=True)
    values = mean + (values - mean) * drawn(1 - CONTRAST, 1 + CONTRAST)
    values += rng.standard_normal(images.shape, np.float32) * drawn(0, NOISE)
    even = np.where(drawn(0, 1) < BLACK, 0, drawn(0, 255))
    share = np.where(drawn(0, 1) < FADED, np.minimum(drawn(0, 1 / (1 - EVEN)), 1), 0)
    values += share * (even - values)
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)
