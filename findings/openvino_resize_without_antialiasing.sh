#!/usr/bin/env bash
# OpenVINO: an ONNX picture is made smaller without antialiasing, although the file demands it.
#
# Guess: OpenVINO gives ONNX Runtime's numbers to 1e-4, or refuses the model. Written before the run of a list of ops.
# Seen with OpenVINO 2026.4.1 and ONNX Runtime 1.32.0: Resize with antialias=1 of 1..25 to 2 x 2 gives 5.5, 8, 18, 20.5,
# the numbers of antialias=0; ONNX Runtime and onnx's reference give 6.28, 8.52, 17.48, 19.72. No error, no warning.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet openvino==2026.4.1 onnx==1.23.2 onnxruntime==1.32.0 \
  numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
import openvino
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

print("openvino", openvino.__version__, "onnxruntime", onnxruntime.__version__)
picture = np.arange(1, 26, dtype=np.float32).reshape(1, 1, 5, 5)


def outputs(antialias):
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear", antialias=antialias)
    info = [helper.make_tensor_value_info(*one) for one in (("x", 1, (1, 1, 5, 5)), ("y", 1, (1, 1, 2, 2)))]
    sizes = helper.make_tensor("sizes", TensorProto.INT64, [4], [1, 1, 2, 2])
    graph = helper.make_graph([node], "resize", info[:1], info[1:], [sizes])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, "resize.onnx")
    session = onnxruntime.InferenceSession("resize.onnx", providers=["CPUExecutionProvider"])
    compiled = openvino.Core().compile_model("resize.onnx", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    by_reference = ReferenceEvaluator(model).run(None, {"x": picture})[0]
    return [np.ravel(one) for one in (compiled([picture])[0], session.run(None, {"x": picture})[0], by_reference)]


(plain, *_), (found, runtime, reference) = outputs(0), outputs(1)
print("OpenVINO", found, "ONNX Runtime", runtime, "reference", reference)
np.testing.assert_allclose(runtime, reference, atol=1e-4)
np.testing.assert_array_equal(found, plain)
assert np.abs(found - runtime).max() > 0.7
PYTHON
