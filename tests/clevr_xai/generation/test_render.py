"""Renders: masks that agree with the ray marcher, pictures that repeat to the bit, one line without the extra."""

import hashlib
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from attribution.errors import BadInput
from clevr_xai import masks, vocabulary
from clevr_xai.generation import _render, scenes

DIGEST = """
import hashlib
from clevr_xai.generation import _render, scenes
scene = scenes.sample_scene(3, {index}, 96, 64)
image, indices = _render.render(scene, 96, 64, 4)
print(hashlib.sha256(image.tobytes() + indices.tobytes()).hexdigest())
"""


def test_two_processes_render_the_same_bytes():
    """Also when one of them rendered something else before."""
    first = subprocess.run([sys.executable, "-c", DIGEST.format(index=1)], capture_output=True, text=True, check=True)
    _render.render(scenes.sample_scene(3, 0, 96, 64), 96, 64, 4)
    image, indices = _render.render(scenes.sample_scene(3, 1, 96, 64), 96, 64, 4)
    assert first.stdout.strip() == hashlib.sha256(image.tobytes() + indices.tobytes()).hexdigest()


@pytest.mark.parametrize("index", range(4))
def test_masks_agree_with_the_ray_marcher(index):
    """Two programs trace the same pixel centres; they may differ where a ray grazes a rim."""
    scene = scenes.sample_scene(3, index)
    rendered = _render.render_indices(scene, 480, 320)
    marched = scenes.seen_objects(scene, 480, 320)
    differ = rendered != marched
    assert differ.mean() < 0.001
    y, x = np.nonzero(differ)
    for row, column in zip(y, x, strict=True):  # every such pixel lies on a rim
        around = marched[max(0, row - 1) : row + 2, max(0, column - 1) : column + 2]
        assert len(np.unique(around)) > 1
    assert np.bincount(rendered[rendered >= 0], minlength=len(scene["objects"])).min() >= 200


def test_a_mask_image_is_read_back():
    scene = scenes.sample_scene(3, 2)
    indices = scenes.seen_objects(scene, 480, 320)
    picture = np.asarray(_render.mask_image(indices).convert("RGB"))
    colors = [item["mask_color"] for item in scene["objects"]]
    np.testing.assert_array_equal(masks.object_indices(picture, colors), indices)
    assert tuple(picture[0, 0]) == (64, 64, 64)


def alone(**attributes):
    """Return a scene of one large sphere in the middle."""
    scene = scenes.sample_scene(3, 0)
    item = {"shape": "sphere", "size": "large", "color": "gray", "material": "rubber"} | attributes
    return scene | {"objects": [{**item, "3d_coords": [0.0, 0.0, 0.7], "rotation": 0.0}]}


def seen(**attributes):
    image, indices = _render.render(alone(**attributes), 96, 64, 4)
    return image[indices == 0].astype(float)


def test_colours_can_be_told_apart():
    """The mean colours of any two, 8-bit sRGB, lie at least 20 apart."""
    means = np.array([seen(color=color).mean(axis=0) for color in vocabulary.COLORS])
    apart = np.linalg.norm(means[:, None] - means, axis=-1) + np.eye(len(means)) * 1e9
    assert apart.min() > 20
    assert np.ptp(means[0]) < 15  # gray is gray


def test_metal_glitters_and_rubber_does_not():
    """Highlights against the middle of the brightness."""
    glitter = {}
    for material in vocabulary.MATERIALS:
        brightness = seen(material=material, color="blue").mean(axis=1)
        glitter[material] = np.percentile(brightness, 99) / np.median(brightness)
    assert glitter["metal"] > 1.3 * glitter["rubber"]


def test_the_light_casts_a_shadow():
    scene = alone()
    image, indices = _render.render(scene, 96, 64, 4)
    empty, _ = _render.render(scene | {"objects": []}, 96, 64, 4)
    ground = indices < 0
    darker = empty.mean(axis=-1) - image.mean(axis=-1)
    assert darker[ground].max() > 30


@pytest.mark.parametrize("missing", ["mitsuba", "oidn"])
def test_without_the_extra_one_line_names_it(missing, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)  # importing it raises ImportError
    with pytest.raises(BadInput, match=r"rendering needs .*pip install 'mitsuba") as error:
        _render.check_available()
    assert missing in str(error.value) and "\n" not in str(error.value)


def test_a_process_with_tensorflow_renders_elsewhere_and_ends_well(tmp_path):
    """TensorFlow first and Mitsuba after it in one process would abort at its end."""
    script = tmp_path / "script.py"
    script.write_text(
        "from clevr_xai.generation import _render, scenes\n"
        "if __name__ == '__main__':\n"
        "    import tensorflow as tf\n"
        "    tf.constant(1.0) + 1.0\n"
        "    print(_render.render_indices(scenes.sample_scene(3, 0, 96, 64), 96, 64).max())\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(__file__).parents[3])}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0 and int(done.stdout) >= 2


def test_what_an_interrupt_leaves_of_a_picture_is_no_picture():
    """Mitsuba hears SIGINT while it renders, whoever ignores it, and gives what it has: a dark picture, half a mask."""
    program = (
        "import os, signal, threading, time\n"
        "from clevr_xai.generation import _render, scenes\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "scene = scenes.sample_scene(0, 1, 96, 64)\n"
        "_render.render(scene, 96, 64, 1)\n"
        "def press():\n"
        "    while True:\n"
        "        time.sleep(0.02)\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "threading.Thread(target=press, daemon=True).start()\n"
        "try:\n"
        "    _render.render(scene, 96, 64, 64)\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.stdout == "interrupted\n", done.stderr[-500:]


@pytest.fixture(scope="module")
def of_mitsuba():
    """What ``measure_light`` prints."""
    script = pathlib.Path(__file__).with_name("measure_light.py")
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(__file__).parents[3])}
    command = [sys.executable, str(script)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout)


@pytest.mark.parametrize("look", _render.LOOKS)
@pytest.mark.parametrize("lamp", ["key", "fill", "back", "sun"])
def test_a_lamp_lights_the_ground_by_its_power(look, lamp, of_mitsuba):
    """The inverse-square law: a Lambertian lamp of P watts gives P cos^2 / (pi r^2) above a point that it faces."""
    found = of_mitsuba["lamps"][look][lamp]
    look = _render.LOOKS[look]
    if lamp == "sun":
        direction, irradiance = look.sun
        irradiance *= direction[2] / np.linalg.norm(direction)
    else:
        position = scenes.sample_scene(3, 0)["lights"][lamp]
        distance = np.linalg.norm(position)
        # A lamp that is pushed out by a factor has the same solid angle, hence the same irradiance.
        irradiance = look.watts[lamp] * (position[2] / distance) / (np.pi * distance**2)
    color = {"key": (1.0, 0.932, 0.817), "fill": (0.762, 0.818, 1.0)}.get(lamp, (1.0, 1.0, 1.0))
    np.testing.assert_allclose(found, 0.8 / np.pi * irradiance * np.array(color), rtol=0.02)


@pytest.mark.parametrize("material", ["rubber", "metal"])
def test_a_matched_material_conserves_energy(material, of_mitsuba):
    """White furnace: in light of radiance 1 from everywhere, a white sphere shows at most 1.

    The other look's rubber shows 1.04: Disney's model, of which it is, gains energy.
    """
    found = np.array(of_mitsuba["furnace"][material])
    assert (found < 1.002).all() and (found > 0.85).all()


@pytest.mark.parametrize("index", range(2))
def test_a_look_changes_no_index(index):
    scene = scenes.sample_scene(3, index, 96, 64)
    (one, indices), (other, same) = (_render.render(scene, 96, 64, 4, look) for look in _render.LOOKS)
    np.testing.assert_array_equal(indices, same)
    assert np.abs(one.astype(float) - other).mean() > 1
    with pytest.raises(BadInput, match="no look 'van_gogh'; these exist: 'kubric', 'matched'"):
        _render.render(scene, 96, 64, 4, "van_gogh")


@pytest.mark.parametrize("shape", ["cube", "cylinder"])
def test_the_first_tangent_is_horizontal_around_the_axis(shape, of_mitsuba):
    """So that the gloss of metal is stretched as Blender stretches it, which shows as rays on the caps of cylinders."""
    frames = {
        part: [np.array(frame[field]) for field in ("tangents", "normals")]
        for part, frame in of_mitsuba["frames"][shape].items()
    }
    turns = np.linspace(0, 2 * np.pi, 50)
    around = np.stack([-np.sin(turns), np.cos(turns), np.zeros(50)], axis=1)
    tangents, normals = frames["side"]
    expected = around - normals * np.sum(around * normals, axis=1, keepdims=True)
    along = np.abs(np.sum(tangents * expected, axis=1)) / np.linalg.norm(expected, axis=1)
    assert along.shape == (50,) and along.min() > 0.999
    tangents, _ = frames["cap"]
    along = np.abs(np.sum(tangents * around, axis=1))
    # A triangle of the cube's cap has one tangent, and spans up to 28 degrees around the axis at this radius.
    assert along.shape == (50,) and along.min() > np.cos(np.deg2rad(28))


MESHES = {"cube": _render.cube_mesh, "cylinder": _render.cylinder_mesh}


def test_the_backdrop_faces_the_camera():
    vertices, normals, faces = _render.backdrop_mesh()
    corners = vertices[faces]
    area = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    area /= np.linalg.norm(area, axis=1, keepdims=True)
    assert (np.einsum("fi,fi->f", area, normals[faces].mean(axis=1)) > 0.95).all()
    toward = np.array(scenes.CAMERA) - corners.mean(axis=1)
    assert (np.einsum("fi,fi->f", area, toward) > 0).all()
    np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1, rtol=1e-4)  # the turn has four digits
    # The objects lie within 3 of the origin; there the ground is level and at most 0.035 high.
    ahead = (vertices[:, :2] - _render._BACKDROP_PLACE) @ _render._BACKDROP_TURN[:, 0]
    objects = -_render._BACKDROP_PLACE @ _render._BACKDROP_TURN[:, 0]
    assert np.interp(objects + 3 * 2**0.5, ahead[:25], vertices[:25, 2]) < 0.035 and vertices[:, 2].max() > 20


@pytest.mark.parametrize("shape", ["cube", "cylinder"])
def test_a_mesh_lies_on_the_surface_with_its_normals(shape):
    vertices, normals, _ = MESHES[shape]()
    np.testing.assert_allclose(scenes.distance(shape, vertices), 0, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1)
    np.testing.assert_allclose(scenes.distance(shape, vertices + 0.1 * normals), 0.1, atol=1e-12)


@pytest.mark.parametrize("shape", ["cube", "cylinder"])
def test_a_mesh_is_closed_and_turned_outward(shape):
    vertices, normals, faces = MESHES[shape]()
    corners = vertices[faces]
    area = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    np.testing.assert_allclose(area.sum(axis=0), 0, atol=1e-9)  # a closed surface has no net area
    real = np.linalg.norm(area, axis=1) > 1e-9
    assert (np.einsum("fi,fi->f", area, normals[faces].mean(axis=1))[real] > 0).all()
    # Steiner's formula: a solid widened by a ball has the volume V + A b + M b^2 + 4/3 pi b^3.
    bevel = scenes.BEVEL[shape]
    core = 1 - bevel
    if shape == "cube":
        volume, surface, curvature = 8 * core**3, 24 * core**2, 6 * np.pi * core
    else:
        volume, surface = 2 * np.pi * core**3, 6 * np.pi * core**2
        curvature = np.pi**2 * core + 2 * np.pi * core
    expected = volume + surface * bevel + curvature * bevel**2 + 4 / 3 * np.pi * bevel**3
    measured = np.einsum("fi,fi->", corners[:, 0], area) / 6
    assert expected * 0.995 < measured <= expected  # flat faces stay inside the round surface
