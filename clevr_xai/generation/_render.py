"""Images of scenes and pixel-exact masks, with Mitsuba 3 and Open Image Denoise.

Needs the extra ``render``. One process renders with one thread; the same scene gives the same bytes in every
process. Masks do not depend on the light.

The light follows CLEVR's Blender scene: a sun, three square lamps, a pale ground, rubber and metal, with the materials
of Kubric's rendition (Greff et al. 2022) and a constant ambient light. Colors are linear: CLEVR's 8-bit values / 255.

The meshes are the bevelled cube and cylinder, of the form of ``scenes.distance``. A bevelled solid is a smaller one
with a ball rolled over it: every surface point is a point of the smaller solid plus the bevel's radius along the
normal. So positions follow from normals, and normals are exact.
"""

from __future__ import annotations

import concurrent.futures
import ctypes
import functools
import importlib
import importlib.util
import math
import multiprocessing
import pathlib
import sys
import tempfile

import numpy as np
from PIL import Image

from attribution.errors import BadInput, installation
from clevr_xai import masks, vocabulary
from clevr_xai.generation import scenes

SAMPLES = 16  # a pixel; four scenes of 192 x 128 came within 41 to 46 dB of their renders with 256
_ARC = 8  # segments of a bevel's quarter circle
_TURN = 96  # segments around the cylinder

Mesh = tuple[np.ndarray, np.ndarray, np.ndarray]


@functools.cache
def _mesh_folder() -> tempfile.TemporaryDirectory:
    """Write the meshes once a process to a directory that is removed at its end."""
    folder = tempfile.TemporaryDirectory(prefix="meshes_")
    for name, mesh in (("cube", cube_mesh()), ("cylinder", cylinder_mesh())):
        _write_ply(pathlib.Path(folder.name) / f"{name}.ply", *mesh)
    return folder


def _write_ply(path: pathlib.Path, vertices: np.ndarray, normals: np.ndarray, faces: np.ndarray) -> None:
    """Write a mesh as binary PLY; ``faces``, (F, 3), are indices of vertices, counter-clockwise seen from outside."""
    header = "\n".join(
        [
            "ply",
            "format binary_little_endian 1.0",
            f"element vertex {len(vertices)}",
            *(f"property float {name}" for name in ("x", "y", "z", "nx", "ny", "nz")),
            f"element face {len(faces)}",
            "property list uchar int vertex_indices",
            "end_header\n",
        ]
    )
    rows = np.empty(len(faces), [("count", "u1"), ("indices", "<i4", 3)])
    rows["count"], rows["indices"] = 3, faces
    body = np.hstack([vertices, normals]).astype("<f4").tobytes() + rows.tobytes()
    path.write_bytes(header.encode("ascii") + body)


def cube_mesh() -> Mesh:
    """Return vertices (V, 3), normals (V, 3) and faces (F, 3) of the cube of half side 1."""
    bevel = scenes.BEVEL["cube"]
    angles = np.linspace(0, np.pi / 4, _ARC + 1)
    # Along each axis of a face: the flat part's two ends, and beyond each the bevel up to its middle.
    core = np.r_[-np.ones(_ARC + 1), np.ones(_ARC + 1)] * (1 - bevel)
    slope = np.r_[-np.tan(angles[::-1]), np.tan(angles)]
    rows, columns = np.meshgrid(range(len(core)), range(len(core)), indexing="ij")
    normals = np.stack([slope[rows], slope[columns], np.ones(rows.shape)], axis=-1).reshape(-1, 3)
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    centres = np.stack([core[rows], core[columns], np.full(rows.shape, 1 - bevel)], axis=-1).reshape(-1, 3)
    corner = (np.arange(len(core) - 1)[:, None] * len(core) + np.arange(len(core) - 1)).ravel()
    step = len(core)
    grid = np.concatenate(
        [
            np.stack([corner, corner + step, corner + step + 1], axis=1),
            np.stack([corner, corner + step + 1, corner + 1], axis=1),
        ]
    )
    vertices = centres + bevel * normals
    sides = []
    for axis in range(3):
        for sign in (1, -1):
            turn = np.zeros((3, 3))  # a rotation keeps the faces' orientation
            turn[(axis + 1) % 3, 0], turn[(axis + 2) % 3, 1], turn[axis, 2] = sign, 1, sign
            sides.append((vertices @ turn.T, normals @ turn.T))
    count = len(vertices)
    return (
        np.concatenate([side[0] for side in sides]),
        np.concatenate([side[1] for side in sides]),
        np.concatenate([grid + count * number for number in range(6)]),
    )


def cylinder_mesh() -> Mesh:
    """Return vertices (V, 3), normals (V, 3) and faces (F, 3) of the cylinder of radius and half height 1."""
    bevel = scenes.BEVEL["cylinder"]
    arc = np.linspace(np.pi / 2, 0, _ARC + 1)
    # The outline from the top's centre over its bevel, down the side, over the lower bevel to the centre.
    across = np.r_[0.0, np.cos(arc), np.cos(arc[::-1]), 0.0]
    upward = np.r_[1.0, np.sin(arc), -np.sin(arc[::-1]), -1.0]
    core = np.r_[0.0, np.full(2 * (_ARC + 1), 1 - bevel), 0.0]
    height = np.r_[np.full(_ARC + 2, 1 - bevel), np.full(_ARC + 2, bevel - 1)]
    turn = np.arange(_TURN) * 2 * np.pi / _TURN
    ring = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    normals = np.concatenate(
        [across[:, None, None] * ring, np.broadcast_to(upward[:, None, None], (len(core), _TURN, 1))], axis=2
    )
    centres = np.concatenate(
        [core[:, None, None] * ring, np.broadcast_to(height[:, None, None], (len(core), _TURN, 1))], axis=2
    )
    row, column = np.meshgrid(range(len(core) - 1), range(_TURN), indexing="ij")
    here, beside = (row * _TURN + column).ravel(), (row * _TURN + (column + 1) % _TURN).ravel()
    faces = np.concatenate(
        [
            np.stack([here, here + _TURN, beside], axis=1),
            np.stack([beside, here + _TURN, beside + _TURN], axis=1),
        ]
    )
    return (centres + bevel * normals).reshape(-1, 3), normals.reshape(-1, 3), faces


Color = list[float]

_LAMPS = {  # color, side, watts, and the factor of its distance and side, with which its radiance does not change:
    # no lamp is visible from its bright side in 200,000 scenes
    "key": ((1.0, 0.932, 0.817), 0.5, 78.5, 1.25),
    "fill": ((0.762, 0.818, 1.0), 0.5, 23.6, 1.5),
    "back": ((1.0, 1.0, 1.0), 1.0, 39.3, 1.0),
}
# Direction of the sun, and its irradiance on a surface that faces it, in the lamps' watts a unit of area.
_SUN = ((11.6608, -6.62799, 25.8232), 0.45)
_SUN_ANGLE = 0.2  # diameter in radians, which softens its shadows
_SUN_DISTANCE = 300.0  # far enough that it lights the whole ground alike
_GROUND = 0.8
_GROUND_SIZE = 60.0
_AMBIENT = 0.03  # with it every row of the ground is within 8 gray levels of the two real pictures measured


def world(scene: dict, lit: bool = True) -> dict:
    """Return a scene of ``scenes.sample_scene`` without its camera, for ``mitsuba.load_dict``.

    The objects' names are ``object_0``, ``object_1``, ... If ``lit``, there are its lamps and the sun: surfaces that
    emit light on one side and are transparent from both.
    """
    transform = _mitsuba().ScalarTransform4f
    found: dict[str, dict] = {
        "integrator": {"type": "volpath", "max_depth": 9}  # the only integrator that sees lamps through lamps
    }
    for index, item in enumerate(scene["objects"]):
        size = scenes.solid_scale(item["shape"], vocabulary.SIZES[item["size"]])
        place = transform().translate(item["3d_coords"]).rotate([0, 0, 1], item["rotation"]).scale(size)
        if item["shape"] == "sphere":
            solid = {"type": "sphere"}
        else:
            solid = {"type": "ply", "filename": f"{_mesh_folder().name}/{item['shape']}.ply"}
        color = [component / 255 for component in vocabulary.COLORS[item["color"]]]
        material = _metal(color) if item["material"] == "metal" else _rubber(color)
        found[f"object_{index}"] = {**solid, "to_world": place, "bsdf": material}
    ground = {"type": "diffuse", "reflectance": {"type": "rgb", "value": _GROUND}}
    flat = transform().scale([_GROUND_SIZE, _GROUND_SIZE, 1])
    found["ground"] = {"type": "rectangle", "to_world": flat, "bsdf": ground}
    found["ambient"] = {"type": "constant", "radiance": {"type": "rgb", "value": _AMBIENT}}
    if not lit:
        return found
    for name, (color, side, watts, push) in _LAMPS.items():
        radiance = watts / (math.pi * side**2)  # of a Lambertian lamp of that power
        at = [component * push for component in scene["lights"][name]]
        scale = side * push / 2
        found[name] = _lamp(at, scale, [radiance * component for component in color], transform)
    direction, irradiance = _SUN
    length = math.hypot(*direction)
    at = [component * _SUN_DISTANCE / length for component in direction]
    solid_angle = math.pi * (_SUN_ANGLE / 2) ** 2
    scale = _SUN_DISTANCE * math.sqrt(solid_angle / 4.0)  # 4 is the area of the rectangle of scale 1
    found["sun"] = _lamp(at, scale, [irradiance / solid_angle] * 3, transform)
    return found


def _lamp(at: Color, scale: float, radiance: Color, transform) -> dict:
    """Return a surface that emits light towards the origin and casts no shadow."""
    return {
        "type": "rectangle",
        "to_world": transform().look_at(origin=at, target=[0, 0, 0], up=[0, 0, 1]) @ transform().scale(scale),
        "bsdf": {"type": "null"},
        "emitter": {"type": "area", "radiance": {"type": "rgb", "value": radiance}},
    }


def _rubber(color: Color) -> dict:
    return {"type": "principled", "base_color": {"type": "rgb", "value": color}, "roughness": 0.7, "specular": 0.33}


def _metal(color: Color) -> dict:
    lobe = {"type": "roughconductor", "distribution": "ggx", "material": "none"}
    lobe |= {"specular_reflectance": {"type": "rgb", "value": color}}
    return {"type": "blendbsdf", "weight": 0.4, "rough": {**lobe, "alpha": 0.2}, "smooth": {**lobe, "alpha": 0.06}}


def render(scene: dict, width: int, height: int, samples: int = SAMPLES) -> tuple[np.ndarray, np.ndarray]:
    """Render a scene.

    Parameters
    ----------
    scene
        As ``scenes.sample_scene`` returns it.
    width, height
        Of the image in pixels, 3 to 2 as the original's 480 x 320.
    samples
        Light paths a pixel, a square number.

    Returns
    -------
    image : (height, width, 3) uint8
        sRGB.
    indices : (height, width) int16
        The object that each pixel's centre sees, -1 for the background.

    Raises
    ------
    BadInput
        Without the extra ``render``.
    """
    return _isolated(_render, scene, width, height, samples)


def render_indices(scene: dict, width: int, height: int) -> np.ndarray:
    """Return the index image of ``render`` without the image."""
    return _isolated(_render_indices, scene, width, height)


def _isolated(function, *arguments):
    """Call a function, in another process if TensorFlow is loaded.

    A process that loads TensorFlow and then Mitsuba renders correctly but aborts when it exits.
    """
    if "tensorflow" not in sys.modules:
        return function(*arguments)
    return _process().submit(function, *arguments).result()


@functools.cache
def _process() -> concurrent.futures.Executor:
    """Return a process without TensorFlow; it ends with this one."""
    return concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


def _render(scene, width, height, samples):
    traced = _load(world(scene), _sensor(scene, width, height, samples))
    light = _rendered(traced, traced.integrator(), spp=samples, seed=scene["image_index"])[..., :3]
    light = np.clip(_denoise(light), 0.0, 1.0)
    # sRGB of linear light in [0, 1] (IEC 61966-2-1).
    image = np.where(light <= 0.0031308, light * 12.92, 1.055 * light ** (1 / 2.4) - 0.055)
    return np.round(image * 255).astype(np.uint8), _render_indices(scene, width, height)


def _load(world: dict, sensor: dict):
    """Return a scene of Mitsuba."""
    return _mitsuba().load_dict(
        {"type": "scene", **world, "sensor": sensor},
        parallel=False,
        optimize=False,  # merging meshes of one material would lose objects and their order
    )


def _render_indices(scene, width, height) -> np.ndarray:
    """Trace one ray through each pixel's centre, without lamps, which would hide objects; -1 for the background."""
    sampler = {"type": "stratified", "sample_count": 1, "jitter": False}
    traced = _load(world(scene, lit=False), {**_sensor(scene, width, height, 1), "sampler": sampler})
    integrator = _mitsuba().load_dict({"type": "aov", "aovs": "index:shape_index"})
    position = _rendered(traced, integrator, spp=1)[..., -1]
    # Positions count from 1, in the order of the scene's shapes; 0 is the background.
    objects = {f"object_{index}": index for index in range(len(scene["objects"]))}
    index_of = np.array([-1] + [objects.get(shape.id(), -1) for shape in traced.shapes()], np.int16)
    return index_of[np.round(position).astype(int)]


def _rendered(world, integrator, **settings) -> np.ndarray:
    """Return a complete render, (height, width, channels) float32.

    Mitsuba handles SIGINT while it renders, even in a process that ignores it, and returns an incomplete image.

    Raises
    ------
    KeyboardInterrupt
        If it was interrupted.
    """
    light = np.array(_mitsuba().render(world, integrator=integrator, **settings), np.float32)
    if integrator.should_stop():
        raise KeyboardInterrupt
    return light


def mask_image(indices: np.ndarray) -> Image.Image:
    """Return an index image as an RGB picture of flat colours on gray, as in the release."""
    palette = np.array([masks.BACKGROUND, *scenes.MASK_COLORS], np.uint8)
    return Image.fromarray(palette[indices + 1])


def _denoise(light: np.ndarray) -> np.ndarray:
    """Return an (H, W, 3) float32 image of linear light without its Monte Carlo noise, deterministically."""
    import oidn

    device, library = _denoiser()
    height, width, _ = light.shape
    noisy, clean = np.ascontiguousarray(light, np.float32), np.empty_like(light, np.float32)
    task = oidn.NewFilter(device, "RT")
    oidn.SetSharedFilterImage(task, "color", noisy, oidn.FORMAT_FLOAT3, width, height)
    oidn.SetSharedFilterImage(task, "output", clean, oidn.FORMAT_FLOAT3, width, height)
    library.oidnSetFilter1b(task, b"hdr", True)
    oidn.CommitFilter(task)
    oidn.ExecuteFilter(task)
    oidn.ReleaseFilter(task)
    return clean


@functools.cache
def _mitsuba():
    """Return Mitsuba, set to trace rays on one thread without just-in-time compilation."""
    try:
        # The threading library is in the denoiser's folder, where Linux' loader does not search.
        package = importlib.util.find_spec("oidn")
        for folder in package.submodule_search_locations if package else ():
            for library in sorted(pathlib.Path(folder).glob("lib.linux.x64/libtbb.so*")):
                ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
        for name in ("mitsuba", "oidn"):
            importlib.import_module(name)
    except (ImportError, OSError) as error:
        raise BadInput(_needed(error)) from None
    import drjit
    import mitsuba

    mitsuba.set_variant("scalar_rgb")
    drjit.set_thread_count(0)  # no other threads
    mitsuba.set_log_level(mitsuba.LogLevel.Error)
    return mitsuba


def _needed(reason) -> str:
    return f"rendering needs Mitsuba and Open Image Denoise ({reason}): {installation('render')}"


@functools.cache
def _denoiser():
    """Return a device of one thread and the library, for the settings that its Python binding lacks."""
    import oidn

    library = vars(oidn)["__lib_oidn"]
    library.oidnSetDevice1i.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]
    library.oidnSetDevice1b.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_bool]
    library.oidnSetFilter1b.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_bool]
    for function in (library.oidnSetDevice1i, library.oidnSetDevice1b, library.oidnSetFilter1b):
        function.restype = None
    device = oidn.NewDevice(oidn.DEVICE_TYPE_CPU)
    library.oidnSetDevice1i(device, b"numThreads", 1)
    library.oidnSetDevice1b(device, b"setAffinity", False)
    oidn.CommitDevice(device)
    return device, library


def _sensor(scene, width, height, samples) -> dict:
    mitsuba = _mitsuba()
    return {
        "type": "perspective",
        "fov": scenes.FIELD_OF_VIEW,
        "fov_axis": "larger",
        "near_clip": 0.1,
        "far_clip": 200.0,
        "to_world": mitsuba.ScalarTransform4f().look_at(origin=scene["camera"], target=[0, 0, 0], up=[0, 0, 1]),
        "sampler": {"type": "multijitter", "sample_count": samples},
        "film": {
            "type": "hdrfilm",
            "width": width,
            "height": height,
            "pixel_format": "rgb",
            "component_format": "float32",
            "rfilter": {"type": "box"},
        },
    }


def check_available() -> None:
    """Raise ``BadInput`` in one line when the extra ``render`` is not installed."""
    for package in ("mitsuba", "oidn"):
        if importlib.util.find_spec(package) is None:
            raise BadInput(_needed(f"no module named '{package}'"))
