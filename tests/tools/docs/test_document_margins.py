"""The numbers of scores by margin are those of the marks, and grow with the margin."""

import numpy as np

from tools.docs import document_margins


def test_margins_are_counted_as_the_marks_are():
    text = (document_margins.ROOT / "docs" / "results.md").read_text("utf-8")
    found = document_margins.counts(document_margins.shares(text))
    at_80 = sum(each[document_margins.MARGINS.index(80), 0] for each in found.values())
    assert at_80 == sum("†" in cell for cell in document_margins.cells(text, "method").values())
    assert all((np.diff(each, axis=0) >= 0).all() and (each[:, 1] <= each[:, 0]).all() for each in found.values())
