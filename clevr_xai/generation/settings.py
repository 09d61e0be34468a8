"""What decides the bytes of a dataset of our own."""

from __future__ import annotations

import dataclasses

from attribution.errors import BadInput
from clevr_xai.generation import render

MOST_WIDTH = 8192  # pixels


@dataclasses.dataclass(frozen=True)
class Settings:
    """What decides the bytes of a dataset.

    Attributes
    ----------
    seed, num_images
        Image i depends on the seed and i alone: a larger dataset begins with the smaller one.
    width, height
        Of the rendered images and of the mask images, in the ratio 3 to 2.
    samples
        Light paths a pixel.
    stored_size
        Height and width of the stored images; 0 keeps them as rendered. Masks are never resized.
    """

    seed: int = 0
    num_images: int = 100
    width: int = 480
    height: int = 320
    samples: int = render.SAMPLES
    stored_size: int = 0

    def __post_init__(self):
        if self.width * 2 != self.height * 3 or self.width <= 0:
            raise BadInput(
                f"no images of {self.width}x{self.height}: width to height must be 3 to 2, as 480x320 or 192x128"
            )
        if self.width > MOST_WIDTH or self.stored_size > MOST_WIDTH:
            raise BadInput(f"no images of more than {MOST_WIDTH:,} pixels a side")
        if round(self.samples**0.5) ** 2 != self.samples or self.samples < 1:
            raise BadInput(f"{self.samples} samples a pixel do not form a square; 4, 9, 16, 25, ... do")
