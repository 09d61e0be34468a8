"""Write a network by every exporter, read each file by every loader, and write the table of docs/library_facts.md.

The network is a convolution with a stride, ReLU, average pooling, enlargement by two, a second convolution, and a
softmax of ten classes; NumPy computes it in float64. ``--run`` needs the packages of ``PACKAGES``, in an environment of
their own, and is no part of CI::

    python -m venv matrix && matrix/bin/pip install $(python tools/docs/exporters_and_loaders.py --packages)
    matrix/bin/python tools/docs/exporters_and_loaders.py --run  # docs/library_facts.json
    python tools/docs/exporters_and_loaders.py  # the table, from docs/library_facts.json
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np

PACKAGES = {
    "tensorflow": "2.21.0", "keras": "3.15.1", "tf2onnx": "1.17.0", "torch": "2.14.1", "onnx": "1.23.2",
    "onnxscript": "0.7.2", "onnxruntime": "1.32.0", "openvino": "2026.4.1", "opencv-python-headless": "5.0.0.93",
    "onnx2torch": "1.5.15", "ai-edge-litert": "2.3.0", "numpy": "2.4.6",
}  # fmt: skip
PAGE = Path(__file__).resolve().parents[2] / "docs" / "library_facts.md"
STORED = PAGE.with_suffix(".json")
FILES = {
    "Keras, tf_saved_model": "saved_model",
    "Keras, onnx": "keras.onnx",
    "Keras, openvino": "keras.xml",
    "Keras, litert": "keras.tflite",
    "TFLiteConverter, float16": "float16.tflite",
    "TFLiteConverter, int8 weights": "weights.tflite",
    "OpenVINO, save_model": "openvino.xml",
    "torch.onnx, dynamo": "dynamo.onnx",
    "torch.onnx, older": "older.onnx",
    "torch.export": "torch.pt2",
}


def parameters():
    """Return the picture, shape (1, 16, 16, 3), and the kernels and biases, all float32 from one seed."""
    random = np.random.RandomState(0)
    shapes = {"first": (3, 3, 3, 6), "second": (3, 3, 6, 8), "dense": (72, 10)}
    weights = {name: random.randn(*shape).astype(np.float32) / 3 for name, shape in shapes.items()}
    weights |= {name + "_bias": random.randn(shape[-1]).astype(np.float32) for name, shape in shapes.items()}
    return random.rand(1, 16, 16, 3).astype(np.float32), weights


def oracle():
    """Return the ten probabilities, float64."""
    picture, weights = parameters()
    weights = {name: value.astype(np.float64) for name, value in weights.items()}

    def convolve(maps, name, stride):
        windows = np.lib.stride_tricks.sliding_window_view(maps, (3, 3), (0, 1))[::stride, ::stride]
        return np.einsum("hwcij,ijco->hwo", windows, weights[name]) + weights[name + "_bias"]

    maps = np.maximum(convolve(picture[0].astype(np.float64), "first", 2), 0)[:6, :6]
    maps = maps.reshape(3, 2, 3, 2, 6).mean((1, 3)).repeat(2, 0).repeat(2, 1)
    maps = np.maximum(convolve(np.pad(maps, ((1, 1), (1, 1), (0, 0))), "second", 2), 0)
    scores = maps.ravel() @ weights["dense"] + weights["dense_bias"]
    return np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()


def of_keras():
    """Return the Keras model."""
    import keras

    weights, layers = parameters()[1], keras.layers
    model = keras.Sequential([
        keras.Input((16, 16, 3), batch_size=1), layers.Conv2D(6, 3, strides=2, activation="relu"),
        layers.AveragePooling2D(2), layers.UpSampling2D(2), layers.ZeroPadding2D(1),
        layers.Conv2D(8, 3, strides=2, activation="relu"), layers.Flatten(), layers.Dense(10, activation="softmax"),
    ])  # fmt: skip
    model.set_weights([weights[name + end] for name in ("first", "second", "dense") for end in ("", "_bias")])
    model(parameters()[0])  # an export as ONNX needs a model that was called
    return model


def of_torch():
    """Return the PyTorch module with the same weights; it takes the picture with channels last."""
    import torch

    _, weights = parameters()
    tensors = {name: torch.tensor(value) for name, value in weights.items()}

    class Network(torch.nn.Module):
        def forward(self, picture):
            first, second = (tensors[name].permute(3, 2, 0, 1) for name in ("first", "second"))
            functional = torch.nn.functional
            maps = functional.conv2d(picture.permute(0, 3, 1, 2), first, tensors["first_bias"], stride=2).relu()
            maps = functional.interpolate(functional.avg_pool2d(maps, 2), scale_factor=2.0)
            maps = functional.conv2d(maps, second, tensors["second_bias"], stride=2, padding=1).relu()
            return (maps.permute(0, 2, 3, 1).flatten(1) @ tensors["dense"] + tensors["dense_bias"]).softmax(1)

    return Network().eval()


def write(name):
    """Write the file of one exporter in the current folder."""
    path = FILES[name]
    if name.startswith("Keras"):
        of_keras().export(path, format=name.partition(", ")[2], verbose=False)
    elif name.startswith("TFLiteConverter"):
        import tensorflow as tf

        converter = tf.lite.TFLiteConverter.from_keras_model(of_keras())
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.target_spec.supported_types = [tf.float16] if "float16" in name else []
        Path(path).write_bytes(converter.convert())
    elif name.startswith("OpenVINO"):
        import openvino

        openvino.save_model(openvino.convert_model("keras.onnx"), path)
    else:
        import torch

        picture = (torch.tensor(parameters()[0]),)
        if name == "torch.export":
            torch.export.save(torch.export.export(of_torch(), picture), path)
        else:
            torch.onnx.export(of_torch(), picture, path, dynamo="dynamo" in name, verbose=False)


def _tensorflow(path, picture):
    import tensorflow as tf

    return next(iter(tf.saved_model.load(path).signatures["serving_default"](tf.constant(picture)).values()))


def _onnxruntime(path, picture):
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: picture})[0]


def _reference(path, picture):
    from onnx import load
    from onnx.reference import ReferenceEvaluator

    model = load(path)
    return ReferenceEvaluator(model).run(None, {model.graph.input[0].name: picture})[0]


def _openvino(path, picture):
    import openvino

    options = {"INFERENCE_PRECISION_HINT": "f32"}
    return openvino.Core().compile_model(path, "CPU", options)([picture])[0]


def _opencv(path, picture):
    import cv2

    network = cv2.dnn.readNet(path)
    network.setInput(picture)
    return network.forward()


def _onnx2torch(path, picture):
    import onnx
    import onnx2torch
    import torch

    return onnx2torch.convert(onnx.load(path))(torch.tensor(picture)).detach()


def _litert(path, picture):
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(path).get_signature_runner()
    return next(iter(runner(**dict.fromkeys(runner.get_input_details(), picture)).values()))


def _torch(path, picture):
    import torch

    return torch.export.load(path).module()(torch.tensor(picture))


LOADERS = {
    "TensorFlow": (_tensorflow, ""), "ONNX Runtime": (_onnxruntime, ".onnx"), "onnx's reference": (_reference, ".onnx"),
    "OpenVINO": (_openvino, "|.onnx|.tflite|.xml"), "OpenCV": (_opencv, ".onnx|.tflite"),
    "onnx2torch": (_onnx2torch, ".onnx"), "LiteRT": (_litert, ".tflite"), "PyTorch": (_torch, ".pt2"),
}  # fmt: skip


def cell(writer, loader):
    """Return the largest difference of a probability from the oracle's, of a file in the current folder."""
    found = np.asarray(LOADERS[loader][0](FILES[writer], parameters()[0]), np.float64).ravel()
    return float(np.abs(found - oracle()).max())


def _apart(*words):
    """Run this program in a process of its own and return its last line, or the error in words."""
    done = subprocess.run([sys.executable, __file__, *words], capture_output=True, text=True, errors="replace")
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines() or [""]
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception|error)\b", line)]
    return lines[-1] if done.returncode == 0 else (errors or [f"ended with {done.returncode}"])[-1][:120]


def run():
    """Fill the matrix, one process for each file and cell, and store it with the versions."""
    cells = {}
    os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow"}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for writer, path in FILES.items():
            said = _apart("--write", writer)
            readers = [loader for loader, (_, ends) in LOADERS.items() if Path(path).suffix in ends.split("|")]
            for loader in readers:
                found = _apart("--cell", writer, loader) if Path(path).exists() else f"not written: {said}"
                print(writer, loader, found, sep=" | ", flush=True)
                cells.setdefault(writer, {})[loader] = found
        os.chdir("/")
    stored = {"versions": {name: version(name) for name in PACKAGES}, "cells": cells}
    STORED.write_text(json.dumps(stored, indent=1) + "\n", "utf-8")


def table(stored):
    """Return the versions and the matrix as Markdown: a row for each file, a column for each loader."""
    versions = ", ".join(f"{name} {number}" for name, number in stored["versions"].items())
    head = ["file", *LOADERS]
    rows = [[writer, *(_words(cells.get(loader)) for loader in LOADERS)] for writer, cells in stored["cells"].items()]
    lines = ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]
    return f"Versions: {versions}.\n\n" + "\n".join(lines)


def _words(found):
    try:
        return "" if found is None else f"{float(found):.0e}"
    except ValueError:
        kind, _, message = found.partition(": ")
        name = re.search(r"operation_type='(\w+)'|\((-\d+):", message)  # onnx2torch's operation, OpenCV's number
        return f"{kind}, {name[1] or name[2]}" if name else found.replace("|", "/")


def main(arguments=None):
    """Write the table, or do what the options say."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--packages", action="store_true", help="print what --run needs")
    parser.add_argument("--run", action="store_true", help="fill docs/library_facts.json")
    parser.add_argument("--write", choices=FILES, help=argparse.SUPPRESS)
    parser.add_argument("--cell", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.packages:
        print(*(f"{name}=={number}" for name, number in PACKAGES.items()))
    elif options.write:
        write(options.write)
    elif options.cell:
        print(cell(*options.cell))
    elif options.run:
        run()
    else:
        sys.path.insert(0, str(PAGE.parents[1]))
        from tools.docs.page_parts import replace_parts

        replace_parts(PAGE, {"matrix": table(json.loads(STORED.read_text("utf-8")))})


if __name__ == "__main__":
    main()
