"""The baseline is the paper's network, trains the same way twice, and is exported whole or not at all."""

import re

import numpy as np
import pytest
import tensorflow as tf

import attribution
from attribution import cli
from svea import baseline, mnist1d
from svea.definition import NETWORKS

COMMITTED = ["baseline", *(f"baseline_seed{seed}" for seed in range(1, NETWORKS))]
OF_THE_DEFAULT_REPORT = 5


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
    assert not np.array_equal(baseline.build(seed=1).get_weights()[0], kernels[0])


def test_training_is_plain_gradient_descent_on_3600_signals(trained):
    optimizer = trained[0].optimizer
    assert int(optimizer.iterations) == -(-3600 // 32)
    assert float(optimizer.learning_rate) == pytest.approx(0.01)
    assert optimizer.momentum == 0.0


def test_one_epoch_beats_chance_and_accuracies_are_percentages(trained):
    assert set(trained[1]) == {"train", "validation", "test"}
    assert 15 < trained[1]["train"] < 100


def test_the_command_trains_the_same_weights_again_exports_and_refuses_to_overwrite(trained, tmp_path, capsys):
    directory = tmp_path / "net"
    assert run("--seed=3", "--epochs=1", f"--output_dir={directory}") == 0
    printed = capsys.readouterr().out
    assert f"accuracy, test: {trained[1]['test']:.1f} %" in printed
    card = (directory / "MODEL_CARD.md").read_text()
    assert f"{trained[1]['test']:.1f} % (paper: 87.7 %)" in card
    assert "python -m svea.baseline --seed=3 --epochs=1" in card
    exported = {tuple(one.shape): one.numpy() for one in tf.saved_model.load(directory / "1").variables}
    np.testing.assert_array_equal(exported[1000, 10], trained[0].get_weights()[-2])
    np.testing.assert_array_equal(exported[5, 1, 25], trained[0].get_weights()[0])

    before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    assert run("--seed=3", "--epochs=1", f"--output_dir={directory}") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "exists; name another directory" in error
    assert {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()} == before


def test_an_interrupted_training_leaves_nothing(tmp_path, monkeypatch, capsys):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(baseline, "train", interrupt)
    assert run(f"--output_dir={tmp_path / 'net'}") == 130
    assert capsys.readouterr().err.endswith("interrupted\n")
    assert not (tmp_path / "net").exists()


def test_a_seed_that_keras_cannot_take_is_refused(tmp_path, capsys):
    assert run(f"--seed={2**32}", f"--output_dir={tmp_path / 'net'}") == 2
    assert "4294967296 is not an integer in the range [0, 4294967295]" in capsys.readouterr().err
    assert not (tmp_path / "net").exists()


@pytest.mark.parametrize(
    "seed",
    [
        *range(OF_THE_DEFAULT_REPORT),
        *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(OF_THE_DEFAULT_REPORT, NETWORKS)),
    ],
)
def test_committed_networks_have_the_card_that_the_command_writes(seed):
    data, directory = mnist1d.load(), baseline.SAVED_MODELS / COMMITTED[seed]
    model = attribution.load_model(directory, score="probabilities")

    def accuracy(signals, labels):
        return 100 * np.mean(model.predict(signals[..., None], batch_size=1000) == labels)

    accuracies = {
        "train": accuracy(data.train.signals[:3600], data.train.labels[:3600]),
        "validation": accuracy(data.train.signals[3600:], data.train.labels[3600:]),
        "test": accuracy(data.test.signals, data.test.labels),
    }
    assert (86.5 if seed < OF_THE_DEFAULT_REPORT else 86) <= accuracies["test"] <= 91.5
    written = baseline.model_card(baseline.build(seed), seed, baseline.EPOCHS, accuracies)

    def text(card):
        return re.sub(r"Trained with TensorFlow \S+ and Keras \S+ on a \w+\.", "", card)

    assert text((directory / "MODEL_CARD.md").read_text()) == text(written)


def test_twenty_networks_have_the_papers_accuracy_on_average():
    cards = [(baseline.SAVED_MODELS / name / "MODEL_CARD.md").read_text() for name in COMMITTED]
    found = [float(re.search(r"1,000 test signals \| ([\d.]+) %", card)[1]) for card in cards]
    assert len(found) == 20 and np.mean(found) == pytest.approx(baseline.PAPER_ACCURACY, abs=1.5)
    weights = {
        (baseline.SAVED_MODELS / name / "1/variables/variables.data-00000-of-00001").read_bytes() for name in COMMITTED
    }
    assert len(weights) == 20
