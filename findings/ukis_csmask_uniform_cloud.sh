#!/usr/bin/env bash
# ukis-csmask: a picture that is a thick cloud everywhere is clear everywhere; a smooth texture of 5 % makes it cloud.
#
# Guess: a bright picture of one value is cloud in its middle. Written before the run, of 0.8 in all bands; it was 63 %
# clear. The picture below was tried next.
# Seen with ukis-csmask 1.0.0 and ONNX Runtime 1.32.0, L1C, 256 x 256 pixels with the reflectances 0.6, 0.6, 0.6, 0.65,
# 0.4, 0.3: all are clear. So they are with noise of 5 %, a factor for each pixel. With this noise smoothed by a Gaussian of
# two pixels, and again of 5 %, all are cloud.
# Two readers without tools, asked pointedly, answered that all are cloud.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet ukis-csmask==1.0.0 onnxruntime==1.32.0 numpy==2.4.6 scipy==1.17.1
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
from importlib.metadata import version

import numpy as np
from scipy.ndimage import gaussian_filter
from ukis_csmask.mask import CSmask

print("ukis-csmask", version("ukis-csmask"))
bands = ["blue", "green", "red", "nir", "swir16", "swir22"]
cloud = np.array([0.6, 0.6, 0.6, 0.65, 0.4, 0.3])


def shares(picture):
    mask = CSmask(img=picture.astype(np.float32), product_level="l1c", band_order=bands, nodata_value=0)
    return {name: float((mask.csm == label).mean()) for label, name in enumerate(["clear", "cloud", "shadow"])}


noise = np.random.default_rng(0).normal(size=(256, 256))
texture = gaussian_filter(noise, 2)
found = {}
for name, change in {"uniform": 0 * noise, "noise": noise, "texture": texture / texture.std()}.items():
    found[name] = shares(cloud * (1 + 0.05 * change[..., None]))
    print(name, found[name])
assert found["uniform"]["clear"] > 0.95 and found["noise"]["clear"] > 0.95 and found["texture"]["cloud"] > 0.95
PYTHON
