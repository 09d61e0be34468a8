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
from clevr_xai import masks
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


@pytest.mark.parametrize("lamp", ["key", "fill", "back", "sun"])
def test_a_lamp_lights_the_ground_by_its_power(lamp):
    """The inverse-square law: a Lambertian lamp of P watts gives P cos^2 / (pi r^2) above a point that it faces."""
    script = pathlib.Path(__file__).with_name("measure_light.py")
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(__file__).parents[3])}
    command = [sys.executable, str(script), lamp]
    measured = subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout
    if lamp == "sun":
        direction, irradiance = _render._SUN
        irradiance *= direction[2] / np.linalg.norm(direction)
        color = (1.0, 1.0, 1.0)
    else:
        position = scenes.sample_scene(3, 0)["lights"][lamp]
        distance = np.linalg.norm(position)
        # A lamp that is pushed out by a factor has the same solid angle, hence the same irradiance.
        watts = {"key": 78.5, "fill": 23.6, "back": 39.3}[lamp]
        irradiance = watts * (position[2] / distance) / (np.pi * distance**2)
        color = {"key": (1.0, 0.932, 0.817), "fill": (0.762, 0.818, 1.0), "back": (1.0, 1.0, 1.0)}[lamp]
    np.testing.assert_allclose(json.loads(measured), 0.8 / np.pi * irradiance * np.array(color), rtol=0.02)


MESHES = {"cube": _render.cube_mesh, "cylinder": _render.cylinder_mesh}


@pytest.mark.parametrize("shape", ["cube", "cylinder"])
def test_a_mesh_lies_on_the_surface_with_its_normals(shape):
    vertices, normals, _ = MESHES[shape]()
    np.testing.assert_allclose(scenes.distance(shape, vertices), 0, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1)
    np.testing.assert_allclose(scenes.distance(shape, vertices + 0.1 * normals), 0.1, atol=1e-12)
