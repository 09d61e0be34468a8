"""Live Keras models, and the files that Keras saves them in, as SavedModels.

A file is described by itself: Keras builds it only if all its parts have names of Keras's own classes, and none of
those that run code of a file, so that no module is imported for it either. No part of it is read from another file, and
memory is taken for no more weights than it holds. Files of Keras 3 are read by Keras; those of Keras 2 by ``tf_keras``,
because Keras 3 reads some of them with other numbers. Conversions are stored in the cache under the
content of the file.
"""

from __future__ import annotations

import contextlib
import graphlib
import hashlib
import importlib.metadata
import importlib.util
import io
import json
import math
import operator
import os
import pathlib
import shutil
import tempfile
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attribution.errors import BadInput, described, shortened
from attribution.files import atomic_directory, atomic_write, cache_directory, locked_directory, remember
from attribution.reading import opened

if TYPE_CHECKING:  # it imports TensorFlow
    import keras

ZIP, HDF5 = (".keras",), (".h5", ".hdf5")
_MOST = 1 << 26  # bytes of a configuration, and of variables that are not in the file
_CONTENT = "sha256"  # beside a conversion: that of the file
_MODULES = ("keras", "tf_keras")
_CHECKS = "4"  # changes with what is refused, and with what is exported
# Layers with code in their file, or with a path of another file that is run.
_RUN_CODE = ("Lambda", "__lambda__", "ClassMethod", "FlaxLayer", "JaxLayer", "TFSMLayer", "TorchModuleWrapper")
_OF_BOTH = {"Functional", "Model", "Sequential", "Policy", "TensorShape"}  # the last two of Keras 2
_VALUES = {
    f"__{name}__" for name in ("bytes", "complex", "ellipsis", "keras_tensor", "numpy", "slice", "tensor", "tuple")
}
_NAMESPACES = (
    "layers", "initializers", "regularizers", "constraints", "dtype_policies", "quantizers", "random", "optimizers",
    "optimizers.schedules", "losses", "metrics",
)  # fmt: skip
_OF_TENSORFLOW = ("TFOpLambda", "SlicingOpLambda", "TensorFlowOpLayer")
# Symbols of TensorFlow that Keras 2 wrote as layers: they compute, and touch no files.
_COMPUTING = ("__operators__.", "linalg.", "math.", "nn.")
_ALSO_COMPUTING = {"cast", "clip_by_value", "concat", "expand_dims", "identity", "reshape", "split", "squeeze", "stack",
                   "tile", "transpose", "unstack", "where"}  # fmt: skip


def read_file(path: str | os.PathLike[str]) -> keras.Model:
    """Return the live model of a file that Keras 3 saved.

    Raises
    ------
    BadInput
        If it is damaged, not a model, of Keras 2 or a newer Keras, or has layers that are not Keras's own.
    """
    with _checked_copy(path) as (copy, version, size):
        if version.startswith("2."):
            raise BadInput(f"'{path}' was saved by Keras {version}; a live network of Keras 3 is needed")
        return _loaded(copy, path, version, size)


def converted(path: str | os.PathLike[str]) -> pathlib.Path:
    """Return the SavedModel of a Keras file, as its ``predict`` computes: written once for a content, in the cache.

    Raises
    ------
    BadInput
        As ``read_file``, and if the model cannot be exported.
    """
    digest = _digest(path)
    libraries = (f"{name} {importlib.metadata.version(name)}" for name in _MODULES if importlib.util.find_spec(name))
    key = " ".join([digest, _CHECKS, os.environ.get("KERAS_BACKEND", ""), *libraries])
    above = cache_directory("keras") / hashlib.sha256(key.encode()).hexdigest()[:24]
    saved = above / pathlib.Path(path).stem
    with locked_directory(above, "a SavedModel"):
        if not saved.exists():
            atomic_write(above / _CONTENT, digest)
            with _checked_copy(path) as (copy, version, size), atomic_directory(saved) as unfinished:
                if _digest(copy) != digest:
                    raise BadInput(f"'{path}' changed while it was read; run the command again")
                export(_loaded(copy, path, version, size), unfinished, f"'{path}'")
    remember(saved, path)
    return saved


def content_of(directory: pathlib.Path) -> str | None:
    """Return the SHA-256 of the Keras file that a SavedModel in the cache was converted from; None for others.

    The same file gives the same network, and other bytes of a SavedModel each time that it is converted.
    """
    above = directory.parent
    if above.parent != cache_directory("keras") or not (above / _CONTENT).is_file():
        return None
    return (above / _CONTENT).read_text("ascii")


def _digest(path: str | os.PathLike[str]) -> str:
    digest = hashlib.sha256()
    with opened(path, "Keras model") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


@contextlib.contextmanager
def _checked_copy(path: str | os.PathLike[str]) -> Iterator[tuple[pathlib.Path, str, int]]:
    """Yield a copy of a file whose parts are allowed, the version of Keras that saved it, and its weights' bytes.

    What is read is what was checked, even if the file is replaced meanwhile. The copy's suffix is in small letters, by
    which Keras recognizes the format.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder, "model" + pathlib.Path(path).suffix.lower())
        with opened(path, "Keras model") as file, open(copy, "wb") as of_copy:
            shutil.copyfileobj(file, of_copy)
        try:
            config, version, size = _described_model(copy)
        except BadInput as error:
            raise BadInput(str(error).replace(str(copy), str(path))) from error
        if version.startswith("2.") and importlib.util.find_spec("tf_keras") is None:
            raise BadInput(
                f"'{path}' was saved by Keras {version}, which tf_keras reads exactly; install it with: pip install "
                f"'tf_keras=={importlib.metadata.version('tensorflow').rpartition('.')[0]}.*'"
            )
        config.pop("compile_config", None)  # of training: it is not read
        _check_layers(path, config, _own_classes(_library(version)))
        graphs = [part["layers"] for part in _parts(config) if isinstance(part.get("layers"), list)]
        if version.startswith("2.") and not all(map(_can_be_called, graphs)):
            raise BadInput(f"'{path}' has layers that wait for each other's output, or for one that does not exist")
        yield copy, version, size


def _library(version: str) -> Any:
    """Return the module that reads what a version of Keras saved."""
    return importlib.import_module("tf_keras" if version.startswith("2.") else "keras")


def export(network: Any, directory: str | os.PathLike[str], name: str) -> None:
    """Write a live model of Keras 3 or 2 as a SavedModel; ``name`` is for messages.

    Raises
    ------
    BadInput
        If Keras cannot export it, or its call is not what its ``predict`` computes.
    """
    import keras

    of_keras_2 = not isinstance(network, keras.Model) and type(network).__module__.startswith("tf_keras.")
    if not of_keras_2:
        check_live(network)
    try:
        if of_keras_2:
            network.save(directory, save_format="tf")
        else:
            _export_as_called(network, os.fspath(directory))
    except Exception as error:  # of Keras, or of the model's own code
        raise BadInput(f"Keras cannot export the model {name}: {described(error)}") from error


def _loaded(copy: pathlib.Path, path: str | os.PathLike[str], version: str, size: int) -> Any:
    """Return the live model of a checked copy of a file with ``size`` bytes of weights."""
    import tensorflow as tf

    library, left = _library(version), size + _MOST

    def create(following: Any, **given: Any) -> Any:
        nonlocal left
        if callable(initial := given["initial_value"]):
            with tf.Graph().as_default():  # where values take no memory
                shape = given.get("shape") or initial().shape
            left -= math.prod(shape) * tf.as_dtype(given["dtype"]).size
        if left < 0:
            raise BadInput(f"'{path}' has layers with more weights than it holds, which are {size:,} bytes")
        return following(**given)

    try:
        # Keras 2 takes ``safe_mode`` for HDF5 as a scope alone, in which it builds no function of a file.
        in_keras_2 = "tf_keras.src.saving.serialization_lib"
        safe: Any = importlib.import_module(in_keras_2).SafeModeScope(True) if library.__name__ == "tf_keras" else None
        with safe or contextlib.nullcontext(), tf.variable_creator_scope(create):
            return library.saving.load_model(os.fspath(copy), compile=False, safe_mode=True)
    except BadInput:
        raise
    except Exception as error:  # Keras raises many kinds
        ours = library.__version__
        newer = f"; Keras {version} saved it, and {ours} is installed" if _release(version) > _release(ours) else ""
        message = shortened(str(error).replace(str(copy), str(path)))
        raise BadInput(f"'{path}' cannot be read as a Keras model: {message}{newer}") from error


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())


def _described_model(path: str | os.PathLike[str]) -> tuple[dict[str, Any], str, int]:
    """Return the configuration of a file's model, the version of Keras that saved it, and its weights' bytes."""
    in_zip = pathlib.Path(path).suffix.lower() in ZIP
    with opened(path, "Keras model") as file:
        text, version, size = (_of_zip if in_zip else _of_hdf5)(file)
        config = json.loads(text)
        if not isinstance(config, dict) or not isinstance(version, str) or not _release(version):
            raise ValueError("its configuration is damaged")
    return config, version, size


def _of_zip(file: Any) -> tuple[bytes, Any, int]:
    import h5py

    with zipfile.ZipFile(file) as archive:
        if missing := {"config.json", "metadata.json", "model.weights.h5"} - set(archive.namelist()):
            raise ValueError(f"it has no {min(missing)}, so Keras did not save it")
        if max(archive.getinfo(name).file_size for name in ("config.json", "metadata.json")) > _MOST:
            raise ValueError(f"its configuration has more than {_MOST >> 20} MiB")
        if any(part.compress_type != zipfile.ZIP_STORED for part in archive.infolist()):
            raise ValueError("a part is compressed, which Keras does not do; save the network by Keras")
        metadata = json.loads(archive.read("metadata.json"))
        version = metadata.get("keras_version") if isinstance(metadata, dict) else None
        with h5py.File(io.BytesIO(archive.read("model.weights.h5")), "r") as content:
            return archive.read("config.json"), version, _size_of_weights(content)


def _size_of_weights(content: Any) -> int:
    """Return the bytes of an HDF5 file's arrays; refuse arrays that are not as large in the file, or not in it."""
    import h5py

    found: list[Any] = []
    content.visititems_links(lambda name, link: found.append((name, link)))
    if links := [name for name, link in found if not isinstance(link, h5py.HardLink)]:
        raise ValueError(f"'{links[0]}' is a link, which Keras does not write")
    arrays = [one for one in (content[name] for name, _ in found) if isinstance(one, h5py.Dataset)]
    for one in arrays:
        if one.external or one.is_virtual:
            raise ValueError(f"'{one.name}' is stored in another file, which is not read")
        if one.nbytes > one.id.get_storage_size():
            raise ValueError(f"'{one.name}' declares {one.nbytes:,} bytes and has {one.id.get_storage_size():,}")
    return sum(one.nbytes for one in arrays)


def _of_hdf5(file: Any) -> tuple[bytes | str, Any, int]:
    import h5py

    with h5py.File(file, "r") as content:
        if "model_config" not in content.attrs:
            if "layer_names" in content.attrs or "layers" in content:
                raise ValueError("it has weights and no layers; build the network, load them, and give the network")
            raise ValueError("it has no model_config, so Keras did not save it")
        version = content.attrs.get("keras_version", "")
        version = version.decode() if isinstance(version, bytes) else version
        return content.attrs["model_config"], version, _size_of_weights(content)


def _own_classes(library: Any) -> set[str]:
    """Return the names of a library's classes that a file may have."""
    places = [operator.attrgetter(name)(library) for name in _NAMESPACES if hasattr(library, name.partition(".")[0])]
    return {name for place in places for name, one in vars(place).items() if isinstance(one, type)} | _OF_BOTH | _VALUES


def _check_layers(path: str | os.PathLike[str], config: dict[str, Any], own: Collection[str]) -> None:
    """Refuse a model with code in its file, or with parts that are not Keras's own."""
    for part in _parts(config):
        if isinstance(part.get("vocabulary"), (str, dict)):
            raise BadInput(f"'{path}' names a file as a vocabulary, which is not read; save the network with its words")
        kind, module = str(part.get("class_name", "")), str(part.get("module", "keras"))
        inner = part["config"] if isinstance(part.get("config"), dict) else {}
        layer = f"'{path}' has the {kind} layer '{inner.get('name', kind)}'"
        if kind in _RUN_CODE or any(key.endswith("_type") and value == "lambda" for key, value in part.items()):
            raise BadInput(
                f"{layer}, and code of a file is not run; load it where it comes from, and give the model or its export"
            )
        symbol = str(inner.get("function"))
        if kind in _OF_TENSORFLOW and not (symbol.startswith(_COMPUTING) or symbol in _ALSO_COMPUTING):
            raise BadInput(
                f"{layer}, which may do more than compute; load it with tf_keras where it comes from, and give its "
                "SavedModel"
            )
        is_operation = kind.isidentifier() and module.startswith(("keras.src.ops.", "keras.ops."))
        known = "class_name" not in part or kind in own or kind in _OF_TENSORFLOW or is_operation
        if not known or module.split(".")[0] not in _MODULES:
            raise BadInput(
                f"'{path}' has the custom class '{kind}', whose module is not imported for a file; load it in Python "
                "where the class is defined, and give the model: attribution.load_model(keras.saving.load_model(...))"
            )


def _can_be_called(layers: Sequence[Any]) -> bool:
    """Return whether the calls of a graph's layers can follow each other; if not, Keras 2 waits without end."""
    named = [layer for layer in layers if isinstance(layer, dict) and isinstance(layer.get("inbound_nodes"), list)]
    names = {layer["name"] for layer in named if layer.get("class_name") != "InputLayer"}
    needed: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for layer in named:
        first = int(_has_inputs(layer))  # a model with inputs has a call of its own
        for number, call in enumerate(layer["inbound_nodes"], first):
            before = {(layer["name"], str(number - 1))} if number > first else set()
            needed[layer["name"], str(number)] = before | set(_used(call, names))
    try:
        graphlib.TopologicalSorter(needed).prepare()
    except graphlib.CycleError:
        return False
    return needed.keys() >= set().union(*needed.values())


def _has_inputs(layer: Mapping[str, Any]) -> bool:
    """Return whether a layer is a model that has its inputs."""
    kind, config = layer.get("class_name"), layer.get("config")
    inner = config.get("layers") if isinstance(config, dict) else config
    if kind != "Sequential" or not inner:
        return kind in ("Functional", "Model")
    return (
        inner[0].get("class_name") == "InputLayer" or "batch_input_shape" in inner[0]["config"] or _has_inputs(inner[0])
    )


def _used(value: Any, names: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield name and number of the calls of layers that another call of Keras 2 uses."""
    if isinstance(value, list) and len(value) in (3, 4) and isinstance(value[0], str) and value[0] in names:
        yield value[0], str(value[1])
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _used(one, names)


def _parts(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every dictionary of a configuration."""
    todo = [value]
    while todo:
        one = todo.pop()
        if isinstance(one, dict):
            yield one
            todo += one.values()
        elif isinstance(one, list):
            todo += one


def check_live(network: Any) -> None:
    """Refuse objects other than built Keras models, and models whose ``predict`` is not known from their call."""
    import keras

    if not isinstance(network, keras.Model):
        raise BadInput(f"expected a SavedModel, a Keras file or a keras.Model, not {type(network).__name__}")
    # A subclassed model can be built and yet not know the shape of its inputs.
    if not network.built or not (hasattr(network, "inputs") or network._called):
        raise BadInput(f"the Keras model '{network.name}' is not built; call it on inputs before it is explained")
    if type(network).predict_step is not keras.Model.predict_step:
        raise BadInput(
            f"the Keras model '{network.name}' has its own predict_step, so that its call is not what it predicts; "
            "export the function that is to be explained"
        )
    given = getattr(network, "input", None) if hasattr(network, "inputs") else None
    for key, one in given.items() if isinstance(given, dict) else ():
        if getattr(one, "name", key) != key:  # further dictionaries and lists have their inputs' names
            raise BadInput(
                f"the Keras model '{network.name}' takes '{key}' for its input named '{one.name}'; give both the same "
                "name"
            )


def _export_as_called(network: keras.Model, path: str) -> None:
    """Write a Keras model as ``predict`` calls it; its own ``export`` leaves layers of augmentation on."""
    import keras

    if keras.backend.backend() == "torch":  # it exports modules alone, without their arguments
        network.export(path, verbose=False)
        return

    def serve(*args: Any) -> Any:
        return network(keras.tree.pack_sequence_as(network.input, args) if is_nested else args[0], training=False)

    is_sequential = isinstance(network, keras.Sequential)
    given = network.input if hasattr(network, "inputs") and not is_sequential else None
    parts = list(given.values()) if isinstance(given, dict) else given if isinstance(given, (list, tuple)) else []
    is_nested = any(isinstance(part, (dict, list, tuple)) for part in parts)
    if is_sequential or is_nested:
        signature = network.inputs
    elif given is not None:
        signature = [given]
    else:  # a subclassed model
        known = network.get_build_config()
        signature = keras.tree.map_shape_structure(
            lambda shape: keras.InputSpec(shape=(None, *shape[1:]), dtype=network.input_dtype),
            list(known["shapes_dict"].values()) if "shapes_dict" in known else [known["input_shape"]],
        )
    archive = keras.export.ExportArchive()
    archive.track(network)
    archive.add_endpoint("serve", serve, signature)
    archive.write_out(path, verbose=False)
