"""A gRPC server that answers with anything: each request ends in one line, without the memory that it names."""

import concurrent.futures

import grpc
import numpy as np
import pytest
from stand_in_grpc import metadata_of
from tensorflow.core.framework import tensor_pb2, types_pb2
from tensorflow_serving.apis import predict_pb2

from attribution_benchmarks import serving
from attribution_benchmarks.serving._protocols import ModelName, ServerError

MODEL, INPUTS = ModelName("linear"), np.zeros((5, 2, 3), np.float32)


@pytest.fixture
def described(server):
    """The description that an honest server gives of the model, as bytes."""
    return metadata_of(server, MODEL).SerializeToString()


@pytest.fixture
def hostile():
    """Start a server of gRPC that answers each method with given bytes."""
    running = []

    def start(**answers):
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(lambda request, context, answer=answer: answer)
            for name, answer in answers.items()
        }
        service = grpc.method_handlers_generic_handler("tensorflow.serving.PredictionService", handlers)
        listening = grpc.server(concurrent.futures.ThreadPoolExecutor(2), handlers=[service])
        port = listening.add_insecure_port("127.0.0.1:0")
        listening.start()
        running.append(listening)
        return f"grpc://127.0.0.1:{port}"

    yield start
    for listening in running:
        listening.stop(0).wait()


def refused(address):
    """Return the error of one request, which is one line."""
    with serving.Client(address, deadline=20, retry_timeout=0) as client:
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
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_answers_that_cannot_be_used(hostile, described, kind):
    answer, word = ANSWERS[kind]
    assert word in str(refused(hostile(GetModelMetadata=described, Predict=answer)))
