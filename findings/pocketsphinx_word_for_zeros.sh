#!/usr/bin/env bash
# pocketsphinx: digital silence of any length is recognised as the word "dog".
#
# Guess: three seconds of zeros decode to nothing. Written before the run.
# Seen with pocketsphinx 5.1.1, its bundled English models, defaults, 16 kHz: zeros of 0.5 to 30 s decode to "dog" with
# probability 1.0; so do samples that are all 1. White noise of standard deviation 0.1 decodes to nothing.
# Two readers without tools, asked pointedly, answered an empty string.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pocketsphinx==5.1.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
from importlib.metadata import version

import numpy as np
from pocketsphinx import Decoder

print("pocketsphinx", version("pocketsphinx"))
rate = 16000


def words(samples):
    decoder = Decoder(samprate=rate, loglevel="FATAL")
    decoder.start_utt()
    decoder.process_raw(samples.astype(np.int16).tobytes(), full_utt=True)
    decoder.end_utt()
    best = decoder.hyp()
    return best.hypstr if best else ""


for seconds in (0.5, 3, 10):
    zeros = np.zeros(int(seconds * rate))
    found = words(zeros), words(zeros + 1)
    print(f"{seconds} s: zeros {found[0]!r}, ones {found[1]!r}")
    assert found == ("dog", "dog")
noise = words(3277 * np.random.default_rng(0).normal(size=3 * rate))
print(f"noise {noise!r}")
assert noise == ""
PYTHON
