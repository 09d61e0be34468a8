#!/usr/bin/env bash
# s2cloudless: a dark picture, 2 % reflectance in every band, is a cloud; at 10 % it is none, at 20 % it is one again.
#
# Guess: a probability below 0.1 for 5 % reflectance in every band, rising with brightness from 10 %. Written before the
# run.
# Seen with s2cloudless 1.7.3 and LightGBM 4.7.0, a picture of one value: 0.00 for 0, 0.85 for 0.02, 0.74 for 0.05, 0.31
# for 0.1, 0.89 for 0.2, 1.00 for 0.5. Reflectances typical of plants and of water get below 0.05, of a cloud above 0.9.
# Two readers without tools, asked pointedly, answered 0.05, 0.3, 0.9, 0.99, 0.99 and 0.01, 0.01, 0.03, 0.25, 0.95 for 0.02,
# 0.05, 0.1, 0.2, 0.5.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet s2cloudless==1.7.3 lightgbm==4.7.0 sentinelhub==3.12.0 \
  opencv-python-headless==5.0.0.93 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
from importlib.metadata import version

import numpy as np
from s2cloudless import S2PixelCloudDetector

print("s2cloudless", version("s2cloudless"))
detector = S2PixelCloudDetector(average_over=4, dilation_size=2, all_bands=False)


def cloud(reflectances):
    picture = np.broadcast_to(reflectances, (1, 20, 20, 10)).astype(float)
    return float(detector.get_cloud_probability_maps(picture)[0, 10, 10])


for reflectance, seen in {0: 0.0, 0.02: 0.845, 0.05: 0.744, 0.1: 0.308, 0.2: 0.887, 0.5: 0.999}.items():
    found = cloud(reflectance)
    print(reflectance, round(found, 3))
    assert abs(found - seen) < 0.02, (reflectance, seen)
# Sentinel-2's bands 1, 2, 4, 5, 8, 8A, 9, 10, 11, 12
plants = cloud([0.12, 0.09, 0.05, 0.1, 0.35, 0.38, 0.1, 0.002, 0.2, 0.1])
water = cloud([0.12, 0.08, 0.03, 0.02, 0.01, 0.01, 0.005, 0.001, 0.003, 0.002])
thick = cloud([0.6, 0.6, 0.6, 0.62, 0.65, 0.65, 0.3, 0.02, 0.4, 0.3])
print("plants", round(plants, 3), "water", round(water, 3), "cloud", round(thick, 3))
assert plants < 0.05 and water < 0.05 and thick > 0.9
PYTHON
