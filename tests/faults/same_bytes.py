"""Run commands again under other circumstances and compare what they write, byte by byte.

    python tests/faults/same_bytes.py
    python tests/faults/same_bytes.py --targets=explain --circumstances=all

Circumstances that nothing may depend on: the seed of Python's hashes, the locale, the time zone, the working directory,
the order of methods; ``all`` is these together. TensorFlow sums in another order with another batch size or number of
threads: for these the largest difference of a map, of its largest value, is printed, and is no failure below 1e-5.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import targets

ROOT = pathlib.Path(__file__).resolve().parents[2]
METHODS = ["gradient", "grad_cam", "integrated_gradients", "smoothgrad", "rise", "sise", "lrp_epsilon"]
SURROUNDINGS = {
    "hashes": {"PYTHONHASHSEED": "4711"},
    "locale": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "time zone": {"TZ": "Asia/Kathmandu"},
}
ROUNDING = 1e-5
CIRCUMSTANCES = ("hashes", "locale", "time zone", "directory", "order", "all", "batch size", "threads")


def written(target: str, circumstance: str, folder: pathlib.Path) -> dict[str, np.ndarray]:
    """Return the maps that a run writes, by name."""
    folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ATTRIBUTION_BENCHMARKS_CACHE": str(folder / "cache")}
    environment |= {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1", "PYTHONHASHSEED": "0"}
    for name, change in SURROUNDINGS.items():
        if circumstance in (name, "all"):
            environment |= change
    if circumstance == "threads":
        environment |= {"TF_NUM_INTRAOP_THREADS": "2", "TF_NUM_INTEROP_THREADS": "2"}
    methods = METHODS[::-1] if circumstance in ("order", "all") else METHODS
    rows = 3 if circumstance == "batch size" else 8
    command = [sys.executable, "-m", *arguments(target, methods, rows, folder)]
    where = folder if circumstance in ("directory", "all") else ROOT
    done = subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{target} under another {circumstance}: {done.stderr[-500:]}")
    if target == "explain":
        with np.load(folder / "maps.npz") as maps:
            return {name: maps[name] for name in maps.files}
    return {str(path.relative_to(folder / "maps")): np.load(path) for path in sorted((folder / "maps").rglob("*.npy"))}


def arguments(target: str, methods: list[str], rows: int, folder: pathlib.Path) -> list[str]:
    """Return the command line of a target."""
    if target == "explain":
        np.save(folder / "signals.npy", np.random.default_rng(0).normal(size=(8, 40, 1)).astype(np.float32))
        model = [f"--model={ROOT / 'saved_models' / 'svea' / 'baseline'}", f"--image={folder / 'signals.npy'}"]
        files = [f"--maps={folder / 'maps.npz'}", f"--output={folder / 'maps.png'}"]
        return ["attribution.explain", *model, *files, f"--methods={','.join(methods)}", f"--batch_size={rows}"]
    few = [name for name in methods if name in ("gradient", "grad_cam", "lrp_epsilon")]
    common = [f"--methods={','.join(few)}", f"--save_maps={folder / 'maps'}", f"--batch_size={rows}"]
    if target == "bim":
        drawn = ["--metrics=MCS", "--num_imgs=12", f"--data_dir={folder.parent / 'set'}"]
        return ["bim.metrics", *drawn, "--nocontrols", "--compare=gradient", *common]
    return ["clevr_xai.evaluate", "--num_questions=8", "--controls=", "--control_methods=", *common]


def difference(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> float:
    """Return the largest difference of two runs' maps, of each map's largest value; infinite for other names."""
    if set(first) != set(second):
        return np.inf
    found = [0.0]
    for name, maps in first.items():
        if maps.tobytes() != second[name].tobytes():
            found.append(float(np.abs(maps - second[name]).max() / (np.abs(maps).max() or 1.0)) or np.inf)
    return max(found)


def main() -> int:
    """Compare, report, and return 1 where bytes differ that may not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default="explain,bim,clevr_xai")
    parser.add_argument("--circumstances", default=",".join(name for name in CIRCUMSTANCES if name != "all"))
    given, failures = parser.parse_args(), 0
    for target in given.targets.split(","):
        with tempfile.TemporaryDirectory(prefix="same_bytes_") as directory:
            if target == "bim":
                construct = [*targets.CONSTRUCT, f"--data_dir={directory}/set"]
                variables = targets.environment(pathlib.Path(directory) / "cache")
                subprocess.run([sys.executable, *construct], cwd=ROOT, env=variables, check=True, capture_output=True)
            usual = written(target, "usual", pathlib.Path(directory) / "usual")
            for circumstance in given.circumstances.split(","):
                other = written(target, circumstance, pathlib.Path(directory) / circumstance.replace(" ", "_"))
                found = difference(usual, other)
                allowed = ROUNDING if circumstance in ("batch size", "threads") else 0.0
                failures += found > allowed
                print(f"{target}, {circumstance}: {f'differs by {found:.1e}' if found else 'same bytes'}", flush=True)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
