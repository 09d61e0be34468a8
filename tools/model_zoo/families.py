"""All families of the zoo, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tools.model_zoo import applications, convolutional, inputs_and_outputs, other_files, transformers
from tools.model_zoo.family import Family

GROUPS: Mapping[str, tuple[Family, ...]] = MappingProxyType(
    {
        "keras.applications": applications.FAMILIES,
        "Convolutions": convolutional.FAMILIES,
        "Transformers and mixers": transformers.FAMILIES,
        "Recurrent": transformers.RECURRENT,
        "Inputs, outputs, number formats": inputs_and_outputs.FAMILIES,
        "Other files": other_files.FAMILIES,
    }
)
FAMILIES: Mapping[str, Family] = MappingProxyType(
    {family.name: family for families in GROUPS.values() for family in families}
)
