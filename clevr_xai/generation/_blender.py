"""Images of scenes in Blender, from the authors' own scene, shapes and materials.

Johnson et al., CVPR 2017; github.com/facebookresearch/clevr-dataset-gen, folder ``image_generation/data``. Blender is
called in a process of its own, which runs this file as a script with a Python that has ``bpy`` 4.2. Camera, lamps and
objects are those of the scene, so that masks made by ``render`` belong to the image.
"""

from __future__ import annotations

import json
import math
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence

SAMPLES = 64
_FILES = {
    "scene": "base_scene.blend",
    "cube": "shapes/SmoothCube_v2.blend",
    "sphere": "shapes/Sphere.blend",
    "cylinder": "shapes/SmoothCylinder.blend",
    "rubber": "materials/Rubber.blend",
    "metal": "materials/MyMetal.blend",
}
_LAMPS = {"key": "Lamp_Key", "fill": "Lamp_Fill", "back": "Lamp_Back"}


def check_available(assets: str, python: str = "") -> None:
    """Raise ``BadInput`` in one line if a file of the authors or ``bpy`` is missing."""
    from attribution.errors import BadInput

    missing = [name for name in _FILES.values() if not (pathlib.Path(assets) / name).is_file()]
    if missing:
        raise BadInput(
            f"--assets={assets}: no {missing[0]}; name the folder image_generation/data of "
            "github.com/facebookresearch/clevr-dataset-gen"
        )
    found = _run([python or sys.executable, "-c", "import bpy; print(bpy.app.version_string)"])
    if found.returncode or not found.stdout.startswith("4.2"):
        raise BadInput(
            "Blender needs bpy 4.2, which runs on Python 3.11; install the extra 'blender', or name a Python that has "
            "it with --blender_python"
        )


def render(scene: dict, width: int, height: int, samples: int, assets: str, python: str = ""):
    """Render a scene, (height, width, 3) uint8 sRGB.

    Parameters
    ----------
    scene
        As ``scenes.sample_scene`` returns it.
    width, height
        Of the image in pixels.
    samples
        Light paths a pixel, denoised.
    assets
        The authors' folder ``image_generation/data``.
    python
        Python with ``bpy``; this one when empty.

    Raises
    ------
    BadInput
        If Blender writes no image.
    """
    from attribution.errors import BadInput
    from attribution.reading import read_pixels
    from clevr_xai import vocabulary

    colors = [vocabulary.COLORS[item["color"]] for item in scene["objects"]]
    job = {**scene, "colors": colors, "width": width, "height": height, "samples": samples}
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "image.png"
        done = _run([python or sys.executable, __file__, str(pathlib.Path(assets).resolve()), str(file)], job)
        if done.returncode or not file.is_file():
            reason = (done.stderr.splitlines() or ["no reason given"])[-1]
            raise BadInput(f"Blender did not render {scene['image_filename']}: {reason}")
        return read_pixels(file)


def _run(command: Sequence[str], job: dict | None = None) -> subprocess.CompletedProcess:
    try:
        return subprocess.run(command, input=json.dumps(job), capture_output=True, text=True, check=False)
    except OSError as error:
        return subprocess.CompletedProcess(command, 1, "", str(error))


def _draw(bpy, job: dict, assets: pathlib.Path, output: str) -> None:
    """Render a scene to a file, in Blender's process."""
    bpy.ops.wm.open_mainfile(filepath=str(assets / _FILES["scene"]))
    bpy.data.objects["Camera"].location = job["camera"]
    for name, lamp in _LAMPS.items():
        bpy.data.objects[lamp].location = job["lights"][name]
    for item, color in zip(job["objects"], job["colors"], strict=True):
        solid = _loaded(bpy, assets / _FILES[item["shape"]], "objects")
        bpy.context.scene.collection.objects.link(solid)
        solid.location = item["3d_coords"]
        solid.scale = [item["3d_coords"][2]] * 3  # the height of its center, on the ground
        solid.rotation_euler = (0.0, 0.0, math.radians(item["rotation"]))
        solid.data.materials.clear()
        solid.data.materials.append(_material(bpy, assets / _FILES[item["material"]], color))
    settings = bpy.context.scene.render
    settings.engine, settings.filepath, settings.resolution_percentage = "CYCLES", output, 100
    settings.resolution_x, settings.resolution_y = job["width"], job["height"]
    settings.image_settings.file_format, settings.image_settings.color_mode = "PNG", "RGB"
    settings.threads_mode, settings.threads = "FIXED", 1
    cycles = bpy.context.scene.cycles
    cycles.samples, cycles.seed, cycles.use_denoising = job["samples"], job["image_index"], True
    cycles.blur_glossy, cycles.transparent_max_bounces = 2.0, 8
    bpy.ops.render.render(write_still=True)


def _material(bpy, file: pathlib.Path, color: Sequence[int]):
    """Return the authors' material in a color of 8 bits, which they use as linear."""
    material = bpy.data.materials.new(file.stem)
    material.use_nodes = True
    nodes = material.node_tree.nodes
    nodes.clear()
    group, end = nodes.new("ShaderNodeGroup"), nodes.new("ShaderNodeOutputMaterial")
    group.node_tree = _loaded(bpy, file, "node_groups")
    group.inputs["Color"].default_value = (*(component / 255 for component in color), 1.0)
    material.node_tree.links.new(group.outputs["Shader"], end.inputs["Surface"])
    return material


def _loaded(bpy, file: pathlib.Path, kind: str):
    """Return a new copy of what a file holds under its own name."""
    with bpy.data.libraries.load(str(file)) as (_, found):
        setattr(found, kind, [file.stem])
    return getattr(found, kind)[0]


if __name__ == "__main__":
    import bpy

    _draw(bpy, json.load(sys.stdin), pathlib.Path(sys.argv[1]), sys.argv[2])
