"""``models.config``: which models a TensorFlow Serving serves, by the message that it reads itself."""

from __future__ import annotations

from attribution.errors import BadInput


def read_models_config(path: str) -> dict[str, str]:
    """Return name to base path of every model.

    Raises
    ------
    BadInput
        If the file cannot be read, or a model has no name, no path, or the name of another.
    """
    try:
        from google.protobuf import text_format
        from tensorflow_serving.config import model_server_config_pb2
    except ImportError as error:
        raise BadInput(f"a models.config needs tensorflow-serving-api (the extra 'serving'): {error}") from error
    try:
        with open(path, encoding="utf-8") as file:
            config = text_format.Parse(file.read(), model_server_config_pb2.ModelServerConfig())
    except OSError as error:
        raise BadInput(f"cannot read '{path}': {error.strerror}") from error
    except text_format.ParseError as error:
        raise BadInput(f"'{path}' is no models.config: {error}") from error
    models = {}
    for model in config.model_config_list.config:
        if not model.name or not model.base_path or model.name in models or model.model_platform != "tensorflow":
            raise BadInput(
                f"'{path}': model '{model.name}' needs a name of its own, a base_path and model_platform 'tensorflow'"
            )
        models[model.name] = model.base_path
    return models
