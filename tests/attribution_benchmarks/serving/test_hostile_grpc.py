"""A gRPC server that answers with anything: each request ends in one line, in time, and without the memory it names."""

import concurrent.futures
import threading

import grpc
import numpy as np
import pytest
from stand_in_grpc import metadata_of
from tensorflow.core.framework import tensor_pb2, types_pb2
from tensorflow_serving.apis import get_model_metadata_pb2, predict_pb2

from attribution_benchmarks import serving
from attribution_benchmarks.serving._protocols import ModelName, ServerError

MODEL, INPUTS = ModelName("linear"), np.zeros((5, 2, 3), np.float32)


@pytest.fixture
def described(server):
    """The description that an honest server gives of the model, as bytes."""
    return metadata_of(server, MODEL).SerializeToString()


@pytest.fixture
def hostile():
    """Start a server of gRPC that answers each method with given bytes, or as a function of the call does."""
    over, running = threading.Event(), []

    def start(**answers):
        def handler(answer):
            def reply(request, context):
                return answer(context, over) if callable(answer) else answer

            return grpc.unary_unary_rpc_method_handler(reply)

        handlers = {name: handler(answer) for name, answer in answers.items()}
        service = grpc.method_handlers_generic_handler("tensorflow.serving.PredictionService", handlers)
        listening = grpc.server(concurrent.futures.ThreadPoolExecutor(2), handlers=[service])
        port = listening.add_insecure_port("127.0.0.1:0")
        listening.start()
        running.append(listening)
        return f"grpc://127.0.0.1:{port}"

    yield start
    over.set()
    for listening in running:
        listening.stop(0).wait()


def refused(address, **limits):
    """Return the error of one request, which is one line."""
    with serving.Client(address, **{"deadline": 20, "retry_timeout": 0, **limits}) as client:
        with pytest.raises(ServerError) as caught:
            client.predict(MODEL, "serving_default", {"x": INPUTS}, ["scores"])
    assert "\n" not in str(caught.value) and str(client.address) in str(caught.value)
    return caught.value


def with_scores(shape=(5, 3), dtype=types_pb2.DT_FLOAT, **content):
    """Return a reply whose output has this shape and type, and little content, as bytes."""
    tensor = tensor_pb2.TensorProto(dtype=dtype, **content)
    for size in shape:
        tensor.tensor_shape.dim.add(size=size)
    reply = predict_pb2.PredictResponse()
    reply.outputs["scores"].CopyFrom(tensor)
    return reply.SerializeToString()


ANSWERS = {
    "no protocol buffer": (b"\xff" * 40, "INTERNAL"),
    "nothing": (b"", "no output 'scores'"),
    "more memory than there is": (
        with_scores((5, 3, 1 << 40), float_val=[1]),
        "of shape (5, 3, 1099511627776) is larger",
    ),
    "less content than its shape": (with_scores(tensor_content=b"1234"), "is not an array"),
    "NaN": (with_scores(float_val=[np.nan]), "has NaN or infinite values"),
    "float64": (with_scores(dtype=types_pb2.DT_DOUBLE, double_val=[1]), "of type float64"),
    "a resource": (with_scores(dtype=types_pb2.DT_RESOURCE), "is not an array"),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_answers_that_cannot_be_used(hostile, described, kind):
    answer, word = ANSWERS[kind]
    assert word in str(refused(hostile(GetModelMetadata=described, Predict=answer)))


def test_descriptions_that_cannot_be_used(hostile):
    reply = get_model_metadata_pb2.GetModelMetadataResponse()
    whole = reply.metadata["signature_def"]
    whole.type_url = "type.googleapis.com/tensorflow.serving.SignatureDefMap"
    whole.value = b"\xff" * 40
    assert "not TensorFlow Serving's" in str(refused(hostile(GetModelMetadata=reply.SerializeToString())))
    whole.type_url = "type.googleapis.com/tensorflow.TensorProto"
    assert "not TensorFlow Serving's" in str(refused(hostile(GetModelMetadata=reply.SerializeToString())))
    assert refused(hostile(GetModelMetadata=b"\xff" * 40)).code == "INTERNAL"


@pytest.mark.parametrize("code", [grpc.StatusCode.INTERNAL, grpc.StatusCode.UNAVAILABLE])
def test_a_status_is_one_line(hostile, described, code):
    def abort(context, _):
        context.abort(code, "two\nlines \x1b[31m" + "x" * 3000)

    error = refused(hostile(GetModelMetadata=described, Predict=abort))
    assert error.code == code.name and "two lines" in str(error) and len(str(error)) < 700


def test_large_messages_and_endless_answers(hostile, described):
    large = hostile(GetModelMetadata=described, Predict=with_scores(tensor_content=bytes(60_000)))
    assert "RESOURCE_EXHAUSTED" in str(refused(large, max_message_bytes=30_000))
    endless = hostile(GetModelMetadata=described, Predict=lambda _, over: over.wait(60) and b"")
    assert "DEADLINE_EXCEEDED" in str(refused(endless, deadline=0.5))
    assert "DEADLINE_EXCEEDED" in str(refused(hostile(GetModelMetadata=lambda _, over: over.wait(60)), deadline=0.5))
