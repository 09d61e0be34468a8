import json
import shutil

import numpy as np
import pytest

import attribution
from attribution import cli
from clevr_xai import layout, relation_network, vocabulary
from clevr_xai.generation import questions
from clevr_xai.training import stages
from clevr_xai.vocabulary import ANSWERS
from scripts import train_relation_network as command


@pytest.fixture
def train(training_dir, validation_dir, tmp_path, capsys):
    """Return a runner of the command, a step in each stage; it returns the exit code and standard error."""
    defaults = {f"{name}_steps": 1 for name in (*stages.STAGES, *stages.WARM_STAGES)}
    defaults |= {"data_dir": training_dir, "validation_dir": validation_dir, "final_questions": "simple"}
    defaults |= {"images_per_step": 2, "checkpoint_dir": tmp_path / "checkpoints", "output_dir": tmp_path / "new"}

    def run(**settings):
        arguments = [f"--{name}={value}" for name, value in (defaults | settings).items()]
        code = cli.execute(command.main, command.FLAGS, command.__doc__, ["train", *arguments])
        return code, capsys.readouterr().err

    return run


@pytest.fixture(scope="module")
def validation_dir(training_dir, tmp_path_factory):
    """The first of the same scenes as if it were of seed 6."""
    copy = shutil.copytree(training_dir, tmp_path_factory.mktemp("validation") / "data")
    content = json.loads((copy / layout.SCENES).read_text())
    (copy / layout.SCENES).write_text(json.dumps({"info": {"seed": 6}, "scenes": content["scenes"][:1]}))
    return copy


def stages_of(directory):
    return [json.loads(line)["stage"] for line in (directory / "log.jsonl").read_text().splitlines()]


@pytest.fixture
def first(train, tmp_path, monkeypatch, eager):
    """Directory of a network after one step of each stage, with four images a stage."""
    monkeypatch.setattr(stages, "NUM_VALIDATION", 4)
    monkeypatch.setattr(stages, "NUM_TRAINING", 4)
    monkeypatch.setattr(stages, "NUM_BLANK", 4)
    for settings in stages.SETTINGS.values():
        if "num_questions" in settings:
            monkeypatch.setitem(settings, "num_questions", 2)
    with eager():
        assert train(output_dir=tmp_path / "first", rounds=1)[0] == 0
    return tmp_path / "first"


def scores(directory):
    rng = np.random.default_rng(0)
    inputs = {"image": rng.random((2, 128, 128, 3), np.float32), "question": rng.integers(0, 82, (2, 5), np.int32)}
    return attribution.load_model(str(directory), score="logits").scores(inputs), inputs


def test_all_stages_end_in_a_network_of_the_papers_size(first, tmp_path):
    card = (first / "MODEL_CARD.md").read_text()
    assert "`python scripts/train_relation_network.py --rounds=1 " in card and "Training scenes: 4, seed 5" in card
    assert "wording |" not in card and "in official wording)" in card and "looked at meanwhile" in card
    assert stages_of(tmp_path / "checkpoints") == ["reading", "seeing", "small", "following", "final_simple"]
    assert scores(first)[0].shape == (2, 28)
    assert vocabulary.read_assets(first)[1] == list(ANSWERS)


def test_a_network_goes_on_from_a_checkpoint_and_from_an_exported_one(
    first, train, validation_dir, tmp_path, monkeypatch, eager
):
    kept = []
    with eager(), monkeypatch.context() as patch:  # the first and the third run write all of the card and export
        patch.setattr(stages, "blank_section", lambda *_: [])
        patch.setattr(relation_network, "export", lambda network, _, card: kept.append((network, card)))
        assert train(final_questions="complex", rounds=1)[0] == 0
    assert stages_of(tmp_path / "checkpoints")[5:] == ["final_complex"]  # the others are done

    test_dir = shutil.copytree(validation_dir, tmp_path / "test")
    content = json.loads((test_dir / layout.SCENES).read_text())
    (test_dir / layout.SCENES).write_text(json.dumps({**content, "info": {"seed": 7}}))
    further = {"start_from": first, "test_dir": test_dir, "precision": "bfloat16", "rounds": 2}
    further |= {"wording": "plain,official"}
    monkeypatch.setattr(questions, "BLOCK", 2)
    monkeypatch.setattr(stages, "SENTENCES", {"seed": 1, "blocks": 1, "counted": 1, "rounds": 1})
    others = {"checkpoint_dir": tmp_path / "others", "output_dir": tmp_path / "third"}
    with eager():
        assert train(**others, **further)[0] == 0
    assert stages_of(tmp_path / "others") == ["rewording", "seeing", "final_simple"]
    third = (tmp_path / "third" / "MODEL_CARD.md").read_text()
    assert "starts from: an exported network" in third and "g in training: bfloat16" in third
    assert "2 rounds of each kind, in official and plain wording" in third and "or selection." in third
    assert "| complex, official wording |" in third and "| simple, plain wording |" in third
    others = {"checkpoint_dir": tmp_path / "fourth", "output_dir": tmp_path / "out"}
    with eager(), monkeypatch.context() as patch:
        patch.setattr(relation_network, "export", lambda network, _, card: kept.append((network, card)))
        assert train(**others, **further, seeing_steps=0, final_steps=0)[0] == 0
    (second, _), (_, fourth) = kept
    assert "about 2 scenes, seed 1, not rendered, each question in plain and official wording" in fourth
    assert (
        "## Training of the network that it starts from" in fourth and "train_relation_network.py --rounds=1" in fourth
    )
    assert "training scenes it answers" not in fourth and "| simple, official wording |" in fourth

    before, inputs = scores(first)
    assert np.abs(before - np.asarray(second(list(inputs.values())))).max() > 0
    # One step at the beginning of the warm-up changes little of what it starts from.
    assert 0 < np.abs(before - scores(tmp_path / "third")[0]).max() < 0.1 * np.abs(before).max()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"final_questions": "easy"}, "no questions 'easy'"),
        ({"final_questions": ""}, "questions: none given; name each once"),
        ({"wording": "plain,french"}, "no wording 'french'"),
        ({"wording": ""}, "wording: none given"),
        ({"wording": "plain,plain"}, "name each once"),
        ({"validation_dir": "training"}, "must differ"),
        ({"test_dir": "training"}, "--test_dir has the seed 5"),
        ({"output_dir": "there"}, "exists; name another directory"),
        ({"reading_steps": 0}, "reading_steps=0 keeps a part of a trained network"),
        ({"seeing_steps": 0}, "seeing_steps=0 keeps a part of a trained network"),
        (
            {"rewording_steps": 0, "seeing_steps": 0, "final_steps": 0, "start_from": "there"},
            "no steps of 'rewording', 'seeing', 'final'",
        ),
        ({"start_from": "nowhere"}, "'nowhere' holds no network"),
        ({"checkpoint_dir": "a_file"}, "is a file; name a directory"),
        ({"checkpoint_dir": "of_no_log"}, "log.jsonl' is a directory; name a file"),
        ({"checkpoint_dir": "of_another"}, "has checkpoints of a training with '--seed=3'"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(change, message, train, training_dir, tmp_path):
    (tmp_path / "there" / "1").mkdir(parents=True)
    (tmp_path / "a_file").touch()
    (tmp_path / "of_no_log" / "log.jsonl").mkdir(parents=True)
    (tmp_path / "of_another").mkdir()
    (tmp_path / "of_another" / "seeing.npz").touch()
    (tmp_path / "of_another" / "settings.json").write_text('["--seed=3"]')
    places = {"training": training_dir} | {path.name: path for path in tmp_path.iterdir()}
    code, err = train(**{name: places.get(value, value) for name, value in change.items()})
    assert code == 2
    (line,) = [line for line in err.splitlines() if line.startswith("error: ")]
    assert message in line
