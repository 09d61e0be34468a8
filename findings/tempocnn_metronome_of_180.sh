#!/usr/bin/env bash
# tempocnn: a metronome of 180 beats a minute has the tempo 134; those of 120, 170 and 200 are right.
#
# Guess: 180, or half of it; 120 to 2. Written before the run.
# Seen with tempocnn 0.0.8, TensorFlow 2.17.0, the network ismir2018, 30 s of a click of 1 kHz: 120, 170, 134, 200 for
# 120, 170, 180, 200 beats a minute. 12, 20 and 60 s of 180 give 134, too.
# Two readers without tools, asked pointedly, answered 90 for 180, and 100 for 200.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet tempocnn==0.0.8 tensorflow==2.17.0 librosa==0.11.0 soundfile==0.14.0 \
  numpy==1.26.4 setuptools==75.8.0
cd "$folder"
TF_CPP_MIN_LOG_LEVEL=3 "$folder/venv/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import numpy as np
import soundfile
from tempocnn.classifier import TempoClassifier
from tempocnn.feature import read_features

print("tempocnn", version("tempocnn"))
rate = 11025
network = TempoClassifier("ismir2018")
times = np.arange(int(0.05 * rate)) / rate
click = 0.7 * np.exp(-200 * times) * np.sin(2 * np.pi * 1000 * times)


def tempo(beats, seconds=30):
    sound = np.zeros(rate * seconds)
    for start in np.arange(0, seconds - 0.1, 60 / beats):
        sound[int(start * rate) :][: len(click)] += click
    soundfile.write("sound.wav", sound, rate)
    return float(network.estimate_tempo(read_features("sound.wav")))


found = {beats: tempo(beats) for beats in (120, 170, 180, 200)}
lengths = {seconds: tempo(180, seconds) for seconds in (12, 20, 60)}
print(found, "180 by seconds:", lengths)
assert all(abs(found[beats] - beats) <= 2 for beats in (120, 170, 200))
assert all(abs(one - 134) <= 3 for one in [found[180], *lengths.values()])
PYTHON
