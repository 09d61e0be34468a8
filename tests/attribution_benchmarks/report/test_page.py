"""The page and the summary say what the documents say, in HTML that is whole."""

import html
import html.parser
import json
import re
from dataclasses import replace

import pytest

from attribution_benchmarks.core.definition import TRIVIAL_MAX, Column
from attribution_benchmarks.report import matrix, publish, significance, summary
from attribution_benchmarks.report.formatting import Names, cell_score
from attribution_benchmarks.report.page import PAGES
from attribution_benchmarks.report.page import pages as render_pages

TITLES = {"best": "The Best", "random": "Random map", "template_position": "The truth"}
OWN = "<b>my</b>.py:maps"


@pytest.fixture
def pages(report):
    return render_pages(report(titles=TITLES))


def changed(results, documents, scores=None):
    """Return results with other documents, and with other scores by benchmark."""
    found = {one["benchmark"]: one for one in documents}
    return [
        replace(one, scores=replace(
            one.scores, rows=found[one.task.benchmark]["rows"], manifest=found[one.task.benchmark]["manifest"],
            groups=one.scores.groups if scores is None else scores.get(one.task.benchmark, ()),
        ))
        for one in results if one.task.benchmark in found
    ]  # fmt: skip


class Outline(html.parser.HTMLParser):
    """Collects what a page is made of, and refuses tags that do not close."""

    EMPTY = frozenset(("meta", "link", "img", "br", "line", "rect", "path", "circle", "input"))

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.append((tag, dict(attrs)))
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_the_pages_are_whole_html_that_asks_for_nothing(pages):
    assert list(pages) == [f"{name}.html" for name in PAGES]
    for page in pages.values():
        for tag, attributes in Outline(page).attributes:
            for name in ("src", "href", "action", "srcset"):
                value = attributes.get(name)
                # What a link leads to lies beside the page and is loaded on request.
                beside = name == "href" and tag == "a" and re.fullmatch(r"[\w./-]+(#[\w?=&%.-]+)?", value or "")
                assert value is None or beside or value.startswith(("data:", "#")), value
        assert "@import" not in page and not re.search(r"url\((?!data:)", page)


def test_every_table_has_a_caption_and_every_heading_cell_a_scope(pages):
    for outline in map(Outline, pages.values()):
        assert outline.tags.count("table") == outline.tags.count("caption")
        assert all(attributes.get("scope") for tag, attributes in outline.attributes if tag == "th")


def test_every_link_within_the_report_has_a_target(pages):
    outlines = {name: Outline(page) for name, page in pages.items()}
    targets = {
        name: {attributes["id"] for _, attributes in outline.attributes if "id" in attributes}
        for name, outline in outlines.items()
    }
    beside = set()
    for name, outline in outlines.items():
        for link in [attributes["href"] for tag, attributes in outline.attributes if tag == "a"]:
            file, _, place = link.partition("#")
            place = place.partition("?")[0]
            if file and file not in pages:
                beside.add(file)
            else:
                assert not place or place in targets[file or name], link
        assert {f"{other}.html" for other in PAGES} <= {
            attributes["href"] for tag, attributes in outline.attributes if tag == "a"
        }
    assert beside >= {"manifest.json", "tables/svea.csv"}


def test_matrix_and_tables_have_every_score(pages, built):
    for (_, key), row in built.cells.items():
        column = next(column for column in built.columns if column.key == key)
        assert pages["index.html"].count(cell_score(row, column)) >= 2


def test_what_others_wrote_is_text_and_no_markup(report, documents, results):
    renamed = json.loads(json.dumps(documents).replace('"best"', json.dumps(OWN)))
    found = render_pages(report(changed(results, renamed, {}), custom=[OWN], notes=["<script>x</script>"]))
    assert {name: Outline(page).tags.count("script") for name, page in found.items()} == dict.fromkeys(found, 1)
    for name, badges in (("index.html", 5), ("methods.html", 1)):
        assert OWN in "".join(Outline(found[name]).text) and found[name].count('class="badge">yours') == badges
    assert "printed &lt;table&gt;" in found["index.html"]


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("tied", [("good", "bad"), ("good", "bad", "twin"), ("twin",)])
def test_methods_that_tie_are_all_named(documents, groups, columns, tied, few):
    changed = json.loads(json.dumps(documents))
    for row in changed[0]["rows"]:
        row["value"] = 0.9 if row["method"] in ("best", *tied) and row["metric"] == "roe_test" else -1.0
    built = matrix.build(changed, columns)
    group = groups["svea"][0]
    values = {name: column[: 6 if few else 200] for name, column in group.values.items()}
    scores = {"svea": [significance.InputScores(group.where, group.inputs[: 6 if few else 200], values)]}
    for judged in ({}, significance.compare_columns(built, scores)):
        line = summary.choices(built, judged, Names(TITLES))[0]
        assert sorted(line.best) == sorted(["best", *tied]) and not {*line.best} & {*line.like}
        assert bool(line.untested) == (few or not judged)


@pytest.mark.parametrize("kept", [["svea"], ["bim", "clevr_xai"], ["svea", "bim", "clevr_xai"]])
def test_a_page_counts_the_benchmarks_of_its_matrix(documents, report, results, kept):
    """A benchmark may have a table, such as one without a column, before it has a row of the matrix."""
    some = changed(results, [one for one in documents if one["benchmark"] in kept], {})
    data = report(some)
    index, titles = render_pages(data)["index.html"], data.matrix.groups()
    kicker = re.search(r'class="kicker">(.*?)<', index)[1]
    assert kicker == "Attribution methods on " + " and ".join(", ".join(titles).rsplit(", ", 1))
    assert re.findall(r'<th scope="colgroup" colspan="\d+">(.*?)<', index) == titles


def test_advice_names_methods_that_pass_most_and_what_it_leaves_open(built, judged):
    (recommended,) = summary.advice(built, judged, Names(TITLES))
    assert recommended == (
        "The Best and good beat every baseline (✓) on SVEA ROE test %, BIM MCS and CLEVR-XAI mass, simple, not on SVEA "
        "Drop %."
    )
    *_, caveat = summary.undecided(judged, Names(TITLES))
    assert caveat.endswith("on SVEA, BIM and CLEVR-XAI, the results hold for the networks that were scored.")


def few_inputs(documents, groups, columns, n):
    """Return matrix and tests of n inputs of SVEA's two columns."""
    scores = {"svea": [significance.InputScores(group.where, group.inputs[:n], {
        name: column[:n] for name, column in group.values.items()
    }) for group in groups["svea"]]}  # fmt: skip
    built = matrix.build(json.loads(json.dumps(documents[:1])), columns)
    return built, significance.compare_columns(built, scores)


def test_a_quick_run_says_what_it_cannot_tell_and_praises_nobody(documents, groups, columns):
    built, judged = few_inputs(documents, groups, columns, 6)
    assert {line.untested for line in summary.choices(built, judged, Names({}))} == {"not tested: too few inputs"}
    first, *_ = summary.undecided(judged, Names({}))
    assert first.startswith("SVEA ROE test % and SVEA Drop %: fewer than 10 independent inputs")
    found = summary.against_baselines(judged, Names({}))
    assert found[0] == "SVEA ROE test %: 6 independent inputs are too few; 10 are needed."
    assert not any(tests.mark(name) for tests in judged.values() for name in built.methods)
    assert summary.advice(built, judged, Names({})) == []
    assert summary.headline(built, judged, Names({}), [])[0].startswith("A first look")


def test_the_summary_compares_with_the_papers(documents, columns):
    printed = json.loads(json.dumps(documents))
    rows = [row for row in printed[0]["rows"] if row["metric"] == "roe_test" and row["kind"] == "method"]
    for row, paper in zip(rows, (rows[0]["value"], 1e6, rows[2]["low"]), strict=False):
        row["paper"] = paper
    found = matrix.build(printed, columns)
    lines = list(summary.papers(found, {"SVEA": "It differs.", "BIM": "Other images."}))
    assert lines[0].startswith("SVEA: 2 of the paper's 3 scores lie") and lines[0].endswith(" It differs.")
    assert lines[1] == "BIM: the paper has no comparable score. Other images."


@pytest.mark.parametrize(
    ("aside", "lead", "why"),
    [
        ({}, 1.0, "uses no network and scores higher"),
        ({"random": TRIVIAL_MAX}, 0.0, "has the trivial maximum"),
    ],
)
def test_no_method_is_named_best_where_a_baseline_scores_higher(documents, groups, columns, aside, lead, why):
    lifted = json.loads(json.dumps(documents[:1]))
    rows = {row["method"]: row for row in lifted[0]["rows"] if row["metric"] == "roe_test"}
    best = rows["best"]["value"]
    rows["random"]["value"] = best + lead
    chosen = [replace(columns[0], excluded={**columns[0].excluded, **aside}), columns[1]]
    built = matrix.build(lifted, chosen)
    judged = significance.compare_columns(built, groups)
    first, _ = summary.choices(built, judged, Names(TITLES))
    assert first.beaten and first.caveat == f"“Random map” {why} ({best + lead:.1f})"
    rows["random"]["value"] = best - 0.01
    first, _ = summary.choices(matrix.build(lifted, chosen), judged, Names(TITLES))
    assert not first.beaten and "higher" not in first.caveat and "maximum" not in first.caveat


def test_a_page_of_one_benchmark_and_one_metric_has_no_doubled_label(report, results, definitions):
    gridpg = [Column("svea", "roe_test", "GridPG", "GridPG")]
    data = report(results[:1], columns=gridpg, definitions=[replace(definitions[0], title="GridPG")])
    text = "".join(render_pages(data).values())
    assert "GridPG GridPG" not in text and "GridPG: GridPG" not in text
    assert "1 metric;" in text


def test_nothing_scored_is_said(report):
    data = report([])
    assert summary.headline(data.matrix, {}, Names({}), []) == ("Nothing has been scored", "")
    assert "Nothing has been scored" in render_pages(data)["index.html"]


def test_publishing_twice_writes_the_same_bytes_and_tables_that_agree(tmp_path, report):
    (tmp_path / "tables").mkdir()
    written = []
    for _ in range(2):
        reasons = {("twin", "bim"): "too slow"}
        text = publish.publish(tmp_path, report(titles=TITLES, reasons=reasons))
        found = {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*.*")}
        assert set(found) == {
            *(f"tables/matrix.{suffix}" for suffix in ("txt", "csv", "json", "md")), "manifest.json",
            *(f"{name}.html" for name in PAGES),
        }  # fmt: skip
        written.append(found)
    assert written[0] == written[1]
    assert (tmp_path / "tables" / "matrix.txt").read_text() in text
    assert text.splitlines()[-2:] == [
        "The Best and good beat every baseline (✓) on 3 of 4 metrics", "No method passes on more metrics."
    ]  # fmt: skip
    rows = json.loads(written[0]["tables/matrix.json"])["rows"]
    assert {row["reason"] for row in rows if row["value"] is None} == {"too slow"}
    assert len({(row["method"], row["column"]) for row in rows}) == len(rows) == 3 * 6 + 4
    lines = written[0]["tables/matrix.txt"].decode().split("\n\n")[0].splitlines()
    best, bad, truth = (
        next(line for line in lines if line.startswith(name)) for name in ("The Best", "bad", "The truth")
    )
    assert best.count("(1)✓") == 3 and "✓" not in bad  # of negative scores there is no share
    assert truth.count("‡") == 2 and not any("‡" in line for line in lines if not line.startswith("The truth"))
