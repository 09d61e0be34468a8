"""The tables of docs/results.md are those of a report, without ranks; a share is that of the strongest baseline."""

from tools.docs import document_results

COLUMNS = " | ".join(f"column {number}" for number in range(11))
BLANKS = " | –" * 8
MATRIX = f"""| method | {COLUMNS} |
| --- |{" --- |" * 11}
| Grad-CAM | 62.3 (2) | 11.9 (1.5)✓{BLANKS} | 0.5 (1) |
| Score-CAM | 67.2 (1) | 12.2 (1.5)n/a{BLANKS} | – |
| AttnLRP | – | –{BLANKS} | 0.4 (2) |
| Largest \\|x\\|, no network | 61.4 | 17.1‡{BLANKS} | – |

A legend | with a line.
"""


def test_methods_and_baselines_have_tables_without_ranks():
    found = document_results.matrix_tables(MATRIX)
    method, baseline = (found[name].splitlines()[2:] for name in ("method", "baseline"))
    assert method == [f"| Grad-CAM | 62.3 | 11.9✓{BLANKS} |", f"| Score-CAM | 67.2 | 12.2 n/a{BLANKS} |"]
    assert baseline == [f"| Largest \\|x\\|, no network | 61.4 | 17.1‡{BLANKS} |"]


def test_the_share_is_that_of_the_strongest_baseline_of_its_kind():
    def baseline(kind, share):
        return {"kind": kind, "share": share, "low": share - 0.1, "high": share + 0.1}

    compared = [baseline("random_weights", 0.9), baseline("random", 0.2), baseline("edge_detector", 0.4)]
    rows = [
        {"method": "grad_cam", "column": "first", "baselines": compared},
        {"method": "grad_cam", "column": "second"},
        {"method": "rise", "column": "second", "baselines": [{"kind": "random", "share": None}]},
    ]
    assert document_results.share_rows(rows) == [
        ["random weights", "Grad-CAM", "ROE %", "90", "80", "100"],
        ["no network", "Grad-CAM", "ROE %", "40", "30", "50"],
    ]


def test_the_table_of_more_networks_has_the_mark_the_strongest_baseline_and_the_headroom():
    baselines = [{"kind": kind, "share": share, "low": share - 0.1, "high": share + 0.1} for kind, share in
                 (("random_weights", 0.5), ("largest", 0.7))]  # fmt: skip
    row = {"method": "grad_cam", "kind": "method", "value": 62.34, "mark": "✓", "baselines": baselines}
    row["networks"] = list(range(20))
    rows = [
        row | {"column": "svea roe_test", "headroom_share": 0.314},
        row | {"column": "svea drop", "mark": "n/a", "baselines": []},
        {"method": "largest", "kind": "control", "column": "svea drop", "value": 61.4},
    ]
    rows.append(row | {"column": "svea increase", "networks": [0]})
    labels = ("ROE %", "Drop", "Incr. %")
    head, _, *body = document_results.network_table(rows, labels).splitlines()
    assert head == "| method | ROE % | reached | headroom | Drop | reached |"
    assert body == ["| Grad-CAM | 62.3✓ | 70 (60–80) | 31 | 62.340 n/a |  |"]


def test_the_text_names_the_scores_with_a_mark():
    page = document_results.PAGE.read_text("utf-8")
    text, table = (
        page.split("### More networks\n")[1].split("<!-- /twenty networks -->")[0].split("<!-- twenty networks")
    )
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("| ")
    ]
    marked = {(row[0], place) for row in rows[2:] for place in (1, 4, 7) if "✓" in row[place]}
    assert marked == {(name, 4) for name in ("Integrated Gradients", "LRP-α1β0", "Excitation Backprop")}
    assert "Three scores have the mark: the Drop of Integrated Gradients, LRP-α1β0 and" in " ".join(text.split())
    shares = {(row[0], place): int(row[place + 1].split()[0]) for row in rows[2:] for place in (1, 4, 7)}
    assert len([place for place, share in shares.items() if share < 80 and place not in marked]) == 5
    assert min(share for (_, place), share in shares.items() if place != 4) == 87


def test_the_text_counts_the_scores_of_more_pairs_of_bim():
    text, table = document_results.PAGE.read_text("utf-8").split("<!-- /ten pairs -->")[0].split("<!-- ten pairs")
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| ")][2:]
    text = " ".join(text.split())
    assert "✓" not in table and "of BIM no score has the mark" in text
    below = sum(int(row[place].split()[0]) < 80 for row in rows for place in (2, 4))
    assert f"for {below} scores every baseline reaches less than 80 %" in text


def test_the_text_counts_the_marks_of_the_tetrominoes():
    before, after = document_results.PAGE.read_text("utf-8").split("<!-- tetrominoes")
    text = " ".join(before.split("<!-- /ten pairs -->")[1].split())
    lines = [line for line in after.split("<!-- /tetrominoes")[0].splitlines() if line.startswith("| ")][2:]
    rows = {row[0]: row[1::3] for row in ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)}
    marked = [["✓" in cell for cell in row] for row in rows.values()]
    assert f"{sum(map(sum, marked))} of {sum(map(len, marked))}" in text
    assert sum(map(all, marked)) == 7 and all(row[3] for row in marked) and len(rows) == 13
    reversed_ranks = {name for name, row in rows.items() if float(row[1].rstrip("✓")) < 0}
    assert reversed_ranks == {"SmoothGrad", "Vanilla Gradient", "Guided Backprop", "Deconvnet"}
    assert float(rows["Gradient x Input"][3].rstrip("✓")) > 0.478
