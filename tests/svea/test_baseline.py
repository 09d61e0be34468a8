"""The baseline is the paper's network, trains the same way twice, and is exported whole or not at all."""

import re

import numpy as np
import pytest

import attribution
from attribution import cli
from attribution.errors import BadInput
from svea import baseline, mnist1d

COMMITTED = ["baseline", "baseline_seed1", "baseline_seed2"]


@pytest.fixture(scope="module")
def trained():
    """A network after one epoch, and its accuracies."""
    model = baseline.build(seed=3)
    return model, baseline.train(model, mnist1d.load(), epochs=1)


def run(*arguments):
    return cli.execute(baseline.main, baseline.FLAGS, baseline.__doc__, ["baseline", *arguments])


def test_it_has_the_papers_parameters():
    model = baseline.build(seed=0)
    assert model.count_params() == 13960
    assert [tuple(weights.shape) for weights in model.weights] == [
        (5, 1, 25), (25,), (3, 25, 25), (25,), (3, 25, 25), (25,), (1000, 10), (10,),
    ]  # fmt: skip
    kernels = [weights.numpy() for weights in model.weights if len(weights.shape) > 1]
    assert sum(float(loss) for loss in model.losses) == pytest.approx(
        5e-4 * sum((kernel**2).sum() for kernel in kernels), rel=1e-5
    )
    assert kernels[-1].std() == pytest.approx(0.5, rel=0.03)


def test_training_is_plain_gradient_descent_on_3600_signals(trained):
    optimizer = trained[0].optimizer
    assert int(optimizer.iterations) == -(-3600 // 32)
    assert float(optimizer.learning_rate) == pytest.approx(0.01)
    assert optimizer.momentum == 0.0


def test_one_epoch_beats_chance_and_accuracies_are_percentages(trained):
    assert set(trained[1]) == {"train", "validation", "test"}
    assert 15 < trained[1]["train"] < 100


def test_same_seed_same_weights(trained):
    again = baseline.build(seed=3)
    baseline.train(again, mnist1d.load(), epochs=1)
    for one, two in zip(trained[0].get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(one, two)
    other = baseline.build(seed=4).get_weights()
    assert not np.array_equal(other[0], baseline.build(seed=3).get_weights()[0])


def test_the_exported_file_gives_the_networks_probabilities(trained, tmp_path):
    baseline.export(trained[0], tmp_path / "net", "a card\n")
    assert sorted(path.name for path in (tmp_path / "net").iterdir()) == ["1", "MODEL_CARD.md"]
    signals = mnist1d.load().test.signals[:50, :, None]
    scores = attribution.load_model(tmp_path / "net", score="probabilities").scores(signals)
    np.testing.assert_allclose(scores, trained[0].predict(signals, verbose=0), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(scores.sum(axis=1), 1, atol=1e-5)


def test_a_failed_export_leaves_nothing_half_written(trained, tmp_path, monkeypatch):
    def full_disk(*_, **__):
        raise OSError("no space left")

    monkeypatch.setattr(trained[0], "export", full_disk)
    with pytest.raises(BadInput, match="no space"):
        baseline.export(trained[0], tmp_path / "net", "a card\n")
    assert list(tmp_path.iterdir()) == []


def test_the_command_trains_exports_and_refuses_to_overwrite(tmp_path, capsys):
    directory = tmp_path / "net"
    assert run("--seed=5", "--epochs=1", f"--output_dir={directory}") == 0
    printed = capsys.readouterr().out
    accuracy = re.search(r"accuracy, test: ([\d.]+) %", printed)[1]
    card = (directory / "MODEL_CARD.md").read_text()
    assert f"{accuracy} % (paper: 87.7 %)" in card
    assert "python -m svea.baseline --seed=5 --epochs=1" in card

    before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    assert run("--seed=5", "--epochs=1", f"--output_dir={directory}") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "exists; remove it" in error
    assert {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()} == before


def test_an_interrupted_training_leaves_nothing(tmp_path, monkeypatch, capsys):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(baseline, "train", interrupt)
    assert run(f"--output_dir={tmp_path / 'net'}") == 130
    assert capsys.readouterr().err.endswith("interrupted\n")
    assert not (tmp_path / "net").exists()


def test_a_file_in_place_of_the_directory_is_refused(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert run(f"--output_dir={tmp_path / 'file'}") == 2
    assert "is a file; name a directory" in capsys.readouterr().err
    assert run(f"--output_dir={tmp_path / 'file' / 'below'}") == 2
    assert "is a file; name a directory" in capsys.readouterr().err


def test_a_seed_that_keras_cannot_take_is_refused(tmp_path, capsys):
    assert run(f"--seed={2**32}", f"--output_dir={tmp_path / 'net'}") == 2
    assert "is too large for Keras; at most 4294967295" in capsys.readouterr().err
    assert not (tmp_path / "net").exists()


@pytest.mark.parametrize("name", COMMITTED)
def test_committed_networks_reach_the_accuracy_of_their_cards(name):
    data = mnist1d.load().test
    model = attribution.load_model(baseline.SAVED_MODELS / name, score="probabilities")
    accuracy = 100 * np.mean(model.predict(data.signals[..., None], batch_size=1000) == data.labels)
    assert 86.5 <= accuracy <= 91.5
    assert f"| {accuracy:.1f} % (paper: 87.7 %) |" in (baseline.SAVED_MODELS / name / "MODEL_CARD.md").read_text()


@pytest.mark.parametrize(("name", "seed"), zip(COMMITTED, range(3), strict=True))
def test_committed_cards_are_what_the_command_writes(name, seed):
    data = mnist1d.load()
    model = attribution.load_model(baseline.SAVED_MODELS / name, score="probabilities")

    def accuracy(signals, labels):
        return 100 * np.mean(model.predict(signals[..., None], batch_size=1000) == labels)

    accuracies = {
        "train": accuracy(data.train.signals[:3600], data.train.labels[:3600]),
        "validation": accuracy(data.train.signals[3600:], data.train.labels[3600:]),
        "test": accuracy(data.test.signals, data.test.labels),
    }
    written = baseline.model_card(baseline.build(seed), seed, baseline.EPOCHS, accuracies)

    def text(card):
        return re.sub(r"Trained with TensorFlow \S+ and Keras \S+ on a \w+\.", "", card)

    assert text((baseline.SAVED_MODELS / name / "MODEL_CARD.md").read_text()) == text(written)
