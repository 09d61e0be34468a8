"""Patches: what they may change, what they must not, and the layout that IIR reads."""

import os

import numpy as np
import pytest
import tensorflow as tf

from attribution import cli
from attribution.errors import BadInput
from bim import classifiers, data, delta_patch, scores
from bim.data import load_masks
from scripts import construct_delta_patch


@pytest.fixture(scope="module")
def patched(copy_sets, tiny_models, tmp_path_factory):
    data_dir = copy_sets(str(tmp_path_factory.mktemp("patched")))
    model = classifiers.load_classifier(tiny_models, "scene_only")
    return data_dir, model, delta_patch.construct(data_dir, model, steps=40)


def test_a_patch_changes_the_dogs_pixels_alone(patched):
    data_dir, _, _ = patched
    plain, patches = (data.load_set(data_dir, name) for name in ("bamboo_forest", "bamboo_forest_patch"))
    for row in range(len(patches)):
        mask = scores.place_mask(plain.mask(row), plain.boxes[row], 128)
        before, after = plain.images([row])[0], patches.images([row])[0]
        np.testing.assert_array_equal(before[~mask], after[~mask])
        assert (before[mask] != after[mask]).any(axis=1).mean() > 0.9


def test_a_patch_moves_the_logits_less_than_the_dog(patched):
    data_dir, model, record = patched
    assert record.model == model.fingerprint and record == delta_patch.read_record(
        os.path.join(data_dir, "bamboo_forest_patch")
    )
    for before, after in zip(record.before, record.after, strict=True):
        assert after < before
    assert f"{np.median(record.after):.2f}" in record.summary()


def test_the_recorded_distance_is_that_of_the_saved_pictures(patched):
    data_dir, model, record = patched
    plain, patches = (data.load_set(data_dir, name) for name in ("bamboo_forest", "bamboo_forest_patch"))
    logits = [model.scores(classifiers.network_inputs(images.images([0, 1]), 32)) for images in (plain, patches)]
    np.testing.assert_allclose(np.linalg.norm(logits[0] - logits[1], axis=1), record.after, rtol=1e-3)


def test_the_set_has_the_layout_that_the_metrics_read(patched):
    data_dir, _, _ = patched
    patches = data.load_set(data_dir, "bamboo_forest_patch")
    assert patches.names == ("dog-bamboo_forest-0900.png", "dog-bamboo_forest-0901.png")
    assert patches.labels.tolist() == [0, 0] and patches.boxes.any(axis=1).all()
    assert len(load_masks(patches.directory)) == 2


def test_a_patch_that_changes_the_class_is_refused(copy_sets, tmp_path, monkeypatch):
    data_dir = copy_sets(str(tmp_path / "data"))

    class Fickle:
        """Thinks any image with a change another class, if it is the second one of the set."""

        fingerprint = "fickle"

        def scores(self, inputs, batch_size):
            values = np.zeros((len(inputs), 10), np.float32)
            values[:, 0] = 1
            if self.changed:
                values[1, 5] = 2
            return values

    model = Fickle()
    calls = iter([False, False, True])
    monkeypatch.setattr(Fickle, "changed", property(lambda self: next(calls)), raising=False)
    monkeypatch.setattr(delta_patch, "input_side", lambda model: 128)
    monkeypatch.setattr(delta_patch, "optimise", lambda model, scenes, pasted, masks, *_: np.where(
        masks[..., None], np.where(scenes > 127, scenes - 7, scenes + 7), scenes
    ).astype(np.uint8))  # fmt: skip
    record = delta_patch.construct(data_dir, model)
    assert record.accepted == [True, False] and record.change == pytest.approx([7, 7])
    assert data.load_set(data_dir, "bamboo_forest_patch").names == ("dog-bamboo_forest-0900.png",)
    assert "1 of 2 keep the class" in record.summary()


@pytest.mark.parametrize("nearer", [True, False])
def test_where_logits_have_no_slope_a_patch_moves_away_from_the_scene(monkeypatch, nearer):
    """The logits come nearer to the scene's with the distance, or else the dog as pasted is the nearest patch."""
    scenes, masks = np.full((1, 8, 8, 3), 100, np.uint8), np.arange(64).reshape(1, 8, 8) < 32
    pasted = np.where(masks[..., None], np.uint8(110), scenes)
    empty = classifiers.network_inputs(scenes, 8)

    def logits(inputs):
        away = tf.reduce_mean(tf.abs(inputs - empty), axis=(1, 2, 3))
        return tf.stop_gradient(away * tf.exp(-away) if nearer else away)[:, None]

    monkeypatch.setattr(delta_patch, "logit_function", lambda *_: logits)
    monkeypatch.setattr(delta_patch, "check_gives_logits", lambda *_: None)
    found = delta_patch.optimise(None, scenes, pasted, masks, steps=5)
    assert ((found[masks] > 110) if nearer else (found[masks] == 110)).all() and (found[~masks] == 100).all()


def test_no_record_is_none_and_no_sets_are_named(tmp_path):
    assert delta_patch.read_record(str(tmp_path)) is None
    with pytest.raises(BadInput, match=r"val\.txt"):
        data.load_set(str(tmp_path), "bamboo_forest")


def test_patches_of_the_authors_files(copy_sets, upstream_models, tmp_path, capsys):
    """Files of TensorFlow 1 without a signature: the distances are those of their own tensors in a session."""
    path = os.path.join(upstream_models, "scene_only")

    def run(data_dir, *more):
        copy_sets(data_dir)
        arguments = ["construct_delta_patch", f"--data_dir={data_dir}", f"--model={path}", "--steps=20", *more]
        return cli.execute(
            construct_delta_patch.main, construct_delta_patch.FLAGS, construct_delta_patch.__doc__, arguments
        )

    data_dir = str(tmp_path / "upstream")
    assert run(data_dir, "--compat=upstream") == 0
    assert "2 of 2 keep the class" in capsys.readouterr().out
    record = delta_patch.read_record(os.path.join(data_dir, "bamboo_forest_patch"))
    plain, patches = (data.load_set(data_dir, name) for name in ("bamboo_forest", "bamboo_forest_patch"))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.saved_model.load(session, ["serve"], path)
        shown = [classifiers.network_inputs(images.images([0, 1]), 32) for images in (plain, patches)]
        scene, patch = (session.run("resnet_model/final_dense:0", {"input_tensor:0": images}) for images in shown)
    np.testing.assert_allclose(np.linalg.norm(scene - patch, axis=1), record.after, rtol=1e-3)
    assert all(after < before for before, after in zip(record.before, record.after, strict=True))

    assert run(str(tmp_path / "default")) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("error: ")
    assert not os.path.exists(tmp_path / "default" / "bamboo_forest_patch")
