"""The package works alone: copied without the rest of the repository, it explains a SavedModel."""

import os
import pathlib
import shutil
import subprocess
import sys

import attribution

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = """
import sys

for name in ("attribution_benchmarks", "bim", "svea", "clevr_xai", "tools"):
    sys.modules[name] = None  # importing it raises ImportError, wherever it is installed

import numpy as np
import attribution

model = attribution.load_model(sys.argv[1], score="probabilities")
maps = attribution.explain("integrated_gradients", model, np.ones((2, 40, 1), np.float32))
assert maps.shape == (2, 40, 1) and np.abs(maps).max() > 0 and not {"cv2", "pandas", "sklearn"} & {*sys.modules}
print(attribution.__file__, attribution.__version__)
"""


def test_the_folder_alone_explains_a_saved_model(tmp_path):
    shutil.copytree(ROOT / "attribution", tmp_path / "attribution", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "saved_models/svea/baseline", tmp_path / "baseline")
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, "baseline"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    file, version = run.stdout.split()[-2:]
    assert pathlib.Path(file).resolve() == (tmp_path / "attribution/__init__.py").resolve()
    assert version == attribution.__version__
