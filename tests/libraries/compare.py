"""Compare the presets of PyTorch's libraries with the libraries, and write the evidence.

    python tests/libraries/compare.py --environment=DIR

DIR is a virtual environment with PyTorch, captum, zennit, grad-cam and shap in the versions of
attribution/methods/presets. Small networks with random weights are explained there by the libraries, and here by
``METHOD@LIBRARY``. tests/libraries/measured.json gets, by cell and network, the largest difference as a share of the
library's maximum; of random methods the largest difference of two means in standard errors, and the ratio of variances.
Cells of other libraries (alibi, dianna, innvestigate, lime, LXT, shapiq) stay as release 0.4.0 measured them.

Cost: 5 CPU minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(pathlib.Path(__file__).parent)]

import networks  # noqa: E402
import numpy as np  # noqa: E402

import attribution  # noqa: E402
from attribution.files import atomic_write  # noqa: E402
from attribution.methods.libraries import DISTRIBUTION, libraries  # noqa: E402

REPEATS = 200  # of a random method, at most
MEASURED = pathlib.Path(__file__).with_name("measured.json")
EXACT_TOLERANCE, STANDARD_ERRORS, VARIANCE_RATIO = 1e-5, 5.0, 1.25
PRESETS = {f"{name}@{one.name}": preset for one in libraries().values() for name, preset in one.presets.items()}
_NOT_COMPARED = {  # network -> cells
    "normalized": {"excitation_backprop@zennit"},  # it has no preset for batch normalization
    **{name: {"lrp_epsilon_gamma_box@zennit"} for name in networks.VECTORS},  # needs a convolution
}


def maps_of(cell: str, model: Any, name: str, repeats: int) -> np.ndarray:
    """Return this project's maps of a cell, ``repeats`` of each input for a random one.

    Those of a cell that is not reproduced are of the method and parameters that are nearest to it.
    """
    x, targets, references = networks.inputs(name)
    options: dict[str, Any] = {}
    if not PRESETS[cell].is_usable:
        return attribution.explain(PRESETS[cell].of, model, x, targets, **PRESETS[cell].parameters)
    if cell == "occlusion@captum":
        options["patch"] = 4 if x.ndim == 4 else 2
    elif cell == "occlusion@zennit":
        options |= {"patch": 4, "stride": 4}
    elif cell.startswith("expected_gradients@"):
        options["references"] = references
    elif cell in ("deeplift@shap", "kernel_shap@shap"):  # the library's mean over references
        each = [attribution.explain(cell, model, x, targets, baseline=reference) for reference in references]
        return np.mean(each, axis=0)
    return attribution.explain(cell, model, np.repeat(x, repeats, 0), np.repeat(targets, repeats), **options)


def compared(ours: np.ndarray, theirs: np.ndarray, is_random: bool) -> dict[str, float]:
    """Return how far two arrays of maps are apart."""
    if theirs.ndim == ours.ndim + 1:  # the library repeats a map in each channel
        assert np.ptp(theirs, axis=-1).max() == 0 or theirs.shape[-1] == 1
        theirs = theirs[..., 0]
    assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
    if not is_random:
        return {"difference": float(np.abs(ours - theirs).max() / np.abs(theirs).max())}
    ours, theirs = (maps.reshape(networks.ROWS, -1, *maps.shape[1:]).astype(float) for maps in (ours, theirs))
    variances = [maps.var(axis=1, ddof=1) for maps in (ours, theirs)]
    error = np.sqrt(sum(variances) / ours.shape[1])
    apart = np.abs(ours.mean(axis=1) - theirs.mean(axis=1))
    ratio = variances[0].sum() / variances[1].sum()
    least = 1e-6 * np.abs(theirs).max()  # rounding, where a gradient does not change with the noise
    return {
        "standard_errors": float((apart / (error + least)).max()),
        "ratio": float(ratio),
        "maps": ours.shape[1],
    }


def agrees(found: dict[str, float]) -> bool:
    """Return whether a comparison is within its tolerance."""
    if "difference" in found:
        return found["difference"] <= EXACT_TOLERANCE
    return found["standard_errors"] <= STANDARD_ERRORS and max(found["ratio"], 1 / found["ratio"]) <= VARIANCE_RATIO


def measured(folder: pathlib.Path, found_in: pathlib.Path) -> dict[str, Any]:
    """Return the comparisons by cell and network with the maps in a folder."""
    cells: dict[str, dict[str, dict[str, float]]] = {}
    for name in sorted(networks.LAYERS):
        theirs = np.load(found_in / f"{name}.npz")
        chosen = sorted(set(theirs.files) & set(PRESETS) - _NOT_COMPARED.get(name, set()))
        model = attribution.load_model(folder / name) if chosen else None
        for cell in chosen:
            is_random = PRESETS[cell].status == DISTRIBUTION
            most = 100 if cell == "kernel_shap@captum" else REPEATS  # among more, coalitions of one are refused
            found = _first(theirs[cell], most)
            ours = maps_of(cell, model, name, len(found) // networks.ROWS)
            cells.setdefault(cell, {})[name] = compared(ours, found, is_random)
            if PRESETS[cell].is_usable and not agrees(cells[cell][name]):
                print(f"{cell} on {name}: {cells[cell][name]}", flush=True)
    return cells


def _first(maps: np.ndarray, most: int) -> np.ndarray:
    """Return the first maps of each input."""
    by_input = maps.reshape(networks.ROWS, -1, *maps.shape[1:])[:, :most]
    return by_input.reshape(-1, *by_input.shape[2:])


def main() -> None:
    """Run both sides and write the comparisons."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--environment", required=True, help="virtual environment of the libraries")
    parser.add_argument("--folder", help="keep networks and maps here, and use those that are there")
    options = parser.parse_args()
    record = json.loads(MEASURED.read_text("utf-8"))
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(options.folder or temporary)
        folder.mkdir(exist_ok=True)
        if not list(folder.glob("*.npz")):
            networks.write(folder, networks.build())
        found_in = folder / "maps"
        if not (found_in / "record.json").exists():
            script = pathlib.Path(__file__).with_name("torch_maps.py")
            command = [f"{options.environment}/bin/python", str(script), str(folder), str(found_in)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        found = json.loads((found_in / "record.json").read_text("utf-8"))
        found["cells"] = measured(folder, found_in)
        record["errors"] = {
            name: why for name, why in record["errors"].items() if name.split()[1] not in found["cells"]
        }
        record = {kind: {**values, **found[kind]} for kind, values in record.items()}
    atomic_write(MEASURED, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
