"""Orders of methods under several networks, from numbers made up, and the command on two copies of one network."""

import copy
import json
import shutil

import numpy as np
import pytest

from attribution.cli.run import execute
from attribution.errors import BadInput
from attribution_benchmarks.core.batch import MapSource
from attribution_benchmarks.stats.correlation import kendall_tau
from clevr_xai import methods, paper_table
from clevr_xai.measured import Measured
from clevr_xai.metrics import METRICS
from clevr_xai.pooling import POOLINGS
from research.clevr_xai import compare_networks, network_order

N = 40
NAMES = tuple(methods.TITLES)
PAPER = {name: paper_table.figure(name, "mass", "simple", "single_object", "all").mean for name in NAMES}
ONE_PATH = [name for name in NAMES if name not in ("integrated_gradients", "integrated_gradients_median")]


@pytest.fixture(autouse=True)
def _fewer_draws(monkeypatch):
    """No expected value depends on how many draws an interval has."""
    monkeypatch.setattr(network_order, "DRAWS", 100)


def network(levels, right=None, noise=0.01, seed=0):
    """Return numbers of forty questions on twenty images, each method near its level."""
    generator = np.random.default_rng(seed)
    right = np.ones(N, bool) if right is None else right
    scores = {
        MapSource(name): np.clip(level + noise * generator.normal(size=(N, 2, len(METRICS), len(POOLINGS))), 0, 1)
        for name, level in levels.items()
    }
    scores[MapSource(control="uniform")] = np.full((N, 2, len(METRICS), len(POOLINGS)), 0.1)
    for one in scores.values():
        one[~right] = np.nan
    return Measured(
        "simple", ("single_object", "all_objects"), np.arange(N), np.arange(N),
        [f"{number // 2}" for number in range(N)],
        right, np.ones(N), {"single_object": np.full(N, 900), "all_objects": np.full(N, 2000)}, "f", tuple(scores),
        scores.__getitem__,
    )  # fmt: skip


def test_figures_are_of_the_questions_that_all_networks_answer():
    rights = [np.arange(N) % 4 != 0, np.arange(N) % 4 != 1]
    measured = {name: network(PAPER, right) for name, right in zip("ab", rights, strict=True)}
    found = network_order.compare(measured, "single_object", controls=["uniform"])
    both = rights[0] & rights[1]
    assert len(found.images) == both.sum() == 20 and found.right == {"a": 30, "b": 30} and found.drawn == N
    values = measured["a"].scores(MapSource("gradient"))[both, 0, 0, list(POOLINGS).index("l2-norm,sq")]
    assert found.estimates["a"]["gradient"].value == pytest.approx(values.mean(), rel=1e-12)
    assert found.methods[0] == "lrp_clevr_xai" and found.controls == ["uniform"]
    with pytest.raises(BadInput, match="none of the 40 questions counts for every network"):
        network_order.compare({"a": network(PAPER, rights[0]), "b": network(PAPER, ~rights[0])}, "single_object")


def test_orders_agree_with_themselves_and_not_with_their_reverse():
    turned = {name: 1 - level for name, level in PAPER.items()}
    spread = {name: 0.9 - 0.06 * place for place, name in enumerate(ONE_PATH)}
    reverse = {name: 1 - level for name, level in spread.items()}
    found = network_order.compare(
        {"a": network(spread), "b": network(spread, seed=1), "c": network(reverse)}, "single_object"
    )
    assert found.agreement["a", "b"].value == 1 and found.agreement["a", "c"].value == -1
    assert found.agreement["a", "b"][1:3] == (1, 1)  # nothing is near enough to change places
    poster = found.agreement["a", "poster integrated_gradients_gray"]
    assert poster.value == pytest.approx(kendall_tau(list(spread.values()), [PAPER[name] for name in spread]))
    assert found.agreement["c", "poster integrated_gradients_gray"].value == pytest.approx(-poster.value)
    near = {**PAPER, "smoothgrad": 0.58, "guided_backprop": 0.58, "vargrad": 0.58}
    unsure = network_order.compare({"a": network(near, noise=0.3), "b": network(turned)}, "single_object")
    low, value, high = (unsure.agreement["a", "poster integrated_gradients"][place] for place in (1, 0, 2))
    assert low < value <= high <= 1


def test_each_path_stands_for_the_posters_one():
    found = network_order.compare({"a": network(PAPER), "b": network(PAPER, seed=1)}, "single_object")
    posters = [other for one, other in found.agreement if one == "a" and other != "b"]
    assert sorted(posters) == [f"poster {name}" for name in sorted(methods.BASELINES)]
    complex_ = copy.copy(network(PAPER))
    object.__setattr__(complex_, "kind", "complex")
    found = network_order.compare({"a": complex_, "b": complex_}, "single_object")
    assert list(found.agreement) == [("a", "b")]


def test_what_is_printed():
    swapped = {**PAPER, "gradient": 0.2, "deconvnet": 0.45}
    found = network_order.compare(
        {"first": network(PAPER), "second": network(swapped)}, "single_object", controls=["uniform"]
    )
    text = network_order.text(found)
    assert "network 1: first, 40 of 40 answered correctly" in text and "40 questions about 20 images count" in text
    assert "Gradient and Deconvnet" in text and "pairs of methods in the same order; not " in text
    (line,) = [line for line in text.splitlines() if line.startswith("LRP (CLEVR-XAI) ")]
    assert line.split()[2:4] == ["0.85", "(1)"] and line.endswith(" 0.85")
    markdown = network_order.text(found, markdown=True, command="python -m it")
    assert markdown.startswith("# Relevance mass accuracy under 2 networks") and "Made by `python -m it`." in markdown
    assert "| Uniform map | 0.10 |" in markdown
    rows = network_order.long_rows(found)
    taus = [row for row in rows if row["metric"] == "kendall"]
    assert len(rows) == 2 * (len(PAPER) + 1) + 1 + 2 * 3 and taus[0]["other"] == "second" and taus[0]["value"] < 1


def test_the_picture_shows_means_intervals_and_the_posters_figures():
    measured = {"first $ net": network(PAPER), "second": network(PAPER, seed=1), "third": network(PAPER, seed=2)}
    found = network_order.compare(measured, "single_object", controls=["uniform"])
    (axis,) = network_order.order_figure(found).axes
    names, ticks = [*found.methods, "uniform"], axis.get_yticks()
    assert [label.get_text() for label in axis.get_yticklabels()] == [*map(methods.title, names[:-1]), "Uniform map"]
    assert [container.get_label() for container in axis.containers] == ["1: first $ net", "2: second", "3: third"]
    for one, (points, _, (lines,)) in zip(measured, axis.containers, strict=True):
        values, low, high = np.array([found.estimates[one][name][:3] for name in names]).T
        np.testing.assert_allclose(points.get_xdata(), values)
        assert np.abs(points.get_ydata() - ticks).max() < 0.5  # in its own row
        np.testing.assert_allclose([segment[:, 0] for segment in lines.get_segments()], np.stack([low, high], axis=1))
    (poster,) = [line for line in axis.lines if line.get_label() == "poster"]
    np.testing.assert_array_equal(poster.get_xdata(), [PAPER[name] for name in found.methods])
    np.testing.assert_array_equal(poster.get_ydata(), ticks[:-1])
    (axis,) = network_order.order_figure(found._replace(where=found.where | {"questions": "complex"})).axes
    assert not [line for line in axis.lines if line.get_label() == "poster"]


@pytest.fixture
def command(small_network, answered, load_once, tmp_path, capsys):
    """Return a runner of the command on a network and its copy."""
    shutil.copytree(small_network, tmp_path / "copy")

    def run(*arguments, models=None):
        models = models or f"{small_network},{tmp_path / 'copy'}"
        given = [f"--models={models}", f"--data_dir={answered}", f"--scores_dir={tmp_path / 'scores'}"]
        code = execute(
            compare_networks.main, compare_networks.FLAGS, compare_networks.__doc__, ["compare", *given, *arguments]
        )
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_the_command_asks_the_same_questions(command, tmp_path):
    few = ("--methods=gradient,grad_cam,lrp_clevr_xai", "--controls=uniform")
    code, out, err = command(*few, f"--output={tmp_path / 'out.md'}", f"--plot_dir={tmp_path / 'plots'}")
    assert code == 0, err
    assert (tmp_path / "plots" / "order_mass_single_object.png").stat().st_size > 5000
    assert "11 of 12 answered correctly" in out and "11 questions about" in out
    assert "All networks put 3 of 3 pairs of methods in the same order." in out
    written = (tmp_path / "out.md").read_text()
    assert "Made by `python -m research.clevr_xai.compare_networks " in written and " --models=" in written
    code, again, _ = command(*few, "--metric=rank", f"--output={tmp_path / 'out.json'}")
    rows = json.loads((tmp_path / "out.json").read_text())["rows"]
    assert code == 0 and again != out and {row["pooling"] for row in rows} == {"max-norm"}
    assert [row["value"] for row in rows if row["metric"] == "kendall" and row["other"].endswith("copy")] == [1.0]


def test_without_models_the_two_of_the_project_are_asked(tmp_path, capsys):
    few = ["--num_questions=4", "--methods=gradient,grad_cam", "--controls=", f"--scores_dir={tmp_path / 'scores'}"]
    code = execute(compare_networks.main, compare_networks.FLAGS, compare_networks.__doc__, ["compare", *few])
    out = capsys.readouterr().out
    assert code == 0
    for line in (
        "network 1: saved_models/clevr_xai/relation_network, ",
        "network 2: saved_models/clevr_xai/relation_network_seed1, ",
    ):
        assert line in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--models=one",), "--models names fewer than two networks; write --models=first,second"),
        (("--methods=gradient",), "--methods names fewer than two methods"),
        (("--plot_format=gif",), "--plot_format has 'gif'; expected 'png'"),
        (("--ground_truth=union",), "--ground_truth has no 'union'; choose of 'single_object', 'all_objects'"),
        (("--controls=wrong_class",), "--controls has no 'wrong_class'; choose of 'uniform'"),
        (("--subset=confident", "--methods=gradient,grad_cam"), "none of the 12 questions counts for every network"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(arguments, message, command):
    code, out, err = command(*arguments)
    assert code == 2 and out == ""
    (line,) = [line for line in err.splitlines() if line.startswith("error: ")]
    assert message in line
