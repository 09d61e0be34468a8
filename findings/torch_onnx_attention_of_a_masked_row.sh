#!/usr/bin/env bash
# PyTorch: attention of a row that is masked everywhere is 0; in an ONNX file it is the mean of all values.
#
# Guess: what `torch.onnx.export(dynamo=True)` writes is equal to PyTorch to 1e-4 in ONNX Runtime. Written before the
# run of a list of operations, of which this is one.
# Seen with PyTorch 2.13.0, onnxscript 0.7.2, ONNX Runtime 1.32.0 on a CPU: `scaled_dot_product_attention` with a
# boolean mask whose second row is False gives zeros for that row in PyTorch, and by the older exporter. By the newer
# one it gives 0.4, 0.5, 0.6, 0.7, the mean over three positions, all of which are masked. The other rows are right.
# With `opset_version=23`, which has an operator for attention, the row is zeros.
# Two readers without tools, asked pointedly, answered NaN, and zeros.
# Cause, in the source of onnxscript: masked positions add the lowest finite float, not -inf, so that the scores of such
# a row round to one number and the softmax is uniform. The file then puts 0 for NaN, which no longer occurs.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 onnxscript==0.7.2 onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import io

import numpy as np
import onnxruntime
import torch

print("torch", torch.__version__, "onnxruntime", onnxruntime.__version__)


class Attention(torch.nn.Module):
    def forward(self, q, mask):
        return torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask)


q = torch.arange(12.0).reshape(1, 1, 3, 4) / 10
mask = torch.tensor([[True, False, False], [False, False, False], [True, True, True]])
ours = Attention()(q, mask).numpy()[0, 0]


def rows(file):
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    return session.run(None, dict(zip(names, (q.numpy(), mask.numpy()))))[0][0, 0]


options = {"dynamo": True, "verbose": False}
newer, opset_23 = (
    rows(torch.onnx.export(Attention(), (q, mask), opset_version=one, **options).model_proto.SerializeToString())
    for one in (None, 23)
)
buffer = io.BytesIO()
torch.onnx.export(Attention(), (q, mask), buffer, dynamo=False)
older = rows(buffer.getvalue())
for name, found in {"PyTorch": ours, "newer": newer, "older": older, "opset 23": opset_23}.items():
    print(name, *found.round(3))
np.testing.assert_array_equal(ours[1], np.zeros(4))
np.testing.assert_allclose([older, opset_23], [ours, ours], rtol=0, atol=1e-6)
np.testing.assert_allclose(newer[1], q[0, 0].mean(0), rtol=0, atol=1e-6)
np.testing.assert_allclose(newer[[0, 2]], ours[[0, 2]], rtol=0, atol=1e-6)
PYTHON
