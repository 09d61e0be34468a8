"""Cards say what decides a score, and every check finds what breaks the contract."""

import json

import numpy as np
import pytest

from attribution import cli
from attribution.errors import BadInput
from attribution_benchmarks import check_metric as command
from attribution_benchmarks.core.metric import Metric, PerSampleMetric, of_maps
from attribution_benchmarks.exact import measure_card
from attribution_benchmarks.exact.measure_card import CHANGES, CHECKS, check_metric
from attribution_benchmarks.metrics import cards

GENERATOR = np.random.default_rng(0)


def card(function, **described):
    return measure_card.measure_card(of_maps("mine", function, **described))


def flat(maps):
    return maps.reshape(len(maps), -1)


def test_the_sum_of_a_map():
    found = card(lambda maps, batch, scores: flat(maps).sum(axis=1))
    assert found.changes == dict.fromkeys(CHANGES, cards.CHANGED) | {"negated": cards.MIRRORED, "permuted": cards.SAME}
    assert not found.queries
    assert found.phrase == "blind to positions" and "reads the map alone" in found.cautions()[0]
    assert found.inputs == ["vectors", "images"] and not found.undefined


def test_a_metric_that_queries_the_network_or_the_truth():
    assert card(lambda maps, batch, scores: scores(batch.inputs)[:, 0] * flat(maps).max(axis=1)).queries
    assert card(lambda maps, batch, scores: flat(np.abs(maps - batch.truth["shapley"])).sum(axis=1)).queries


def test_a_metric_that_never_varies_and_one_that_has_no_score():
    constant = card(lambda maps, batch, scores: np.ones(len(maps)))
    assert not constant.varies and constant.phrase == "the same for every map"
    assert "do not compare methods" in constant.cautions()[0]
    with pytest.raises(BadInput, match="'mine' has no score on any network: all are NaN"):
        card(lambda maps, batch, scores: np.full(len(maps), np.nan))


def test_maps_without_a_score_are_named():
    """The logarithm of a sum exists for positive sums."""
    found = measure_card.measure_card(Metric("mine", "Mine", measure=PerSampleMetric("mine", _log_sum)))
    assert {"negated", "zero"} <= set(found.undefined)
    assert any("A map of zeros has no score" in text for text in found.cautions())


def _log_sum(maps, batch, scores):
    sums = flat(maps).sum(axis=1)
    return np.where(sums > 0, np.log(np.where(sums > 0, sums, 1)), np.nan)


def writes(maps, batch, scores):
    maps *= 2
    return flat(maps).sum(axis=1)


def prints(maps, batch, scores):
    print("here")
    return flat(maps).sum(axis=1)


def unseeded(maps, batch, scores):
    return flat(maps).sum(axis=1) + GENERATOR.random(len(maps))


BROKEN = {
    "returns_numbers": lambda maps, batch, scores: flat(maps),
    "same_seed_same_numbers": unseeded,
    "row_independence": lambda maps, batch, scores: flat(maps).sum(axis=1) / np.abs(maps).max() - len(maps),
    "writes_nothing": writes,
    "prints_nothing": prints,
    "within_bounds": lambda maps, batch, scores: flat(maps).sum(axis=1),
}


@pytest.mark.parametrize("name", CHECKS)
def test_every_check_finds_what_breaks_it(name):
    bounds = (0.0, 1.0) if name == "within_bounds" else None
    findings, found = check_metric(of_maps("mine", BROKEN[name], bounds=bounds))
    assert found is None and name in {one.check for one in findings if one.outcome == "FAILED"}
    if name in ("writes_nothing", "prints_nothing"):
        assert {one.check for one in findings if one.outcome == "FAILED"} == {name}
        assert check_metric(of_maps("mine", BROKEN[name]), allow=[name])[1] is not None


def test_a_metric_may_refuse_some_networks_but_not_all():
    def images_alone(maps, batch, scores):
        if maps.ndim != 3:
            raise BadInput("only images")
        return flat(maps).sum(axis=1)

    findings, found = check_metric(of_maps("mine", images_alone))
    assert found.inputs == ["images"] and {one.outcome for one in findings} == {"passed", "refused"}

    def nothing(maps, batch, scores):
        raise BadInput("not today")

    findings, found = check_metric(of_maps("mine", nothing))
    assert found is None and {one.outcome for one in findings} == {"FAILED"}


MINE = """
import numpy as np
from attribution_benchmarks.core.metric import of_maps

MINE = of_maps("mine", lambda maps, batch, scores: maps.reshape(len(maps), -1).max(axis=1))
SHAPE = of_maps("shape", lambda maps, batch, scores: maps)
"""


def run(capsys, *arguments):
    try:
        code = cli.execute(command.main, command.FLAGS, command.__doc__, ["check_metric", *arguments])
    except SystemExit as ended:
        code = ended.code
    return code, capsys.readouterr()


def test_the_command_prints_and_writes_a_card(tmp_path, capsys):
    (tmp_path / "own.py").write_text(MINE)
    output = tmp_path / "card.json"
    code, printed = run(capsys, f"--metric={tmp_path}/own.py:MINE", f"--output={output}")
    assert code == 0 and "mine, more is better: blind to positions" in printed.out
    assert "Positions do not count: do not conclude that the right ones are marked." in printed.out
    (written,) = json.loads(output.read_text()).values()
    assert cards.Card(**written).changes["permuted"] == cards.SAME


def test_the_command_fails_for_a_broken_metric(tmp_path, capsys):
    (tmp_path / "own.py").write_text(MINE)
    code, printed = run(capsys, f"--metric={tmp_path}/own.py:SHAPE")
    assert code == 1 and "shape: 6 checks failed; no card" in printed.out
    assert "must return numbers of the shape (3,) for 3 maps, not (3, 12)" in printed.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no metric is named"),
        (["--metric=nothing"], "--metrics has no 'nothing'"),
        (["--metric=deletion", "--allow=everything"], "no check 'everything'; the checks are"),
        (["--metric=deletion", f"--output={__file__}/card.json"], "is a file; name a directory to write to"),
    ],
)
def test_a_mistake_is_one_line_and_code_2(arguments, message, capsys):
    code, printed = run(capsys, *arguments)
    assert code == 2 and message in printed.err and printed.err.count("\n") == 1
