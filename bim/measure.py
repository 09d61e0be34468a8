"""Object attributions of a model on images of a set: explained in blocks, kept in a store."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence

import numpy as np
from PIL import Image

import attribution
from attribution import Method
from attribution_benchmarks.command_line import BadInput, listed
from attribution_benchmarks.leaderboard.store import ScoreStore
from bim import regions
from bim.dataset import BimSet
from bim.layout import CHANNEL_MEANS, SCENES

DEFINITION = 1  # of the scores below; a change of it makes stored ones stale
TENSORS = {"inputs": ["input_tensor:0"], "output": "resnet_model/final_dense:0"}  # of the authors' models


@dataclasses.dataclass(frozen=True)
class Measured:
    """What one model does on n images of one set.

    Attributes
    ----------
    predicted, labels
        (n,) int64.
    attributions
        Method name -> (n,) float64 in [0, 1], the mean of the scaled map over the object; NaN where upstream
        divides zero by zero.
    flat
        Method name -> (n,) bool, maps without a scale (see ``regions.two_dimensional``).
    """

    predicted: np.ndarray
    labels: np.ndarray
    attributions: dict[str, np.ndarray]
    flat: dict[str, np.ndarray]


def load_classifier(models_dir: str, name: str, tensors: bool = False):
    """Load one of BIM's models.

    Parameters
    ----------
    models_dir
        Folder of the models.
    name
        ``obj``, ``scene``, ...
    tensors
        Address it by the authors' tensor names instead of its signature.

    Returns
    -------
    attribution.model.Model
    """
    path = os.path.join(models_dir, name)
    if not os.path.isdir(path):
        have = (
            sorted(entry.name for entry in os.scandir(models_dir) if entry.is_dir())
            if os.path.isdir(models_dir)
            else []
        )
        raise BadInput(f"no model '{name}' in {models_dir}; there are {listed(have) if have else 'none'}")
    return classifier_at(path, tensors)


def classifier_at(path: str, tensors: bool = False):
    """Load any SavedModel that can classify BIM's images.

    Parameters
    ----------
    path
        Its directory.
    tensors
        Address it by the authors' tensor names instead of its signature.

    Returns
    -------
    attribution.model.Model

    Raises
    ------
    BadInput
        If it cannot be loaded, takes no square colour images of one size, or has not ten classes.
    """
    return checked_classifier(attribution.load_model(path, score="logits", **(TENSORS if tensors else {})), path)


def checked_classifier(model, path: str):
    """Return a model, loaded or served, if it can classify BIM's images; see ``classifier_at``."""
    shape = model.inputs[model.explained_input()].shape
    sizes = None if shape is None else tuple(shape)
    if sizes is None or len(sizes) != 4 or sizes[1] is None or sizes[1] != sizes[2] or sizes[3] != 3:
        raise BadInput(f"{path} takes inputs of shape {shape}; BIM's images are (batch, side, side, 3)")
    if model.num_classes != len(SCENES):
        raise BadInput(f"{path} tells {model.num_classes} classes; BIM's sets have {len(SCENES)}")
    return model


def network_inputs(images: np.ndarray, side: int) -> np.ndarray:
    """Return images as BIM's models take them.

    Parameters
    ----------
    images
        (N, H, W, 3) uint8 RGB.
    side
        Of the model's input; images of another size are resized bilinearly by Pillow, as the authors do.

    Returns
    -------
    numpy.ndarray
        (N, side, side, 3) float32: RGB minus the channel means.
    """
    if images.shape[1:3] != (side, side):
        images = np.stack(
            [np.asarray(Image.fromarray(image).resize((side, side), Image.Resampling.BILINEAR)) for image in images]
        )
    return images.astype(np.float32) - CHANNEL_MEANS


def input_side(model) -> int:
    """Return the side of a model's square input in pixels."""
    return int(model.inputs[model.explained_input()].shape[1])


def map_attributions(maps: np.ndarray, masks: np.ndarray, upstream: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return the object's attribution in each map and which maps are flat.

    Parameters
    ----------
    maps
        (N, H, W, C) or (N, H, W).
    masks
        (N, H, W) bool.
    upstream
        NaN for flat maps, as 0 / 0 gives in the authors' code.
    """
    scaled, flat = regions.two_dimensional(maps)
    values = regions.object_attribution(scaled, masks)
    return (np.where(flat, np.nan, values) if upstream else values), flat


def measure(
    model,
    model_name: str,
    images: BimSet,
    rows: Sequence[int],
    methods: Mapping[str, Method],
    store: ScoreStore | None = None,
    seed: int = 0,
    batch_size: int = 16,
    upstream: bool = False,
    progress: bool = False,
) -> Measured:
    """Explain a model's predictions and measure how much falls on the objects.

    Blocks of ``batch_size`` rows are explained at a time; a block whose scores are all in the store costs
    nothing, and each block is stored when it is done.

    Parameters
    ----------
    model
        From ``load_classifier``.
    model_name
        Its name; model and set are part of each image's key, so no two draw the same random numbers.
    images
        The set.
    rows
        Which of its images.
    methods
        Name -> method.
    store
        Where scores are kept; None keeps none.
    seed
        Seed of what methods draw.
    batch_size
        Rows in one pass.
    upstream
        See ``map_attributions``.
    progress
        Whether to show a progress bar.

    Returns
    -------
    Measured
    """
    import tqdm

    set_name = os.path.basename(images.directory)
    store = store or ScoreStore(os.devnull)
    common = {
        "benchmark": "bim",
        "definition": DEFINITION,
        "model": model.fingerprint,
        "model_name": model_name,
        "data": set_name,
    }
    if getattr(model, "client", None) is not None:
        common["served"] = True  # a served model's scores are its server's, not those of the file behind it
    series = {name: store.series(**common, **_method_key(name, method), seed=seed) for name, method in methods.items()}
    predictions = store.series(**common, method="prediction")
    records = {name: {} for name in (*methods, "prediction")}
    side = input_side(model)
    blocks = range(0, len(rows), batch_size)
    if progress:
        blocks = tqdm.tqdm(blocks, f"{model_name} on {set_name}", leave=False)
    for start in blocks:
        block = rows[start : start + batch_size]
        keys = [f"{images.names[row]} {digest}" for row, digest in zip(block, images.digest(block), strict=True)]
        wanted = {name: methods[name] for name in methods if series[name].missing(keys)}
        fresh = {}
        if wanted or predictions.missing(keys):
            inputs = network_inputs(images.images(block), side)
            targets = model.predict(inputs, batch_size)
            fresh["prediction"] = dict(zip(keys, targets.tolist(), strict=True))
            if wanted:
                random_keys = [f"{model_name}-{set_name}/{images.names[row]}" for row in block]
                maps = attribution.explain_many(
                    wanted, model, inputs, targets, batch_size=batch_size, seed=seed, keys=random_keys
                )
                masks = np.stack([regions.place_mask(images.mask(row), images.boxes[row], side) for row in block])
                for name in wanted:
                    values, flat = map_attributions(maps[name], masks)
                    fresh[name] = {
                        key: [float(value), bool(no_scale)]
                        for key, value, no_scale in zip(keys, values, flat, strict=True)
                    }
        for name, found in (("prediction", predictions), *series.items()):
            if name in fresh:
                _keep(store, found, fresh[name])
            source = found if store.directory != os.devnull else fresh[name]
            records[name].update({key: source[key] for key in keys})
    rows = list(rows)
    try:
        scores = {name: np.array(list(records[name].values()), np.float64).reshape(len(rows), 2) for name in methods}
        predicted = np.array(list(records["prediction"].values()), np.int64).reshape(len(rows))
    except (TypeError, ValueError) as error:
        raise BadInput(f"the scores in {store.directory} are damaged; remove that folder to compute anew") from error
    flats = {name: score[:, 1].astype(bool) for name, score in scores.items()}
    return Measured(
        predicted,
        images.labels[rows],
        {n: np.where(flats[n], np.nan, score[:, 0]) if upstream else score[:, 0] for n, score in scores.items()},
        flats,
    )


def _keep(store: ScoreStore, series, records: dict) -> None:
    """Write records, unless nothing is to be kept."""
    if store.directory != os.devnull:
        series.append(records)


def _method_key(name: str, method: Method) -> dict:
    """Return what a method's scores depend on: its name, its code and its parameters."""
    parameters = {key: value for key, value in method.parameters({}).items()}
    return {
        "method": name,
        "code": method.fingerprint,
        "parameters": {
            k: v if isinstance(v, (int, float, str, bool, type(None))) else repr(v) for k, v in parameters.items()
        },
    }
