"""The gRPC half of the stand-in server."""

from __future__ import annotations

from typing import Any

import grpc
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from attribution_benchmarks.serving._protocols import ModelName, ServerError


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Predict and GetModelMetadata."""

    def __init__(self, server):
        self._server = server

    def Predict(self, request: Any, context: Any) -> Any:
        """Answer a request for outputs."""
        return _guarded(context, lambda: self._predict(request))

    def GetModelMetadata(self, request: Any, context: Any) -> Any:
        """Describe a model's signatures."""
        return _guarded(context, lambda: metadata_of(self._server, _model(request.model_spec)))

    def _predict(self, request):
        model = _model(request.model_spec)
        version, signatures = self._server.find(model)
        name = request.model_spec.signature_name or "serving_default"
        if name not in signatures:
            raise ServerError("FAILED_PRECONDITION", f'Serving signature key "{name}" not found.')
        signature = signatures[name]
        unknown = sorted(set(request.output_filter) - set(signature.specs.outputs))
        if unknown:
            raise ServerError(
                "INVALID_ARGUMENT",
                f"output tensor alias not found in signature: {unknown[0]} Outputs expected to be in the set "
                f"{{{','.join(sorted(signature.specs.outputs))}}}.",
            )
        arrays = {key: tf.make_ndarray(tensor) for key, tensor in request.inputs.items()}
        outputs = self._server.answer(model, name, signature, arrays)
        reply = predict_pb2.PredictResponse()
        reply.model_spec.CopyFrom(request.model_spec)
        reply.model_spec.signature_name = name
        reply.model_spec.version.value = version
        for key, array in outputs.items():
            if not request.output_filter or key in request.output_filter:
                reply.outputs[key].CopyFrom(tf.make_tensor_proto(array))
        return reply


def metadata_of(server: Any, model: ModelName) -> Any:
    """Return the message that describes a model's signatures."""
    version, signatures = server.find(model)
    found = get_model_metadata_pb2.SignatureDefMap()
    for name, signature in signatures.items():
        definition = meta_graph_pb2.SignatureDef(method_name="tensorflow/serving/predict")
        for kind, specs in (("inputs", signature.specs.inputs), ("outputs", signature.specs.outputs)):
            for key, spec in specs.items():
                info = getattr(definition, kind)[key]
                info.name = f"{name}_{key}:0"
                info.dtype = (tf.string if spec.dtype.kind == "O" else tf.as_dtype(spec.dtype)).as_datatype_enum
                shape = None if spec.shape is None else list(spec.shape)
                info.tensor_shape.CopyFrom(tf.TensorShape(shape).as_proto())
        found.signature_def[name].CopyFrom(definition)
    reply = get_model_metadata_pb2.GetModelMetadataResponse()
    reply.model_spec.name = model.name
    reply.model_spec.version.value = version
    reply.metadata["signature_def"].Pack(found)
    return reply


def _model(spec) -> ModelName:
    return ModelName(spec.name, spec.version.value if spec.HasField("version") else None)


def _guarded(context, answer):
    """Return the answer, or refuse with its code and words."""
    try:
        return answer()
    except ServerError as error:
        context.abort(getattr(grpc.StatusCode, error.code), error.words)
    except Exception as error:  # a server lives on
        context.abort(grpc.StatusCode.INTERNAL, f"{type(error).__name__}: {error}")
