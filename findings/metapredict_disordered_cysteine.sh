#!/usr/bin/env bash
# metapredict: a chain of cysteine alone is disordered, as one of glycine is; the first network says the opposite.
#
# Guess: cysteine below 0.3, glycine above 0.6, leucine below 0.15. Written before the run.
# Seen with metapredict 3.1.1 and PyTorch 2.13.0, means over 100 residues, 0 ordered and 1 disordered: cysteine 0.89,
# glycine 0.89, leucine 0.03. Cysteine with version="V1" 0.13, with "V2" 0.83.
# Two readers without tools, asked pointedly, answered 0.15 and 0.2 for cysteine.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet metapredict==3.1.1 torch==2.13.0 numpy==2.4.6 scipy==1.17.1
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import metapredict
import numpy as np

print("metapredict", version("metapredict"))


def disorder(letter, **options):
    return round(float(np.mean(metapredict.predict_disorder(letter * 100, **options))), 3)


default = {letter: disorder(letter) for letter in "CGL"}
networks = {name: disorder("C", version=name) for name in ("V1", "V2", "V3")}
print("default", default, "cysteine", networks)
assert networks["V3"] == default["C"] and abs(default["C"] - 0.89) < 0.05
assert abs(default["G"] - 0.885) < 0.05 and default["L"] < 0.15
assert networks["V1"] < 0.25 and 0.7 < networks["V2"] < 0.95
PYTHON
