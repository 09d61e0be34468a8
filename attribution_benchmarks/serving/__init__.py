"""Scores and explanations from models behind TensorFlow Serving, by gRPC or REST.

>>> client = serving.Client("grpc://localhost:8500")
>>> model = serving.ServedModel(client, "bim_obj")
>>> scores = model.scores(images)
>>> maps = attribution.explain(serving.as_served("gradient"), model, images)

The import loads neither TensorFlow nor gRPC. The first request by gRPC loads both, because the stubs of
``tensorflow-serving-api`` use TensorFlow's messages.
"""

from attribution_benchmarks.serving._client import Client
from attribution_benchmarks.serving._model import ServedModel, as_served
from attribution_benchmarks.serving._protocols import ServerError

__all__ = ["Client", "ServedModel", "ServerError", "as_served"]
