"""Tables of several networks side by side: from numbers made up, and from a run of the evaluation."""

import copy
import json

import pytest

from attribution.cli import execute
from attribution_benchmarks.core import input_scores
from attribution_benchmarks.core.input_scores import InputScores
from attribution_benchmarks.stats.correlation import kendall_tau
from clevr_xai import evaluate, table
from clevr_xai.metrics import HEADING, POOLINGS
from research.clevr_xai import compare_networks

PAPER = {
    name: table.poster_figure(name, "mass", "simple", "single_object", "all").mean
    for name in ("lrp_clevr_xai", "excitation_backprop", "integrated_gradients", "gradient", "deconvnet")
}
N = 12


@pytest.fixture
def written(tmp_path):
    """Return a function that writes the table and the input scores of a network, and returns the table's path."""

    def write(name, levels, right=range(N), kind="simple", **changed):
        truth = "single_object" if kind == "simple" else "union"
        where = {"questions": kind, "ground_truth": truth}
        rows, groups = [], []
        for metric in ("mass", "rank"):
            for pooling in POOLINGS:
                for method, level in levels.items():
                    published = table.poster_figure(method, metric, kind, truth, "all")
                    for subset in ("all", "confident"):
                        rows.append({
                            "method": method, "metric": metric, **where, "pooling": pooling, "subset": subset,
                            "kind": "method", "value": level, "low": level - 0.01, "high": level + 0.01,
                            "n": len(right), "undefined": 0, "without_mask": 0, "answered_wrongly": N - len(right),
                            "paper": published and published.mean,
                        })  # fmt: skip
            values = {method: [level + 0.001 * (one % 3) for one in right] for method, level in levels.items()}
            groups.append(
                InputScores(
                    {"metric": metric, **where, "pooling": HEADING[metric], "subset": "all"},
                    [str(one) for one in right], values, [f"image {one // 2}" for one in right],
                )
            )  # fmt: skip
        manifest = {"models": {name: "0123"}, "command": f"python -m evaluation of {name}", **changed}
        document = {"benchmark": "clevr_xai", "rows": rows, "manifest": manifest}
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
        input_scores.save(tmp_path / f"{name}.scores.json", "clevr_xai", groups)
        return str(tmp_path / f"{name}.json")

    return write


def run(capsys, *arguments):
    """Return exit code, output and errors of the command."""
    code = execute(compare_networks.main, compare_networks.FLAGS, compare_networks.__doc__, ["compare", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def cells(text, start):
    """Return the cells of the first line of a table that starts so."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {start} |"))
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_means_are_next_to_the_posters(written, capsys, tmp_path):
    first, second = written("a", PAPER), written("b", {name: level - 0.1 for name, level in PAPER.items()})
    code, out, err = run(capsys, f"--tables={first},{second}", f"--output={tmp_path / 'page.md'}")
    assert code == 0, err
    assert cells(out, "Vanilla Gradient") == [
        "0.49 (0.48–0.50)", "0.39 (0.38–0.40)", "0.49 (0.48–0.50)", "0.39 (0.38–0.40)", "0.49",
    ]  # fmt: skip
    assert "`python -m evaluation of a`" in out and "`python -m evaluation of b`" in out
    page = (tmp_path / "page.md").read_text()
    assert page.startswith(out.rstrip("\n")) and '"models": {' in page
    assert out.count("| Vanilla Gradient |") == 4  # all questions, confident ones, and two tables of poolings


def test_orders_agree_with_themselves_and_not_with_their_reverse(written, capsys):
    reverse = {name: 1 - level for name, level in PAPER.items()}
    first, second = written("a", PAPER), written("b", reverse)
    _, out, _ = run(capsys, f"--tables={first},{first}")
    assert cells(out, "Relevance mass accuracy") == ["networks 1 and 2", "5", "1.00 (1.00 to 1.00)"]
    _, out, _ = run(capsys, f"--tables={first},{second}")
    assert cells(out, "Relevance rank accuracy") == ["networks 1 and 2", "5", "-1.00 (-1.00 to -1.00)"]
    swapped = {**PAPER, "gradient": 0.1}
    expected = kendall_tau(list(swapped.values()), list(PAPER.values()))
    _, out, _ = run(capsys, f"--tables={written('c', swapped)},{first}")
    poster = next(line for line in out.splitlines() if "network 1 and poster, IG from black" in line)
    assert poster.split("|")[4].split()[0] == f"{expected:.2f}" == "0.80"


def test_two_networks_are_compared_on_the_questions_that_both_answer(written, capsys):
    """Where the first answers six questions more, these do not count."""
    first, second = written("a", PAPER), written("b", PAPER, right=range(6))
    groups = input_scores.load(first.replace(".json", ".scores.json"))
    turned = copy.deepcopy(groups)
    for group in turned:
        for number, column in enumerate(group.values.values()):
            column[6:] = [float(number)] * 6
    input_scores.save(first.replace(".json", ".scores.json"), "clevr_xai", turned)
    _, out, _ = run(capsys, f"--tables={first},{second}")
    assert cells(out, "Relevance mass accuracy")[2] == "1.00 (1.00 to 1.00)"
    assert "6 of 12 questions answered correctly" in out


def test_complex_questions_have_no_poster(written, capsys):
    tables = [written(name, PAPER, kind="complex") for name in "ab"]
    code, out, _ = run(capsys, f"--tables={','.join(tables)}")
    assert code == 0 and "poster" not in out.partition("\n## ")[2] and "Ground truth Union" in out


@pytest.mark.parametrize("arguments", [[], ["--tables="], ["--tables=TABLE"], ["--tables=missing.json,TABLE"],
                                       ["--tables=TABLE,TABLE", "--output=x.json"]])  # fmt: skip
def test_invalid_input_is_refused_in_one_line(arguments, written, capsys):
    path = written("a", PAPER)
    code, out, err = run(capsys, *(argument.replace("TABLE", path) for argument in arguments))
    assert code == 2 and out == "" and len(err.splitlines()) == 1 and err.startswith("error: ")


def test_a_file_of_something_else_is_refused(written, capsys, tmp_path):
    path = written("a", PAPER)
    for document in ([], {}, {"benchmark": "svea", "rows": [], "manifest": {"models": {"x": ""}}}):
        (tmp_path / "a.json").write_text(json.dumps(document))
        code, _, err = run(capsys, f"--tables={path},{path}")
        assert code == 2 and "is not a table of clevr_xai.evaluate about one network" in err


def test_what_the_evaluation_writes_is_read(small_network, answered, load_once, tmp_path, capsys):
    given = [
        f"--model={small_network}", f"--data_dir={answered}", f"--scores_dir={tmp_path / 'scores'}",
        "--methods=gradient,grad_cam,lrp_clevr_xai", "--controls=uniform", "--subset=all", "--pooling=all",
        f"--output={tmp_path / 'a.json'}", f"--input_scores={tmp_path / 'a.scores.json'}",
    ]  # fmt: skip
    assert execute(evaluate.main, evaluate.FLAGS, evaluate.__doc__, ["evaluate", *given]) == 0
    capsys.readouterr()
    code, out, err = run(capsys, f"--tables={tmp_path / 'a.json'},{tmp_path / 'a.json'}")
    assert code == 0, err
    rows = json.loads((tmp_path / "a.json").read_text())["rows"]
    row = next(
        one for one in rows if (one["method"], one["metric"], one["pooling"]) == ("gradient", "rank", "max-norm")
    )
    assert cells(out, "Vanilla Gradient")[2].startswith(f"{row['value']:.2f} (")
    assert "11 of 12 questions answered correctly" in out
    assert cells(out, "Relevance rank accuracy")[:2] == ["networks 1 and 2", "3"]
