#!/usr/bin/env bash
# PyTorch: torch.logcumsumexp in an ONNX file gives -inf where a later number is larger by 150.
#
# Guess: what `torch.onnx.export(dynamo=True)` writes is equal to PyTorch to 1e-4 in ONNX Runtime. Written before the
# run of a list of operations, of which this is one; its input there was of standard normal numbers, for which it is
# right.
# Seen with PyTorch 2.13.0, onnxscript 0.7.2, ONNX Runtime 1.32.0 on a CPU, float32: -50, 50, 200, -20 give -inf, -inf,
# 200, 200; PyTorch gives -50, 50, 200, 200. No error, no warning. -1, 2, 5, 0 are right.
# Two readers without tools, asked pointedly, answered -50, 50, inf, inf.
# Cause, in the source of onnxscript: log(cumsum(exp(x - max))) + max, with the maximum of all numbers, also the later
# ones. Where all numbers so far are about 104 or more below it, their exponentials are 0 in float32.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 onnxscript==0.7.2 onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import onnxruntime
import torch

print("torch", torch.__version__, "onnxruntime", onnxruntime.__version__)


class Sum(torch.nn.Module):
    def forward(self, x):
        return torch.logcumsumexp(x, 0)


def outputs(*numbers):
    x = torch.tensor(numbers)
    file = torch.onnx.export(Sum(), (x,), dynamo=True, verbose=False).model_proto.SerializeToString()
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    return Sum()(x).numpy(), session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]


for numbers in ((-1.0, 2.0, 5.0, 0.0), (-50.0, 50.0, 200.0, -20.0)):
    ours, file = outputs(*numbers)
    print(numbers, "PyTorch", ours, "file", file)
    if numbers[0] == -1:
        np.testing.assert_allclose(file, ours, rtol=0, atol=1e-5)
np.testing.assert_array_equal(ours, [-50, 50, 200, 200])
np.testing.assert_array_equal(file, [-np.inf, -np.inf, 200, 200])
PYTHON
