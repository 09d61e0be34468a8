#!/usr/bin/env bash
# silero-vad: the file `silero_vad_half.onnx` is neither in half precision nor the same network.
#
# Guess: it is the network of `silero_vad.onnx` with weights of float16; probabilities agree to 0.01. Not written down
# before the run, which was to compare the other files with the TorchScript one (guess: equal to 1e-4).
# Seen with silero-vad 6.2.3 and ONNX Runtime 1.32.0: every weight is of float32, and no tensor of the network, but for
# the fixed Fourier basis, is near one of silero_vad_16k_op15.onnx, which gives the same as silero_vad.onnx to 1e-5. For
# a vowel made of three formants, whose loudness changes four times a second, the mean probability of speech is 0.2, and
# 0.9 by the other file; one window differs by 0.94.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnxruntime==1.32.0 onnx==1.23.2 numpy==2.3.5 scipy==1.17.1
"$folder/venv/bin/pip" install --quiet --no-deps --target="$folder/silero" silero-vad==6.2.3
cd "$folder/silero/silero_vad/data"
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
from scipy.signal import lfilter

vowel = (np.arange(16000) % 133 == 0).astype(float)  # pulses of 120 Hz at 16 kHz
for formant, width in ((730, 90), (1090, 110), (2440, 170)):
    radius = np.exp(-np.pi * width / 16000)
    vowel = lfilter([1], [1, -2 * radius * np.cos(2 * np.pi * formant / 16000), radius**2], vowel)
sound = 0.25 * vowel / np.abs(vowel).max() * (1 + np.sin(2 * np.pi * 4 * np.arange(16000) / 16000))
sound = sound.astype(np.float32)


def probabilities(name):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(name, options, providers=["CPUExecutionProvider"])
    state, before, found = np.zeros((2, 1, 128), np.float32), np.zeros((1, 64), np.float32), []
    for start in range(0, 16000 - 511, 512):
        window = sound[None, start : start + 512]
        values = {"input": np.hstack([before, window]), "state": state, "sr": np.array(16000)}
        values = {given.name: values[given.name] for given in session.get_inputs()}
        (probability, state), before = session.run(None, values), window[:, -64:]
        found.append(probability.item())
    return np.array(found)


def weights(name):
    tensors = onnx.load(name).graph.initializer
    return {tensor.name.removeprefix("model."): onnx.numpy_helper.to_array(tensor) for tensor in tensors}


whole, one, half = map(probabilities, ("silero_vad.onnx", "silero_vad_16k_op15.onnx", "silero_vad_half.onnx"))
print(f"mean {whole.mean():.3f} and by half {half.mean():.3f}, largest difference {np.abs(whole - half).max():.3f}")
assert np.abs(whole - one).max() < 1e-4 and np.abs(whole - half).max() > 0.5
one, half = weights("silero_vad_16k_op15.onnx"), weights("silero_vad_half.onnx")
for name in ("encoder.0.reparam_conv.weight", "decoder.rnn.weight_hh"):
    print(name, half[name].dtype, "correlation", np.corrcoef(one[name].ravel(), half[name].ravel())[0, 1])
    assert half[name].dtype == np.float32 and abs(np.corrcoef(one[name].ravel(), half[name].ravel())[0, 1]) < 0.5
PYTHON
