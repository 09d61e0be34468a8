"""CLEVR-XAI's figures in docs are those of the committed tables, and these of the committed networks."""

import json
import pathlib
import re

import pytest

from attribution.model import saved_model

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = " ".join((ROOT / "docs" / "results.md").read_text("utf-8").split())
PAGE = (ROOT / "docs" / "clevr_xai_table.md").read_text("utf-8")
PROSE = " ".join(PAGE.split())
MADE = sorted(path.name for path in (ROOT / "docs").glob("clevr_xai_*.md") if '"models": {' in path.read_text("utf-8"))

FORMER = "> Of the networks and questions of commit 6bf403b, in the plain wording."
ALL, CONFIDENT, LARGE = "all questions", "softmax > 0.99999", "mask > 1,000 px"
SUBSETS = {"all": ALL, "confident": CONFIDENT, "large mask": LARGE}
TITLE = re.compile(r"Relevance mass accuracy, ground truth (.+), pooling .+?, (.+): (\d+) questions")


def _rows(lines):
    """Head, and cells by name, of the first Markdown table in these lines."""
    start = next(number for number, line in enumerate(lines) if line.startswith("|"))
    table = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip("|").split("|")])
    return table[0][1:], [(name, cells) for name, *cells in table[2:]]


def _tables(page):
    """``{(ground truth, subset): (questions, {method: (mean, the poster's mean)})}`` of a committed file."""
    lines = (ROOT / "docs" / page).read_text("utf-8").splitlines()
    tables = {}
    for number, line in enumerate(lines):
        if title := TITLE.fullmatch(line):
            _, rows = _rows(lines[number:])
            means = {name: (cells[0].split()[0], cells[-1].split()[0]) for name, cells in rows}
            tables[title[1], title[2]] = int(title[3]), means
    assert tables
    return tables


def _section(heading):
    """Lines of the page from a heading to the next one."""
    (text,) = re.findall(rf"^##+ {heading}\n(.*?)(?=^##|\Z)", PAGE, re.DOTALL | re.MULTILINE)
    return text.splitlines()


@pytest.mark.parametrize("page", MADE)
def test_tables_say_if_they_are_not_of_the_committed_networks(page):
    text = (ROOT / "docs" / page).read_text("utf-8")
    (manifest,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    models = json.loads(manifest)["models"]
    named = {name: value for name, value in models.items() if name.startswith("saved_models/")}
    assert named
    committed = {name: saved_model.fingerprint(ROOT / name) for name in named}
    assert (named == committed) == (not text.startswith(FORMER))


def test_simple_questions_are_compared_with_the_poster():
    head, rows = _rows(_section("Simple questions compared with the poster"))
    assert head == ["all, here", "poster", "confident, here", "poster"]
    tables = _tables("clevr_xai_simple.md")
    (questions, everything), (sure, confident) = (tables["Single Object", subset] for subset in (ALL, CONFIDENT))
    assert len(rows) == 12
    assert rows == [(name, [*everything[name], *confident[name]]) for name, _ in rows]
    assert f"{questions} of 500 answers are correct, {sure} of them with a softmax above 0.99999" in PROSE


@pytest.mark.parametrize(
    ("heading", "file", "length"),
    [("The second network", "clevr_xai_simple", 12), ("Guided Backprop and Deconvnet", "clevr_xai_candidates", 8)],
)
def test_two_networks_are_compared_with_the_poster(heading, file, length):
    head, rows = _rows(_section(heading))
    subsets = [SUBSETS[column.removesuffix(", default")] for column in head[::3]]
    assert head[1::3] == ["second"] * len(subsets)
    assert head[2::3] == ["poster"] * len(subsets)
    default, second = _tables(f"{file}.md"), _tables(f"{file}_seed1.md")
    assert len(rows) == length
    method = ""
    for name, cells in rows:
        if name.startswith("– "):  # a variant of the method above, which has the poster's figure
            full = f"{method} {name[2:].replace(' the', '')}".lower().replace(" ", "_").replace("-", "_")
        else:
            full = method = name
        expected = []
        for subset in subsets:
            (_, ours), (_, theirs) = default["Single Object", subset], second["Single Object", subset]
            expected += [ours[full][0], theirs[full][0], ours[method][1]]
        assert cells == expected, name


def test_complex_questions_have_their_three_ground_truths():
    truths, rows = _rows(_section("Complex questions"))
    assert truths == ["Unique", "Unique First-non-empty", "Union"]
    tables = _tables("clevr_xai_complex.md")
    assert len(rows) == 14
    assert rows == [(name, [tables[truth, ALL][1][name][0] for truth in truths]) for name, _ in rows]
    (union, _), (sure, _) = tables["Union", ALL], tables["Union", CONFIDENT]
    assert f"{union} of 500 answers are correct, {sure} of them confident" in PROSE
    assert f"{union - tables['Unique', ALL][0]} of the correct ones have no mask *Unique*" in PROSE


def test_the_second_network_answers_as_many_as_is_said():
    simple, complex_ = _tables("clevr_xai_simple_seed1.md"), _tables("clevr_xai_complex_seed1.md")
    assert (
        f"it answers {simple['Single Object', ALL][0]} simple ones correctly, "
        f"{simple['Single Object', CONFIDENT][0]} of them confidently, and {complex_['Union', ALL][0]} complex ones, "
        f"{complex_['Union', CONFIDENT][0]} confidently" in PROSE
    )


@pytest.mark.parametrize("kind", ["simple", "complex"])
def test_pairs_in_the_same_order_are_those_of_the_comparison(kind):
    text = (ROOT / "docs" / f"clevr_xai_seeds_{kind}.md").read_text("utf-8")
    (questions,) = re.findall(r"^(\d+) questions about", text, re.MULTILINE)
    (pairs,) = re.findall(r"^All networks put (\d+ of \d+) pairs", text, re.MULTILINE)
    tau, low, high = re.search(r"^\| network 1 \| ([\d.]+) \(([\d.]+) to ([\d.]+)\)", text, re.MULTILINE).groups()
    about = rf"{questions} {'simple questions' if kind == 'simple' else 'complex ones'}"
    for page in (RESULTS, PROSE):
        assert about in page
        assert re.search(rf"{tau}, (95 % interval )?(over images )?{low} to {high}", page)
    assert pairs in PROSE
    told = f"{pairs} pairs of methods in the same order" if kind == "simple" else pairs.split()[0]
    assert f"{told} on {about}" in RESULTS
    assert f"under both networks on {questions} {kind} questions" in PROSE


def test_the_overview_of_results_has_the_same():
    tables = _tables("clevr_xai_simple.md")
    (questions, everything), (sure, confident) = (tables["Single Object", subset] for subset in (ALL, CONFIDENT))
    start = RESULTS.index(f"On {questions} correct answers to 500 simple questions")
    told = RESULTS[start : RESULTS.index("Kendall's tau", start)]
    names = {
        "the gradient": "Vanilla Gradient",
        **{name: name for name in ("Guided Backprop", "Guided Grad-CAM", "SmoothGrad", "VarGrad", "Gradient x Input")},
        **{name: name for name in ("Grad-CAM", "Deconvnet")},
    }
    for said, name in names.items():
        assert f"{said} {everything[name][0]} ({everything[name][1]})" in told
    for name, where in (("IG from black", "from black"), ("Edge detector", "an edge detector")):
        assert f"{where} {everything[name][0]}" in told
    assert f"from gray puts {everything['IG from gray'][0]} of its mass" in told
    lrp, excitation = (
        [subset[name] for subset in (everything, confident)] for name in ("LRP (CLEVR-XAI)", "Excitation Backprop")
    )
    assert f"{lrp[0][0]} and {excitation[0][0]} ({lrp[0][1]} and {excitation[0][1]})" in told
    assert f"On the {sure} confident ones" in told
    assert f"LRP has {lrp[1][0]} ({lrp[1][1]}), Excitation Backprop {excitation[1][0]} ({excitation[1][1]})" in told


def test_the_overview_of_results_says_what_is_kept_for_a_wrong_class():
    """The least and the largest share of the mass accuracy, under any ground truth of the default network's tables."""
    shares = []
    for page in ("clevr_xai_simple.md", "clevr_xai_complex.md"):
        lines = (ROOT / "docs" / page).read_text("utf-8").splitlines()
        for number, line in enumerate(lines):
            if (title := TITLE.fullmatch(line)) and title[2] == ALL:
                head, rows = _rows(lines[number:])
                for name in ("LRP (CLEVR-XAI)", "Excitation Backprop", "Guided Backprop"):
                    cells = dict(zip(head, dict(rows)[name], strict=True))
                    shares.append(float(cells["wrong class"]) / float(cells["mean (std) median"].split()[0]))
    assert len(shares) == 3 * 4
    low, high = (f"{100 * share:.0f}" for share in (min(shares), max(shares)))
    assert (
        f"For a wrong class LRP, Excitation Backprop and Guided Backprop keep {low} to {high} % of their mass accuracy"
        in RESULTS
    )


@pytest.mark.parametrize("network", ["relation_network", "relation_network_seed1"])
def test_the_overview_of_results_has_the_networks_accuracy_of_its_card(network):
    card = (ROOT / "saved_models" / "clevr_xai" / network / "MODEL_CARD.md").read_text("utf-8")
    simple, complex_ = (
        re.search(rf"^\| {kind}, official wording \| ([\d.]+) \|", card, re.MULTILINE)[1]
        for kind in ("simple", "complex")
    )
    link = RESULTS.index(f"(`saved_models/clevr_xai/{network}/MODEL_CARD.md`)")
    said = RESULTS[RESULTS.rindex("answers", 0, link) : link]
    assert re.match(rf"answers {simple} (% of simple )?and {complex_} %", said)
