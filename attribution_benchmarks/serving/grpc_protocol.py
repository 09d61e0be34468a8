"""TensorFlow Serving's gRPC interface, by the stubs of ``tensorflow-serving-api``.

The stubs import TensorFlow, which takes seconds, so they are imported with the first connection.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from attribution.errors import BadInput
from attribution_benchmarks.serving.interface import Address, ModelName, ServerError, Signature, signature_of


class GrpcProtocol:
    """A channel to one server, which gRPC reopens when it is lost.

    Parameters
    ----------
    address
        Address of the server.
    max_message_bytes
        Largest message; gRPC's default of 4 MiB is less than eight photographs.
    """

    def __init__(self, address: Address, max_message_bytes: int):
        try:
            import grpc
            from tensorflow_serving.apis import model_service_pb2_grpc, prediction_service_pb2_grpc
        except ImportError as error:
            raise BadInput(
                f"grpc:// needs tensorflow-serving-api (pip install 'attribution-benchmarks[serving]'): {error}; "
                "http:// does not need it"
            ) from error
        self._limit = max_message_bytes
        self._channel = grpc.insecure_channel(
            address.host_and_port,
            options=[
                ("grpc.max_send_message_length", max_message_bytes),
                ("grpc.max_receive_message_length", max_message_bytes),
                # gRPC's default waits up to two minutes before it reconnects.
                ("grpc.initial_reconnect_backoff_ms", 100),
                ("grpc.min_reconnect_backoff_ms", 100),
                ("grpc.max_reconnect_backoff_ms", 1000),
                ("grpc.enable_http_proxy", 0),
                # Another channel's record of an unavailable server must not be used.
                ("grpc.use_local_subchannel_pool", 1),
            ],
        )
        self._prediction = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)
        self._models = model_service_pb2_grpc.ModelServiceStub(self._channel)

    @staticmethod
    def size_of(arrays: Mapping[str, np.ndarray]) -> int:
        """Return the approximate size of a request with these arrays, in bytes."""
        return sum(array.nbytes if array.dtype != object else 256 * array.size for array in arrays.values())

    def predict(
        self,
        model: ModelName,
        signature: str,
        arrays: Mapping[str, np.ndarray],
        wanted: Sequence[str],
        specs: Signature | None,
        deadline: float,
    ) -> dict[str, np.ndarray]:
        """Call a signature and return the wanted outputs."""
        import tensorflow as tf
        from tensorflow_serving.apis import predict_pb2

        request = predict_pb2.PredictRequest(model_spec=_spec(model, signature), output_filter=wanted)
        for name, array in arrays.items():
            request.inputs[name].CopyFrom(tf.make_tensor_proto(array))
        reply = _call(self._prediction.Predict, request, deadline)
        try:
            return {name: self._array(tensor) for name, tensor in reply.outputs.items()}
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, ServerError):
                raise
            raise ServerError("INVALID_REPLY", f"an output is not an array: {error}") from error

    def signatures(self, model: ModelName, deadline: float) -> tuple[int | None, dict[str, Signature]]:
        """Return the version that is served, and its signatures."""
        from google.protobuf import json_format, message
        from tensorflow_serving.apis import get_model_metadata_pb2

        request = get_model_metadata_pb2.GetModelMetadataRequest(
            model_spec=_spec(model), metadata_field=["signature_def"]
        )
        reply = _call(self._prediction.GetModelMetadata, request, deadline)
        found = get_model_metadata_pb2.SignatureDefMap()
        try:
            if not reply.metadata["signature_def"].Unpack(found):
                raise ValueError("no signatures")
        except message.DecodeError as error:
            raise ValueError(str(error)) from error
        plain = json_format.MessageToDict(found, preserving_proto_field_name=True).get("signature_def", {})
        version = reply.model_spec.version.value if reply.model_spec.HasField("version") else None
        return version, {name: signature_of(one) for name, one in plain.items() if one.get("inputs")}

    def status(self, model: ModelName, deadline: float) -> dict[int, str]:
        """Return the state of each version, such as ``{1: "AVAILABLE"}``."""
        from tensorflow_serving.apis import get_model_status_pb2 as messages

        request = messages.GetModelStatusRequest(model_spec=_spec(model))
        reply = _call(self._models.GetModelStatus, request, deadline)
        names = messages.ModelVersionStatus.State
        return {one.version: names.Name(one.state) for one in reply.model_version_status}

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()

    def _array(self, tensor):
        """Return the array of a tensor, whose last value may fill it: a few bytes can name any size."""
        import tensorflow as tf

        shape = tuple(axis.size for axis in tensor.tensor_shape.dim)
        if min(shape, default=0) < 0 or math.prod(shape) * tf.as_dtype(tensor.dtype).size > self._limit:
            raise ServerError("INVALID_REPLY", f"an output of shape {shape} is larger than {self._limit} bytes")
        return tf.make_ndarray(tensor)


def _spec(model: ModelName, signature: str = ""):
    from tensorflow_serving.apis import model_pb2

    spec = model_pb2.ModelSpec(name=model.name, signature_name=signature)
    if model.version is not None:
        spec.version.value = model.version
    return spec


def _call(call, request, deadline: float):
    """Return the reply of a call; raise ServerError if it fails."""
    import grpc

    try:
        return call(request, timeout=deadline)
    except grpc.RpcError as error:
        raise ServerError(error.code().name, error.details() or "") from error
    except ValueError as error:  # a message of 2 GiB cannot be serialized
        raise ServerError("RESOURCE_EXHAUSTED", str(error)) from error
