"""BIM's models: loading them, what they must be, and images as they take them."""

from __future__ import annotations

import os
import pathlib

import numpy as np
from PIL import Image

import attribution
from attribution.errors import BadInput, listed
from attribution_benchmarks.core.bundled_models import given_or_bundled, models_folder
from bim.layout import CHANNEL_MEANS, SCENES

TENSORS = {"inputs": ["input_tensor:0"], "output": "resnet_model/final_dense:0"}  # of the authors' models


def load_classifier(models_dir: str, name: str, tensors: bool = False):
    """Load one of BIM's models, such as ``obj``, from a folder of models; see ``classifier_at``."""
    models_dir = os.fspath(given_or_bundled(models_dir))
    path = os.path.join(models_dir, name)
    if not os.path.isdir(path):
        have = sorted(entry.name for entry in pathlib.Path(models_dir).glob("*") if entry.is_dir())
        more = "; others are in the package attribution-benchmarks-models (docs/get_started.md)"
        bundled = pathlib.Path(models_dir).is_relative_to(models_folder())
        raise BadInput(
            f"no model '{name}' in {models_dir}; there are {listed(have) if have else 'none'}{more if bundled else ''}"
        )
    return classifier_at(path, tensors)


def classifier_at(path: str, tensors: bool = False):
    """Load any SavedModel that can classify BIM's images; return an ``attribution.model.model.Model``.

    ``tensors`` addresses it by the authors' tensor names instead of its signature. Raises ``BadInput`` if it cannot be
    loaded, takes no square colour images of one size, or has not ten classes.
    """
    return checked_classifier(attribution.load_model(path, score="logits", **(TENSORS if tensors else {})), path)


def checked_classifier(model, path: str):
    """Return a model, loaded or served, if it can classify BIM's images; see ``classifier_at``."""
    shape = model.inputs[model.explained_input()].shape
    sizes = None if shape is None else tuple(shape)
    if sizes is None or len(sizes) != 4 or sizes[1] is None or sizes[1] != sizes[2] or sizes[3] != 3:
        raise BadInput(f"{path} takes inputs of shape {shape}; BIM's images are (batch, side, side, 3)")
    if model.num_classes != len(SCENES):
        raise BadInput(f"{path} has {model.num_classes} classes; BIM's sets have {len(SCENES)}")
    return model


def network_inputs(images: np.ndarray, side: int) -> np.ndarray:
    """Return images as BIM's models take them, (N, side, side, 3) float32 RGB minus the channel means.

    Images, (N, H, W, 3) uint8 RGB, of another side are resized bilinearly by Pillow, as the authors do.
    """
    if images.shape[1:3] != (side, side):
        images = np.stack(
            [np.asarray(Image.fromarray(image).resize((side, side), Image.Resampling.BILINEAR)) for image in images]
        )
    return images.astype(np.float32) - CHANNEL_MEANS


def input_side(model) -> int:
    """Return the side of a model's square input in pixels."""
    return int(model.inputs[model.explained_input()].shape[1])
