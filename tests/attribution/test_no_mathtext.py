"""Names that matplotlib would read as mathematics are drawn as they are."""

import io
import logging

import matplotlib
import matplotlib.figure
import numpy as np
import pytest

import attribution
from attribution.plotting import no_mathtext

BROKEN = r"$\no_such_command{$"


def drawing():
    figure = matplotlib.figure.Figure(figsize=(2, 2))
    axis = figure.subplots()
    axis.set_title(BROKEN)
    axis.set_xticks([0], [BROKEN])
    figure.savefig(io.BytesIO(), format="png")
    return figure


def test_text_is_text_and_the_users_own_settings_stay():
    with pytest.raises(ValueError, match="no_such_command"):
        drawing()
    before = matplotlib.rcParams["text.parse_math"]
    no_mathtext(drawing)()
    assert matplotlib.rcParams["text.parse_math"] == before


@pytest.mark.parametrize("shape", [(1, 8, 8, 3), (1, 20, 1)])
def test_maps_of_files_and_methods_of_such_names(shape, caplog):
    values = np.random.default_rng(0).random(shape, dtype=np.float32)
    with caplog.at_level(logging.WARNING, "matplotlib"):
        figure = attribution.plot({BROKEN: values}, values, titles=[BROKEN])
        figure.savefig(io.BytesIO(), format="png")  # after the drawing, as a notebook does
    assert not caplog.records
