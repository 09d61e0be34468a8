"""Sequences: the grammar's rules, laws of the exact values, and the committed networks."""

import itertools
import json
import math
import shutil

import numpy as np
import pytest

import attribution
import attribution_benchmarks
from attribution_benchmarks.core.batch import Batch
from attribution_benchmarks.core.bundled_models import default_model
from attribution_benchmarks.core.settings import ExampleSettings
from attribution_benchmarks.exact import metrics, sequences
from attribution_benchmarks.exact.sequences import LENGTH, MASK, NETWORKS, PAD, TASKS, WORDS, draw, exact_values
from tools import make_sequence_networks

FOLDERS = [sequences.folder_of(network, seed) for network in NETWORKS for seed in range(sequences.SEEDS)]


def folder(name):
    return default_model(f"exact/sequences/{name}")


@pytest.fixture(scope="module")
def networks():
    return {name: attribution.load_model(folder(name)) for name in NETWORKS}


def words_of(tokens, places):
    return [WORDS[token] for token in tokens[places]]


@pytest.mark.parametrize("task", TASKS)
def test_the_words_at_the_evidence_decide_and_no_others_are_of_the_task(task):
    rules = {
        "single": lambda words: words == ["sun"],
        "agreement": lambda words: words in (["I", "am"], ["he", "is"], ["they", "are"]),
        "xor": lambda words: words[0] != words[1],
        "order": lambda words: words == ["wake", "sleep"],
        "either": lambda words: "gold" in words,
        "negation": lambda words: words in (["not", "bad"], ["very", "good"]),
    }
    tokens, labels, evidence = draw(task, 300, np.random.default_rng(0))
    assert tokens.shape == (300, LENGTH) and tokens.dtype == np.int32 and not (tokens == MASK).any()
    used = set()
    for row, label, places in zip(tokens, labels, evidence, strict=True):
        assert rules[task](words_of(row, places)) == bool(label)
        used.update(words_of(row, places))
        length = (row != PAD).sum()
        assert sequences.SHORTEST <= length <= LENGTH and (row[length:] == PAD).all()
        assert task != "negation" or np.diff(np.flatnonzero(places)) == 1
    elsewhere = {WORDS[token] for row, places in zip(tokens, evidence, strict=True) for token in row[~places]}
    assert not used & elsewhere and labels.mean() == 0.5


def pairs(tokens):
    """Score sequences by words and a pair of words, whatever their places: (M, 2)."""
    sun, am, be = ((tokens == WORDS.index(word)).any(axis=1) for word in ("sun", "I", "am"))
    total = 2.0 * sun + 3.0 * (am & be) + 0.1 * ((tokens > MASK) * np.sqrt(tokens)).sum(axis=1)
    return np.stack([-total, total], axis=1)


def test_exact_values_in_closed_form_with_masked_tokens_and_padding():
    sequence = np.array(
        [[WORDS.index(word) for word in ("I", "the", "sun", "[mask]", "of", "am")] + [PAD] * 6], np.int32
    )
    values = exact_values(sequence, np.array([1]), pairs)[0]
    worth = 0.1 * np.sqrt(sequence[0]) * (sequence[0] > MASK) + np.array([1.5, 0, 2, 0, 0, 1.5] + [0] * 6)
    np.testing.assert_allclose(values, worth, atol=1e-9)
    assert (values[[3, *range(6, 12)]] == 0).all()
    masked = np.where(sequence > PAD, MASK, PAD)
    assert values.sum() == pytest.approx((pairs(sequence) - pairs(masked))[0, 1], abs=1e-9)
    np.testing.assert_allclose(exact_values(sequence, np.array([0]), pairs)[0], -values, atol=1e-9)


def by_definition(sequence, score):
    """Return Shapley values by the sum over subsets of the others, one token after the other."""
    real = [place for place, token in enumerate(sequence) if token != PAD]
    parts, subsets = [], []
    for size in range(len(real) + 1):
        for kept in itertools.combinations(real, size):
            subsets.append(frozenset(kept))
            parts.append([PAD if t == PAD else t if p in kept else MASK for p, t in enumerate(sequence)])
    worth = dict(zip(subsets, score(np.array(parts, np.int32)), strict=True))
    found = np.zeros(len(sequence))
    for place in real:
        for subset in subsets:
            if place not in subset:
                weight = math.factorial(len(subset)) * math.factorial(len(real) - len(subset) - 1)
                gain = float(worth[subset | {place}]) - float(worth[subset])
                found[place] += weight / math.factorial(len(real)) * gain
    return found


@pytest.mark.parametrize("number", range(10))
def test_stored_values_equal_an_independent_enumeration(number, networks):
    """Two sequences of each network, of those with at most nine tokens."""
    network = NETWORKS[number // 2]
    with np.load(folder(network) / "values.npz") as stored:
        short = np.flatnonzero((stored["tokens"] != PAD).sum(axis=1) <= 9)
        row = short[number * 5]
        tokens, target, values = stored["tokens"][row], stored["targets"][row], stored["values"][row]
    expected = by_definition(tokens, lambda parts: networks[network].scores(parts, 512)[:, target])
    counted = exact_values(tokens[np.newaxis], [target], lambda parts: networks[network].scores(parts, 512))[0]
    for found in (values, counted):
        np.testing.assert_allclose(found, expected, atol=2e-6)
        assert (found[tokens == PAD] == 0).all()


def completeness(name, model):
    """Return the largest difference between a sum of stored values and the scores' difference.

    Values were stored on another processor. The unit is float32's precision at the largest score.
    """
    with np.load(folder(name) / "values.npz") as stored:
        assert str(stored["network"]) == model.fingerprint
        tokens, targets = stored["tokens"], stored["targets"]
        assert len(tokens) == sequences.MOST * len(TASKS)
        whole, none = (model.scores(each, 512) for each in (tokens, np.where(tokens == PAD, PAD, MASK)))
        rows = np.arange(len(tokens))
        difference = whole[rows, targets].astype(np.float64) - none[rows, targets]
        error = np.abs(stored["values"].sum(axis=1) - difference).max()
        return error / (np.finfo(np.float32).eps * np.abs(whole).max())


@pytest.mark.parametrize("name", NETWORKS)
def test_stored_values_are_complete(name, networks):
    assert completeness(name, networks[name]) < 4


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FOLDERS if name not in NETWORKS])
def test_stored_values_of_further_networks_are_complete(name):
    assert completeness(name, attribution.load_model(folder(name))) < 4


@pytest.mark.parametrize("name", FOLDERS)
def test_networks_are_accurate_and_small(name):
    accuracies = json.loads((folder(name) / "accuracy.json").read_text())
    assert set(accuracies) == set(TASKS) and min(accuracies.values()) > 0.97
    assert sum(file.stat().st_size for file in (folder(name) / "1").rglob("*") if file.is_file()) < 300_000


@pytest.mark.parametrize("name", NETWORKS)
def test_all_coalitions_of_the_embedding_give_the_stored_values(name, networks):
    """The mask token's embedding is zero, the methods' baseline; so KernelSHAP on all coalitions is the truth."""
    with np.load(folder(name) / "values.npz") as stored:
        row = int(np.flatnonzero((stored["tokens"] == PAD).sum(axis=1) == 6)[0])
        tokens, targets, values = (stored[key][row : row + 1] for key in ("tokens", "targets", "values"))
    groups = np.where(tokens == PAD, LENGTH, np.arange(LENGTH))
    found = attribution.explain("kernel_shap", networks[name], tokens, targets, groups=groups)
    np.testing.assert_allclose(found, values, atol=1e-4)


@pytest.mark.parametrize("name", NETWORKS)
def test_padding_gets_exactly_zero(name, networks):
    tokens, labels, _ = draw("order", 4, np.random.default_rng(5))
    methods = ["gradient_x_input", "integrated_gradients", "lrp_epsilon", "deeplift", "shapley_sampling"]
    if name.startswith("transformer"):
        methods += ["attention_rollout", "gradient_rollout", "lrp_attn"]
    maps = attribution.explain_many(methods, networks[name], tokens, 6 + labels)
    for method in methods:
        assert not maps[method][tokens == PAD].any() and maps[method][tokens != PAD].any(), method


def test_a_token_has_the_sum_of_its_embedding():
    exact = np.array([[-2.0, 1.0, 0.0]])
    batch = Batch(np.zeros((1, 3), np.int32), ["a"], truth={"shapley": exact})
    maps = np.array([[[-1.0, -1.0], [-0.5, 1.5], [3.0, -3.0]]])
    measures = [metric.measure.function(maps, batch, None) for metric in (*metrics.OVERALL, metrics.TOP_FEATURE)]
    assert np.ravel(measures) == pytest.approx([0, 1, 0, 1], abs=1e-7)
    hit = metrics.TOP_FEATURE.measure.function
    for one, expected in (([1.0, 1, 0], 0.5), ([0.0, 1, 0], 0), ([-1.0, 0.5, 0], 1)):
        assert hit(np.array([one]), batch, None) == expected


def test_scores_by_network_and_by_task():
    settings = ExampleSettings(num_imgs=6, random_networks=0)
    found = attribution_benchmarks.evaluate(sequences.BENCHMARK, ["attention_rollout", "occlusion"], settings)
    rows = {(row["method"], row["metric"]): row["value"] for row in found.rows}
    for metric in (*NETWORKS, *TASKS, "distance"):
        assert rows["exact_values", metric] == pytest.approx(0, abs=1e-6)
        assert rows["occlusion", metric] < 0.5 < rows["uniform", metric]
    assert rows["attention_rollout", "transformer"] > rows["occlusion", "transformer"]
    assert ("attention_rollout", "lstm") not in rows or np.isnan(rows["attention_rollout", "lstm"] or np.nan)
    means = [rows["occlusion", name] for name in NETWORKS[:3]]
    assert rows["occlusion", "transformers"] == pytest.approx(np.mean(means))


def test_values_of_another_network_are_counted(tmp_path, networks):
    tokens, _, _ = draw("single", 1, np.random.default_rng(6))
    shutil.copy(folder("lstm") / "values.npz", tmp_path)
    cnn = networks["cnn"]
    found = sequences.values_of(tmp_path, cnn, tokens, np.array([1]))
    np.testing.assert_allclose(found, exact_values(tokens, np.array([1]), cnn.scores), atol=1e-5)


def test_training_resumes(tmp_path, monkeypatch, capsys):
    for name, value in {"SEEDS": 1, "NETWORKS": ("cnn",), "EXAMPLES": 30, "HELD_OUT": 10, "EPOCHS": 1}.items():
        monkeypatch.setattr(make_sequence_networks, name, value)
    monkeypatch.setattr(make_sequence_networks, "store_values", lambda folder: None)
    flags = make_sequence_networks.FLAGS
    flags(["train", f"--output_dir={tmp_path}"])
    make_sequence_networks.main(flags)
    first = capsys.readouterr().out
    monkeypatch.setattr(make_sequence_networks, "trained", None)
    make_sequence_networks.main(flags)
    assert capsys.readouterr().out == first and first.startswith("cnn single ")
    model = attribution.load_model(tmp_path / "cnn")
    assert model.scores(np.full((2, LENGTH), MASK, np.int32)).shape == (2, 2 * len(TASKS))
