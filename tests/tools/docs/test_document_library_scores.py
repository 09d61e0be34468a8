"""Figures on libraries in the prose of README and docs/results.md: those of the stored scores."""

import pathlib

import pytest

from tools.docs import document_library_scores as document

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def shares():
    """Return the shares of the method and the library by benchmark, of all definitions and with equal ones once."""
    tables = document.measured_tables().values()
    assert len(tables) == len(document.TITLES)
    places = [(range(len(table.cells)), table.distinct()) for table in tables]
    return [
        [document.shares(table.means()[rows], [table.methods[row] for row in rows])[:2] for rows in both]
        for table, both in zip(tables, places, strict=True)
    ]


@pytest.mark.parametrize("page", ["README.md", "docs/results.md"])
def test_prose_has_the_range_of_the_shares(page, shares):
    methods, libraries = zip(*(every for every, _ in shares), strict=True)
    text = " ".join((ROOT / page).read_text("utf-8").split())
    assert f"{min(libraries):.0f} to {max(libraries):.0f} % of" in text
    assert f"the method {min(methods):.0f} to {max(methods):.0f} %" in text


def test_prose_has_the_largest_share_of_libraries_where_equal_scores_count_once(shares):
    text = " ".join(document.PAGE.read_text("utf-8").split())
    assert f"the library has up to {max(library for _, (_, library) in shares):.0f} %." in text
