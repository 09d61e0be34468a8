"""Models of one's own in place of members, on the command lines of the metrics, of TCAV and of the patches."""

import json
import os
import shutil

import numpy as np
import pytest

from attribution import cli
from attribution.errors import BadInput
from bim import classifiers, delta_patch, evaluation, layout, metrics, run_tcav, tcav
from bim.settings import Settings

pytestmark = pytest.mark.usefixtures("load_once")


def scored(tmp_path, *flags, code=0):
    arguments = ["metrics", f"--scores_dir={tmp_path / 'scores'}", "--methods=gradient", "--nocontrols", *flags]
    assert cli.execute(metrics.main, metrics.FLAGS, metrics.__doc__, arguments) == code


def test_the_others_come_from_the_folder_of_models(sets, tiny_models, tmp_path, bim_run):
    own = os.path.join(tiny_models, "scene")
    run = bim_run(
        f"--data_dir={sets}", f"--models_dir={tiny_models}", f"--models=obj={own}", "--methods=gradient",
        f"--scores_dir={tmp_path}", "--metrics=MCS",
    )  # fmt: skip
    assert run.models["obj"].fingerprint == classifiers.classifier_at(own).fingerprint
    assert run.models["scene"].fingerprint == classifiers.load_classifier(tiny_models, "scene").fingerprint
    assert run.models["obj"].fingerprint != classifiers.load_classifier(tiny_models, "obj").fingerprint


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (["obj"], "expected name=directory"),
        (["object=."], "expected name=directory"),
        (["obj=.", "obj=."], "names 'obj' twice"),
        (["scene_only=."], "no part in 'mcs', 'idr', only in 'iir'"),
        (["scene10=."], "only in 'rmcs'"),
        (["obj=nowhere"], "no directory nowhere"),
    ],
)
def test_models_without_a_part_or_a_place_are_refused(entries, message):
    with pytest.raises(BadInput, match=message):
        Settings(models=entries).own_models(["mcs", "idr"])


def test_relative_contrast_of_embedded_models_says_what_it_is(predicted, tiny_models, tmp_path, monkeypatch, capsys):
    # Three of the ten models; test_served.py compares all.
    for module in (evaluation, layout):
        monkeypatch.setattr(module, "CONTRAST_SETS", layout.CONTRAST_SETS[-3:])
    flags = [f"--data_dir={predicted}", f"--models_dir={tiny_models}", "--metrics=RMCS", "--num_imgs=2"]
    scored(tmp_path, *flags)
    assert "no independent result" not in capsys.readouterr().out
    monkeypatch.setattr(layout, "SAVED_MODELS", tiny_models)
    scored(tmp_path, *flags)
    assert "no independent result" in capsys.readouterr().out
    own = ",".join(f"{name}={shutil.copytree(os.path.join(tiny_models, name), tmp_path / name)}"
                   for name in layout.CONTRAST_SETS)  # fmt: skip
    scored(tmp_path, *flags, f"--models={own}")
    assert "no independent result" not in capsys.readouterr().out


def test_patches_of_another_model_are_not_scored(predicted, tiny_models, tmp_path, capsys):
    flags = [f"--data_dir={predicted}", f"--models_dir={tiny_models}", "--metrics=IIR", "--num_imgs=2"]
    scored(tmp_path, *flags, code=2)
    assert "no patches in" in capsys.readouterr().err
    delta_patch.construct(predicted, classifiers.load_classifier(tiny_models, "scene_only"), steps=2)
    scored(tmp_path, *flags)
    other = next(
        name
        for name in ("obj", "scene")
        if classifiers.load_classifier(tiny_models, name).fingerprint
        != classifiers.load_classifier(tiny_models, "scene_only").fingerprint
    )
    scored(tmp_path, *flags, f"--models=scene_only={os.path.join(tiny_models, other)}", code=2)
    assert "were made for another model" in capsys.readouterr().err


def test_the_class_follows_from_the_name_or_is_asked_for():
    dog, bedroom = layout.OBJECTS.index("dog"), layout.SCENES.index("bedroom")
    assert dog != bedroom
    assert tcav.target_class("obj") == tcav.target_class("some/obj/3") == tcav.target_class("x", "dog") == dog
    assert tcav.target_class("scene4/") == tcav.target_class("scene_only") == bedroom
    assert tcav.target_class("obj", "bedroom") == bedroom
    with pytest.raises(BadInput, match="--target=dog or --target=bedroom"):
        tcav.target_class("my/network")
    with pytest.raises(BadInput, match="choose one of 'dog', 'bedroom'"):
        tcav.target_class("obj", "cat")


def test_tcav_of_a_directory_is_that_of_the_member(sets, tiny_models, tmp_path):
    own = shutil.copytree(os.path.join(tiny_models, "obj"), tmp_path / "mine")
    values = []
    for model in (["--model=obj", f"--models_dir={tiny_models}"], [f"--model={own}", "--target=dog"]):
        output = tmp_path / "run_tcav.json"
        arguments = [
            "run_tcav", f"--data_dir={sets}", "--num_random=2", "--contrast_with=", f"--output={output}", *model,
        ]  # fmt: skip
        assert cli.execute(run_tcav.main, run_tcav.FLAGS, run_tcav.__doc__, arguments) == 0
        values.append([row["value"] for row in json.loads(output.read_text())["rows"]])
    assert len(values[0]) == 5 and np.array_equal(*values)
