"""docs/networks.md says what docs/networks.csv has."""

from tools.docs import document_networks
from tools.docs.document_networks import known_cells

CELLS = dict.fromkeys(("gradient", "lrp_epsilon", "rise"), "exact 2e-07")


def row(**cells):
    return (
        {"group": "Convolutions", "family": "relu", "about": "ReLU", "default layer": "relu (4, 4, 8)"} | CELLS | cells
    )


def test_the_page_is_up_to_date():
    page = document_networks.PAGE.read_text("utf-8")
    for name, part in document_networks.parts(known_cells()).items():
        assert f"<!-- {name}: written by tools/docs/document_networks.py -->\n\n{part.strip()}\n\n" in page, (
            "run python -m tools.docs.document_networks"
        )


def test_no_cell_differs_or_crashes():
    cells = [cell for row in known_cells() for cell in row.values()]
    assert len(cells) > 3000 and not [cell for cell in cells if cell.startswith(("differs", "crashes"))]


def test_cells_have_their_difference_or_reason():
    cell = {"status": "rounding", "difference": 0.003, "in_double": 4e-8, "of_oracle": 0.002, "note": ""}
    assert document_networks.cell_text(cell, str) == "rounding 3e-03, float64 4e-08, oracle 2e-03"
    zero = cell | {"status": "exact", "in_double": None, "of_oracle": None, "note": "all zero"}
    assert document_networks.cell_text(zero, str) == "exact 3e-03, all zero"
    refused = {"status": "refused", "note": "no rule for 'While'"}
    assert document_networks.cell_text(refused, str) == "refused: no rule for 'While'"


def test_tables_count_cells_and_name_refused_methods():
    rows = [row(), row(rise="rows", lrp_epsilon="refused: no rule"), row(**dict.fromkeys(CELLS, "refused: live"))]
    parts = document_networks.parts(rows)
    assert "**3 families** by 3 methods, 9 cells" in parts["cells"]
    assert "| all | 4 | 0 | 0 | 0 | 1 | 0 | 4 | 0 |" in parts["cells"]
    assert "| relu: ReLU | 1 |  |  |  | 1 |  | 1 |  | lrp_epsilon |" in parts["families"]
    assert "|  |  | 3 |  | all |" in parts["families"]


def test_measured_families_replace_their_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(document_networks, "CELLS", tmp_path / "networks.csv")
    document_networks.write_cells([row(rise="refused: a, b")], CELLS)
    assert known_cells() == [row(rise="refused: a, b")]
