"""A stand-in for TensorFlow Serving, for tests and for machines without its image: same protocols, same errors.

    python tests/stand_in_server/stand_in.py --config=saved_models/models.config --root=saved_models

It speaks gRPC by the official stubs and REST as TensorFlow Serving documents it, over real sockets, and answers
with TensorFlow in this process. It is no server for production: one thread works, nothing is batched, versions are
read once.

Cost: all models of the configuration are loaded at the start, the 17 committed ones in 14 CPU seconds and 1.5 GB.
"""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from absl import flags

from attribution import cli
from attribution.errors import BadInput, print_line
from attribution_benchmarks.serving._protocols import ModelName, ServerError, Signature

HOST = "127.0.0.1"  # the server asks for no password
FLAGS = flags.FlagValues()
flags.DEFINE_string("config", "", "models.config as TensorFlow Serving reads it", flag_values=FLAGS)
flags.DEFINE_string(
    "root", "", "directory that stands for /models in the base paths of the config, as a mount would", flag_values=FLAGS
)
cli.define_common_flags(FLAGS, trust_model=False)
for protocol, port in (("gRPC", 8500), ("REST", 8501)):
    flags.DEFINE_integer(
        f"{protocol.lower()}_port", port, f"port of {protocol}; 0 takes any that is free", lower_bound=0,
        upper_bound=65535, flag_values=FLAGS,
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class ServedSignature:
    """A signature, and the function from input name -> array to output name -> array that answers it."""

    specs: Signature
    answer: Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]


class StandIn:
    """A server of models, listening between ``start`` and ``stop``.

    Parameters
    ----------
    models
        Model name to version to signature name to ``ServedSignature``.
    disturb
        Called with (model name, signature name) before every answer; may wait, or raise ``ServerError``.

    Attributes
    ----------
    asked : collections.Counter
        Answered rows by (model name, signature name).
    """

    def __init__(self, models, *, disturb=None):
        self.models = models
        self.disturb = disturb
        self.asked = collections.Counter()
        self._grpc: Any = None
        self._rest: Any = None
        self._one_at_a_time = threading.Lock()
        self.grpc_port = self.rest_port = 0

    @property
    def grpc_address(self) -> str:
        """Address for a client that speaks gRPC."""
        return f"grpc://{HOST}:{self.grpc_port}"

    @property
    def rest_address(self) -> str:
        """Address for a client that speaks REST."""
        return f"http://{HOST}:{self.rest_port}"

    def start(self, grpc_port: int = 0, rest_port: int = 0) -> StandIn:
        """Listen; port 0 takes any free one, or that of the last time."""
        import grpc
        import stand_in_grpc
        import stand_in_rest
        from tensorflow_serving.apis import prediction_service_pb2_grpc

        options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        self._grpc = grpc.server(concurrent.futures.ThreadPoolExecutor(4), options=options)
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
            stand_in_grpc.PredictionService(self), self._grpc
        )
        try:
            self.grpc_port = self._grpc.add_insecure_port(f"{HOST}:{grpc_port or self.grpc_port}")
            self._rest = stand_in_rest.listen(self, HOST, rest_port or self.rest_port)
        except (OSError, RuntimeError) as error:
            raise BadInput(f"cannot listen on {HOST}:{grpc_port} and :{rest_port}: {error}") from error
        self.rest_port = self._rest.server_address[1]
        self._grpc.start()
        threading.Thread(target=self._rest.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def stop(self) -> None:
        """Stop listening and drop what is being answered, as a server that is killed does."""
        if self._grpc is not None:
            self._grpc.stop(0).wait()
            self._rest.shutdown()
            self._rest.drop_connections()
            self._rest.server_close()
            self._grpc = self._rest = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    def find(self, model: ModelName) -> tuple[int, Mapping[str, ServedSignature]]:
        """Return a model's version, the latest if none is named, and its signatures."""
        versions = self.models.get(model.name, {})
        version = max(versions, default=None) if model.version is None else model.version
        if version not in versions:
            which = f"Latest({model.name})" if model.version is None else f"Specific({model.name}, {model.version})"
            raise ServerError("NOT_FOUND", f"Servable not found for request: {which}")
        return version, versions[version]

    def answer(
        self, model: ModelName, name: str, signature: ServedSignature, arrays: Mapping[str, np.ndarray]
    ) -> Mapping[str, np.ndarray]:
        """Answer one request after checking it as TensorFlow Serving does."""
        wanted, given = set(signature.specs.inputs), set(arrays)
        if wanted != given:
            raise ServerError(
                "INVALID_ARGUMENT",
                f"input size does not match signature. Sent extra: {{{','.join(sorted(given - wanted))}}}. "
                f"Missing but required: {{{','.join(sorted(wanted - given))}}}.",
            )
        for key, spec in signature.specs.inputs.items():
            if arrays[key].dtype != spec.dtype or not spec.allows(arrays[key].shape):
                raise ServerError(
                    "INVALID_ARGUMENT",
                    f"input '{key}' of {arrays[key].dtype} and shape {arrays[key].shape} does not fit "
                    f"{spec.dtype} {spec.shown()}",
                )
        rows = len(next(iter(arrays.values())))
        if self.disturb is not None:
            self.disturb(model.name, name)
        with self._one_at_a_time:
            reply = signature.answer(arrays)
        self.asked[model.name, name] += rows
        return reply


def read_models_config(path: str) -> dict[str, str]:
    """Return name to base path of every model."""
    from google.protobuf import text_format
    from tensorflow_serving.config import model_server_config_pb2

    try:
        with open(path, encoding="utf-8") as file:
            config = text_format.Parse(file.read(), model_server_config_pb2.ModelServerConfig())
    except (OSError, text_format.ParseError) as error:
        raise BadInput(f"'{path}' is not a models.config: {error}") from error
    return {model.name: model.base_path for model in config.model_config_list.config}


def load_versions(base_path: str) -> dict[int, dict[str, ServedSignature]]:
    """Return the latest version of a SavedModel below a base path, as TensorFlow Serving would load it.

    Raises
    ------
    BadInput
        If there is none.
    """
    numbers = (
        [int(entry.name) for entry in os.scandir(base_path) if entry.name.isdecimal()]
        if os.path.isdir(base_path)
        else []
    )
    if not numbers:
        raise BadInput(f"no version of a SavedModel in '{base_path}'; expected {os.path.join(base_path, '1')}")
    return {max(numbers): load_signatures(os.path.join(base_path, str(max(numbers))))}


def load_signatures(directory: str) -> dict[str, ServedSignature]:
    """Return the signatures of a SavedModel."""
    import tensorflow as tf

    from attribution.savedmodel.file import SavedFile
    from attribution.savedmodel.paths import find_saved_model
    from attribution_benchmarks.serving._protocols import TensorSpec

    loaded = SavedFile(find_saved_model(directory)).load()

    def spec_of(tensor):
        dtype = np.dtype(object) if tensor.dtype == tf.string else np.dtype(tensor.dtype.as_numpy_dtype)
        return TensorSpec(dtype, None if tensor.shape.rank is None else tuple(tensor.shape.as_list()))

    def served(function):
        def answer(arrays, owner=loaded):  # named here, it keeps the variables alive
            try:
                reply = function(**{name: tf.constant(array) for name, array in arrays.items()})
            except tf.errors.OpError as error:
                raise ServerError(_CODES.get(type(error).__name__, "INTERNAL"), error.message) from error
            return {name: tensor.numpy() for name, tensor in reply.items()}

        inputs = {name: spec_of(spec) for name, spec in function.structured_input_signature[1].items()}
        outputs = {name: spec_of(spec) for name, spec in function.structured_outputs.items()}
        return ServedSignature(Signature(dict(sorted(inputs.items())), dict(sorted(outputs.items()))), answer)

    return {name: served(function) for name, function in loaded.signatures.items()}


_CODES = {"InvalidArgumentError": "INVALID_ARGUMENT", "ResourceExhaustedError": "RESOURCE_EXHAUSTED"}


def main(flag_values: flags.FlagValues) -> None:
    """Serve the models of a config until interrupted."""
    if not flag_values.config:
        raise BadInput("--config is empty; name a models.config")
    models = {}
    for name, base_path in read_models_config(flag_values.config).items():
        if flag_values.root:
            base_path = os.path.join(flag_values.root, os.path.relpath(base_path, "/models"))
        models[name] = load_versions(base_path)
    server = StandIn(models).start(flag_values.grpc_port, flag_values.rest_port)
    count = f"{len(models)} model{'' if len(models) == 1 else 's'}"
    print_line(f"serving {count} on {server.grpc_address} and {server.rest_address}", flush=True)
    try:
        threading.Event().wait()
    finally:
        server.stop()


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
