"""Every family of transformers, mixers and recurrent networks is explained by three methods."""

import pytest

from tools.model_zoo.families import GROUPS


@pytest.mark.parametrize(
    "name", [one.name for group in ("Transformers and mixers", "Recurrent") for one in GROUPS[group]]
)
def test_every_family_of_sequences_is_known_or_refused(name, known_or_refused):
    known_or_refused(name)
