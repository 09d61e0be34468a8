"""Images from Blender, with a stand-in for ``bpy`` that writes what it was asked to render."""

import dataclasses
import json
import sys

import numpy as np
import pytest
from PIL import Image

from attribution.errors import BadInput
from attribution.reading import read_json
from clevr_xai import layout
from clevr_xai.generation import _blender, generate

SETTINGS = generate.Settings(seed=4, num_images=2, width=48, height=32, samples=1, renderer="blender")
STAND_IN = """
import collections, json, types
from unittest import mock

app = types.SimpleNamespace(version_string="4.2.0")
data, context, ops = mock.MagicMock(), mock.MagicMock(), mock.MagicMock()
data.objects = collections.defaultdict(types.SimpleNamespace)

class Library:
    def __init__(self, file):
        self.file, self.found = file, types.SimpleNamespace()
    def __enter__(self):
        return None, self.found
    def __exit__(self, *_):
        for kind, (name,) in vars(self.found).items():
            one = mock.MagicMock()
            one.file = self.file
            setattr(self.found, kind, [one])

data.libraries.load = Library

def render(write_still):
    from PIL import Image
    settings = context.scene.render
    Image.new("RGB", (settings.resolution_x, settings.resolution_y), (9, 8, 7)).save(settings.filepath)
    solids = [call.args[0] for call in context.scene.collection.objects.link.call_args_list]
    seen = {
        "opened": ops.wm.open_mainfile.call_args.kwargs["filepath"], "camera": data.objects["Camera"].location,
        "key": data.objects["Lamp_Key"].location, "samples": context.scene.cycles.samples,
        "solids": [[one.file, one.location, one.scale, one.rotation_euler] for one in solids],
    }
    with open(LOG, "a") as log:
        log.write(json.dumps(seen) + "\\n")

ops.render.render = render
"""


@pytest.fixture
def assets(tmp_path, monkeypatch):
    """Return a folder with empty files of the authors' names; ``bpy`` logs to ``bpy.log`` next to it."""
    for name in ("base_scene", "shapes/SmoothCube_v2", "shapes/Sphere", "shapes/SmoothCylinder", "materials/Rubber",
                 "materials/MyMetal"):  # fmt: skip
        file = tmp_path / "assets" / f"{name}.blend"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (tmp_path / "module").mkdir()
    (tmp_path / "module" / "bpy.py").write_text(f"LOG = {str(tmp_path / 'bpy.log')!r}\n{STAND_IN}")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "module"))
    return tmp_path / "assets"


def test_the_same_scenes_and_masks_are_rendered_and_none_twice(assets, tmp_path):
    for _ in range(2):
        generate.generate(tmp_path / "made", SETTINGS, ("simple",), assets=str(assets), blender_python=sys.executable)
    generate.generate(tmp_path / "mitsuba", dataclasses.replace(SETTINGS, renderer="mitsuba"), ("simple",))
    names = sorted(path.relative_to(tmp_path / "mitsuba") for path in (tmp_path / "mitsuba").rglob("*.*"))
    assert names == sorted(path.relative_to(tmp_path / "made") for path in (tmp_path / "made").rglob("*.*"))
    for name in names:
        same = (tmp_path / "made" / name).read_bytes() == (tmp_path / "mitsuba" / name).read_bytes()
        assert same != (name.parent.name == layout.IMAGES or name.name == layout.SETTINGS), name
    seen = [json.loads(line) for line in (tmp_path / "bpy.log").read_text().splitlines()]
    scenes = read_json(tmp_path / "made" / layout.SCENES)["scenes"]
    assert len(seen) == len(scenes) == 2
    for rendered, scene in zip(seen, scenes, strict=True):
        assert rendered["opened"] == str(assets / "base_scene.blend") and rendered["samples"] == 1
        assert rendered["camera"] == scene["camera"] and rendered["key"] == scene["lights"]["key"]
        assert [place for _, place, _, _ in rendered["solids"]] == [item["3d_coords"] for item in scene["objects"]]
        for (file, _, scale, turn), item in zip(rendered["solids"], scene["objects"], strict=True):
            assert item["shape"] in file.lower()
            np.testing.assert_allclose(scale, item["3d_coords"][2])
            np.testing.assert_allclose(np.degrees(turn), [0, 0, item["rotation"]])
        image = np.asarray(Image.open(tmp_path / "made" / layout.IMAGES / scene["image_filename"]))
        assert image.shape == (32, 48, 3) and (image == (9, 8, 7)).all()


def test_what_is_missing_is_named(assets, tmp_path, monkeypatch):
    with pytest.raises(BadInput, match="--blender_python"):
        _blender.check_available(str(assets), str(tmp_path / "no_python"))
    (tmp_path / "module" / "bpy.py").write_text("app = None")
    with pytest.raises(BadInput, match=r"bpy 4\.2"):
        _blender.check_available(str(assets))
    (assets / "shapes" / "Sphere.blend").unlink()
    with pytest.raises(BadInput, match=r"no shapes/Sphere.blend"):
        _blender.check_available(str(assets))


def test_a_failed_rendering_is_reported(assets, tmp_path):
    (tmp_path / "module" / "bpy.py").write_text("raise SystemExit('out of order')")
    with pytest.raises(BadInput, match=r"did not render a.png: out of order"):
        _blender.render({"image_filename": "a.png", "objects": []}, 48, 32, 1, str(assets))
