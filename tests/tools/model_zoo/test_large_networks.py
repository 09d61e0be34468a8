"""The zoo: networks that take long to write."""

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vit_gelu", "swin", "keras_int8"])
def test_every_cell_is_exact_runs_or_is_refused(name, check_family):
    check_family(name, *(() if name == "keras_int8" else ("lrp_attn", "gradient_rollout")))
