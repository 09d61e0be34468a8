"""What an exported model says of its explanations; ``attribution.export`` writes it, clients read it.

TensorFlow Serving tells names and shapes of signatures and nothing else. So the exported model has a signature
that answers with a description in JSON: which methods with which parameters, whether logits or probabilities are
explained, where class activation maps stand, and which file all of it was made from.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping

from attribution.export.names import SHEET_VERSION
from attribution_benchmarks.serving.errors import ServerError


@dataclasses.dataclass(frozen=True)
class Sheet:
    """The description of a model's explanations.

    Attributes
    ----------
    source
        Fingerprint of the SavedModel that was exported.
    score
        ``"logits"`` or ``"probabilities"``: what is explained.
    wrt
        Name of the explained input.
    layer
        Node of the layer that class activation maps stand on; ``None`` where none were exported.
    layer_is_default
        Whether that layer is the one a method takes by itself.
    methods
        Label -> name of the method and its parameters, as JSON has them.
    """

    source: str
    score: str
    wrt: str
    layer: str | None
    layer_is_default: bool
    methods: Mapping[str, Mapping]


def read_sheet(text: bytes) -> Sheet:
    """Return the description behind its JSON form; unknown keys are passed over.

    Raises
    ------
    ServerError
        If it is no description, or one of a later kind.
    """
    try:
        plain = json.loads(text)
        if plain["sheet"] != SHEET_VERSION:
            raise ServerError("INVALID_REPLY", f"the model's explanations are described in form {plain['sheet']}, "
                              f"known here is {SHEET_VERSION}; export it again")  # fmt: skip
        return Sheet(**{field.name: plain[field.name] for field in dataclasses.fields(Sheet)})
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, ServerError):
            raise
        raise ServerError("INVALID_REPLY", f"the description of the explanations cannot be read: {error}") from error
