#!/usr/bin/env bash
# torchfcpe: a pure sine of 110 Hz gets a pitch over 3 % too high, one of 55 Hz none.
#
# Guess: every network for pitch gives a sine's frequency within 1 %. Written before the run, of 440 Hz, where it holds.
# Seen with torchfcpe 0.0.4, its bundled model and its default decoder local_argmax, PyTorch 2.9.1 on a CPU, one second
# at 16 kHz, median over the frames: amplitude 0.3 gives 113.8 Hz, 0.5 gives 113.4 Hz, 1 gives 112.8 Hz, and 0.1 gives
# 0, no voice. 104 Hz (108) and 108 Hz (111) are too high as well; 100, 116, 220 and 440 Hz are right to 1 %. 55 Hz
# gives 0, though the model's lowest pitch is 32.7 Hz. Harmonics 1 and 2, and 1 to 10, of 110 Hz give 110 Hz. Harmonics
# 2 to 10 of 200 Hz give 400 Hz. CREPE (torchcrepe 0.0.24) gives 110.3 Hz for the sine and 201 Hz for harmonics 2 to 10.
# A reader without tools answered 110 Hz.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torchfcpe==0.0.4 torch==2.9.1 torchaudio==2.9.1 local-attention==1.11.2 \
  einops==0.8.2 hyper-connections==0.4.11 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
from importlib.metadata import version

import numpy as np
import torch
import torchfcpe

print("torchfcpe", version("torchfcpe"), "torch", torch.__version__)
rate = 16000
seconds = np.arange(rate) / rate
network = torchfcpe.spawn_bundled_infer_model(device="cpu")


def pitch(frequency, amplitude=0.3, harmonics=(1,)):
    tone = sum(np.sin(2 * np.pi * frequency * one * seconds + one) for one in harmonics)
    sound = torch.from_numpy(amplitude * tone / len(harmonics)).float()[None, :, None]
    return float(network.infer(sound, sr=rate, decoder_mode="local_argmax", threshold=0.006).median())


sines = {frequency: pitch(frequency) for frequency in (55, 100, 104, 108, 110, 116, 220, 440)}
print("sines of amplitude 0.3:", {frequency: round(found, 1) for frequency, found in sines.items()})
loudness = {amplitude: pitch(110, amplitude) for amplitude in (0.1, 0.3, 0.5, 1.0)}
print("110 Hz by amplitude:", {amplitude: round(found, 1) for amplitude, found in loudness.items()})
voices = {last: pitch(110, harmonics=range(1, last + 1)) for last in (2, 10)}
print("110 Hz with harmonics up to:", {last: round(found, 1) for last, found in voices.items()})
missing = pitch(200, harmonics=range(2, 11))
print("harmonics 2 to 10 of 200 Hz:", round(missing, 1))
assert 113.4 < sines[110] < 114.2 and sines[104] > 1.03 * 104 and sines[108] > 1.03 * 108
assert all(abs(sines[frequency] / frequency - 1) < 0.01 for frequency in (100, 116, 220, 440))
assert sines[55] == 0 and loudness[0.1] == 0 and 113 < loudness[0.5] < 113.8 and 112.4 < loudness[1.0] < 113.3
assert all(abs(found / 110 - 1) < 0.005 for found in voices.values()) and abs(missing - 400) < 4
PYTHON
