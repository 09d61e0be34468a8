"""A small network of Keras on PyTorch, and the two files of it in the folder ``keras_on_torch``.

    KERAS_BACKEND=torch python tests/attribution/model/keras_on_torch_models.py

writes them again. That needs torch, jax, tensorflow and torchax (``pip install --no-deps torchax``); the files are
committed because the tests run without torch.

- ``network.keras`` is what ``keras.Model.save`` writes.
- ``exported`` is what ``keras.Model.export`` writes. Keras has torch_xla lower the network to StableHLO. torch_xla's
  last release (2.9.0) does not import with torch 2.13, so its successor torchax lowers it here; all else is Keras'
  own exporter. The batch size is fixed, as Keras' documentation asks for on PyTorch.
"""

import enum
import os
import pathlib
import shutil
import sys
import types

import numpy as np

FOLDER = pathlib.Path(__file__).parent / "keras_on_torch"
BATCH = 2


def network():
    """Return a convolutional network on images ``(8, 8, 3)`` with three classes, and weights that are always the same.

    It runs on the backend that Keras has.
    """
    import keras

    image = keras.Input((8, 8, 3), name="image")
    x = keras.layers.Conv2D(4, 3, activation="relu", name="convolution")(image)
    x = keras.layers.BatchNormalization(name="normalization")(x)
    x = keras.layers.GlobalAveragePooling2D(name="pooling")(x)
    model = keras.Model(image, keras.layers.Dense(3, name="classes")(x), name="network")
    generator = np.random.default_rng(0)
    model.set_weights([generator.uniform(0.2, 1, weight.shape) * _sign(weight, generator) for weight in model.weights])
    return model


def _sign(weight, generator):
    """Return random signs; of normalization's scale and variance, ones."""
    positive = weight.path.rsplit("/", 1)[-1] in ("gamma", "moving_variance")
    return 1 if positive else generator.choice([-1, 1], weight.shape)


class _Kind(enum.Enum):
    """Where an argument of a lowered network comes from, as torch_xla reports it to Keras."""

    PARAMETER = 1
    INPUT_ARG = 2
    CONSTANT = 3


def _lower(exported, _):
    """Lower a ``torch.export.ExportedProgram``; what is returned has the attributes of torch_xla's that Keras reads."""
    import jax
    import torchax.export

    weights, program = torchax.export.exported_program_to_stablehlo(exported)
    arrays = [np.asarray(weight) for weight in jax.tree.leaves(weights)]
    arguments = [
        types.SimpleNamespace(type_=_Kind.PARAMETER, name=f"lifted_{number}")
        if number < len(arrays)
        else types.SimpleNamespace(type_=_Kind.INPUT_ARG, position=number - len(arrays))
        for number in program.module_kept_var_idx
    ]
    outputs = [
        types.SimpleNamespace(dtype=a.dtype.name, shape=list(a.shape), dynamic_dims=[]) for a in program.out_avals
    ]
    meta = types.SimpleNamespace(input_locations=arguments, output_signature=outputs, input_pytree_spec="")
    function = types.SimpleNamespace(meta=meta, bytecode=program.mlir_module_serialized)
    state = {f"lifted_{number}": array for number, array in enumerate(arrays)}
    bundle = types.SimpleNamespace(state_dict=state, additional_constants=[], stablehlo_funcs=[function])
    return types.SimpleNamespace(_bundle=bundle)


def _let_torchax_import():
    """Let torchax 0.0.13, written for an older torch, import: it names overloads that are gone, and needs flax."""
    import torch

    checkpoints = types.ModuleType("torchax.checkpoint")
    checkpoints.save_checkpoint = checkpoints.load_checkpoint = None
    sys.modules["torchax.checkpoint"] = checkpoints
    look_up = torch._ops.OpOverloadPacket.__getattr__

    def overload(packet, name):
        try:
            return look_up(packet, name)
        except AttributeError:
            if name.startswith("__"):
                raise
            return name  # never looked up as a key of a table

    torch._ops.OpOverloadPacket.__getattr__ = overload


def main():
    """Write both files."""
    _let_torchax_import()
    import jax
    import keras
    from keras.src.backend.torch import export

    jax.config.update("jax_traceback_in_locations_limit", 0)  # no paths of this machine in the file
    export.torch_xla = types.SimpleNamespace(
        stablehlo=types.SimpleNamespace(
            StableHLOExportOptions=lambda override_tracing_arguments: None,
            exported_program_to_stablehlo=_lower,
            VariableType=_Kind,
        )
    )
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    model = network()
    model.save(FOLDER / "network.keras")
    spec = keras.InputSpec(shape=(BATCH, 8, 8, 3), dtype="float32")
    model.export(FOLDER / "exported", verbose=False, input_signature=[spec])


if __name__ == "__main__":
    if os.environ.get("KERAS_BACKEND") != "torch":
        sys.exit("set KERAS_BACKEND=torch")
    main()
