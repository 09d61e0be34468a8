"""The function of a file that is explained: a signature of it, or what lies between two of its tensors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from attribution.errors import BadInput, listed
from attribution.graph._tf_internals import UnliftableError
from attribution.savedmodel.file import SavedFile, Signature, gist
from attribution.savedmodel.inputs import Expected, checked_feed


@dataclasses.dataclass(frozen=True)
class Target:
    """The function that is explained, as it was loaded.

    Attributes
    ----------
    path
        Of the file, as messages name it.
    loaded
        What was loaded of the file; the function's variables live no longer.
    function
        The concrete function.
    placeholders
        Name of an input as the signature calls it, to its tensor in the function's graph.
    inputs
        Shapes and types of the inputs that are not fixed, by these names.
    constants
        Values of the fixed ones, by the nodes of their placeholders.
    output
        The function's tensor that is explained.
    declared
        Shape and type of the output as the signature declares them, with the sizes that only it knows.
    other_outputs
        Names of the signature's other outputs.
    call
        The function from the inputs that are not fixed to the output.
    """

    path: Any
    loaded: Any
    function: Any
    placeholders: dict[str, Any]
    inputs: dict[str, tf.TensorSpec]
    constants: dict[str, np.ndarray]
    output: Any
    declared: tf.TensorSpec
    other_outputs: tuple[str, ...]
    call: Callable[..., Any]

    @property
    def nodes(self) -> dict[str, str]:
        """Name of an input that is not fixed, to its node."""
        return {name: self.placeholders[name].op.name for name in self.inputs}

    @property
    def aliases(self) -> dict[str, str]:
        """Name to the node behind it, of every identity of a TensorFlow 1 file; none of another file.

        Freezing removes identities, and networks of TensorFlow 1 like to name their layers by them.
        """
        aliases: dict[str, str] = {}
        for operation in self.loaded.graph.get_operations() if hasattr(self.loaded, "prune") else ():
            behind = operation
            while behind.type == "Identity":
                behind = behind.inputs[0].op
            if behind is not operation:
                aliases.setdefault(operation.name.split("/")[-1], behind.name)
                aliases[operation.name] = behind.name
        return aliases


def find_target(
    file: SavedFile,
    path: Any,
    signature: str | None = None,
    inputs: Any = None,
    output: str | None = None,
    loaded: Any = None,
    given: Any = None,
) -> Target:
    """Return the function that is explained; the arguments are those of ``freeze.freeze``.

    Raises
    ------
    BadInput
        If the signature, an input or the output does not exist or is ambiguous.
    """
    _check_names(signature, inputs, output)
    if loaded is not None and not hasattr(loaded, "signatures"):
        raise BadInput(f"loaded must be what SavedFile.load returned of this path, not {loaded!r}")
    if inputs:
        if file.has_objects:
            raise BadInput(f"inputs= names tensors of a TensorFlow 1 file, and '{path}' is none; leave it out")
        if output is None:
            raise BadInput("inputs= names tensors, so output= must name one too, as in 'resnet_model/final_dense:0'")
        loaded = file.load([], [output], inputs) if loaded is None else loaded
        function, declared = _between_tensors(loaded, file, path, list(inputs), output), Signature({}, {})
        nodes = [name.split(":")[0] for name in inputs]
        names, outputs = nodes if len(set(nodes)) == len(nodes) else list(inputs), [output]
    else:
        name = _chosen_signature(file, path, signature)
        loaded = file.load([name]) if loaded is None else loaded
        function, declared = loaded.signatures[name], file.signatures[name]
        # Nested structures are flattened in the order of their sorted keys.
        names, outputs = sorted(function.structured_input_signature[1]), sorted(function.structured_outputs)
        if not names:
            raise BadInput(f"signature '{name}' of '{path}' takes no input")
        if output is None and len(outputs) > 1:
            raise BadInput(
                f"'{path}' has several outputs; choose one with output= (--output_tensor=): {listed(outputs)}"
            )
    chosen = output or outputs[0]
    if chosen not in outputs:
        raise BadInput(f"'{path}' has no output '{chosen}'; its outputs are {listed(outputs)}")
    placeholders = dict(zip(names, function.inputs, strict=False))  # what follows are variables
    specs = {name: _declared(tensor, declared.inputs.get(name)) for name, tensor in placeholders.items()}
    fixed = _fixed(path, specs, given)
    if open_ := [name for name, tensor in placeholders.items() if name not in fixed and tensor.shape.rank is None]:
        raise BadInput(
            f"input '{open_[0]}' of '{path}' has no declared rank; export it with its shape, as in "
            f"tf.TensorSpec((None, 8), tf.{specs[open_[0]].dtype.name}), or fix its value with given= (--given=)"
        )

    def call(*arrays: Any) -> Any:
        values = {**fixed, **dict(zip((name for name in specs if name not in fixed), arrays, strict=True))}
        ordered = {name: tf.convert_to_tensor(values[name], tensor.dtype) for name, tensor in placeholders.items()}
        return function(*ordered.values())[0] if inputs else function(**ordered)[chosen]

    result = function.outputs[outputs.index(chosen)]
    return Target(
        path=path,
        loaded=loaded,
        function=function,
        placeholders=placeholders,
        inputs={name: spec for name, spec in specs.items() if name not in fixed},
        constants={placeholders[name].op.name: value for name, value in fixed.items()},
        output=result,
        declared=_declared(result, declared.outputs.get(chosen)),
        other_outputs=tuple(name for name in declared.outputs if name != chosen),
        call=call,
    )


def _check_names(signature: Any, inputs: Any, output: Any) -> None:
    """Raise ``BadInput`` where what should be a name, or a list of names, is of another type."""
    for what, name in (("signature", signature), ("output", output)):
        if not isinstance(name, (str, type(None))):
            raise BadInput(f"{what} must be a name, not {name!r}")
    if isinstance(inputs, (list, tuple)) and all(isinstance(name, str) for name in inputs):
        if len(set(inputs)) < len(inputs):
            raise BadInput(f"inputs names a tensor twice: {listed(inputs)}")
    elif inputs is not None:
        raise BadInput(f"inputs must be a list of tensors' names, such as ['input_tensor:0'], not {inputs!r}")


def _chosen_signature(file: SavedFile, path: Any, name: str | None) -> str:
    """Return the name of the signature to explain: the one wanted, ``serving_default``, ``serve``, or the only one."""
    names = list(file.signatures)
    if not names:
        way = "" if file.has_objects else "name its tensors, as in inputs=['input_tensor:0'], output='dense:0', or "
        raise BadInput(f"'{path}' has no signature; {way}export it with keras.Model.export, or with a signature")
    known = [one for one in ("serving_default", "serve") if one in names]
    chosen = name or (known[0] if known else names[0] if len(names) == 1 else None)
    if chosen is None or chosen not in names:
        wanted = f"has no signature '{name}'" if name else "has several signatures; choose one with signature="
        raise BadInput(f"'{path}' {wanted}; its signatures are {listed(names)}")
    if composite := file.signatures[chosen].composite:
        raise BadInput(
            f"signature '{chosen}' of '{path}' takes the ragged or sparse tensor '{composite}', whose rows have no "
            "common shape; export a signature that takes a dense (padded) tensor"
        )
    return chosen


def _between_tensors(loaded: Any, file: SavedFile, path: Any, inputs: list[str], output: str) -> Any:
    """Return the function between named tensors of a TensorFlow 1 file."""
    try:
        return loaded.prune(inputs, [output])
    except (KeyError, ValueError, UnliftableError) as error:
        raise BadInput(
            f"'{path}': {gist(error)}; its placeholders are {listed(file.placeholders())}, inputs= names those needed"
        ) from error


def _declared(tensor: Any, declared: tf.TensorSpec | None) -> tf.TensorSpec:
    """Return shape and type of a tensor of the graph, with the sizes that the signature alone knows."""
    if declared is not None and tensor.shape.is_compatible_with(declared.shape):
        return tf.TensorSpec(tensor.shape.merge_with(declared.shape), tensor.dtype)
    return tf.TensorSpec(tensor.shape, tensor.dtype)


def _fixed(path: Any, specs: Mapping[str, tf.TensorSpec], given: Any) -> dict[str, np.ndarray]:
    """Return the values of the inputs that a caller fixes, in the types that the file takes."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not set(given) < set(specs):
        raise BadInput(
            f"given must be values of some inputs of '{path}' by name, as in given={{'training': False}}, not "
            f"{given!r}; its inputs are {listed(specs)}"
        )
    fixed = {}
    for name in given:
        shape, dtype = specs[name].shape, specs[name].dtype.as_numpy_dtype
        expected = Expected(dtype, shape.is_compatible_with, str(shape), is_single=True)
        fixed |= checked_feed({name: given[name]}, {name: expected}, f"'{path}'")
    return fixed
