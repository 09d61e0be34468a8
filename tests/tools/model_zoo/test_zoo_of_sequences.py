"""Transformers, mixers and recurrent networks whose graphs differ most are explained by three methods."""

import pytest

# The others are variants of these, which ``tools/docs/document_networks.py`` measures.
NAMES = ("vit_gelu", "swin", "mlp_mixer", "token_transformer", "lstm", "bidirectional")


@pytest.mark.parametrize("name", NAMES)
def test_families_of_sequences_are_known_or_refused(name, known_or_refused):
    known_or_refused(name)
