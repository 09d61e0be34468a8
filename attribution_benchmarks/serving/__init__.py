"""Models behind TensorFlow Serving: ask them for scores and explanations, by gRPC or REST.

>>> client = serving.Client("grpc://localhost:8500")
>>> model = serving.ServedModel(client, "bim_obj")
>>> scores = model.scores(images)
>>> maps = attribution.explain(serving.as_served("gradient"), model, images)

Importing this room imports neither TensorFlow nor gRPC; the first request by gRPC imports both, since the stubs of
``tensorflow-serving-api`` stand on TensorFlow's own messages. REST needs nothing but the standard library.
"""

from attribution_benchmarks.serving.client import Client
from attribution_benchmarks.serving.errors import ServerError
from attribution_benchmarks.serving.methods import as_served
from attribution_benchmarks.serving.model import ServedModel

__all__ = ["Client", "ServedModel", "ServerError", "as_served"]
