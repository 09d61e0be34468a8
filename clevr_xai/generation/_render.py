"""Images of scenes and pixel-exact masks, with Mitsuba 3 and Open Image Denoise.

Needs the extra ``render``. One process renders with one thread; the same scene gives the same bytes in every
process. Masks do not depend on the look: lights and materials, in the dictionary form of Mitsuba.

Both looks follow CLEVR's Blender scene: a sun, three square lamps, a pale ground, rubber and metal. Colors are linear,
CLEVR's 8-bit values over 255.

``kubric`` has the sun and the materials of Kubric's rendition (Greff et al. 2022) on a flat ground with a constant
ambient light. ``matched`` has the lamps at their places in the authors' scene, its curved backdrop and its metal: two
anisotropic GGX lobes. Its four powers and the two free parameters of its rubber were fitted to Blender's renders of
20 scenes; docs/clevr_xai_data.md has its distance from Blender's and the networks' accuracy on it.

The meshes are the bevelled cube and cylinder, of the form of ``scenes.distance``, and the backdrop. A bevelled solid
is a smaller one with a ball rolled over it: every surface point is a point of the smaller solid plus the bevel's radius
along the normal. So positions follow from normals, and normals are exact.
"""

from __future__ import annotations

import concurrent.futures
import ctypes
import dataclasses
import functools
import importlib
import importlib.util
import math
import multiprocessing
import pathlib
import sys
import tempfile
from collections.abc import Callable

import numpy as np
from PIL import Image

from attribution.errors import BadInput, installation, listed
from clevr_xai import vocabulary
from clevr_xai.generation import scenes

SAMPLES = 16  # a pixel; four scenes of 192 x 128 came within 41 to 46 dB of their renders with 256
LOOK = "kubric"  # of the embedded images
_ARC = 8  # segments of a bevel's quarter circle
_TURN = 96  # segments around the cylinder
# Height of the backdrop over the ground by distance from its foot, in the authors' scene, and where its foot is.
_BACKDROP = (
    (-23.5, 0), (-14, 0), (-12, 0.015), (-10, 0.03), (-8.4, 0.06), (-7, 0.1), (-5.7, 0.16), (-4.6, 0.24), (-3.6, 0.36),
    (-2.7, 0.5), (-1.9, 0.69), (-1.2, 0.93), (-0.6, 1.22), (0, 1.58), (0.6, 2.18), (1.2, 3.1), (1.8, 4.62), (2.1, 5.6),
    (2.4, 7.15), (2.7, 8.9), (3, 11.3), (3.3, 14.1), (3.6, 17.4), (3.9, 20.9), (4.08, 23.2),
)  # fmt: skip
_BACKDROP_WIDTH = 56.5
_BACKDROP_TURN = np.array([[-0.9032, -0.4292], [0.4292, -0.9032]])
_BACKDROP_PLACE = np.array([-24.06, -18.0])

Mesh = tuple[np.ndarray, np.ndarray, np.ndarray]


@functools.cache
def _written() -> tuple[tempfile.TemporaryDirectory, dict[str, str]]:
    """Write the meshes once a process to a directory that is removed at its end."""
    folder = tempfile.TemporaryDirectory(prefix="meshes_")
    files = {}
    for name, mesh, oriented in (
        ("cube", cube_mesh(), False),
        ("cylinder", cylinder_mesh(), False),
        ("oriented_cube", cube_mesh(cells=8), True),
        ("oriented_cylinder", cylinder_mesh(), True),
        ("backdrop", backdrop_mesh(), False),
    ):
        files[name] = str(pathlib.Path(folder.name) / f"{name}.ply")
        _write_ply(pathlib.Path(files[name]), *mesh, oriented=oriented)
    return folder, files


def files() -> dict[str, str]:
    """Return the mesh files of this process by name.

    Those of ``oriented_cube`` and ``oriented_cylinder`` have texture coordinates, so that Mitsuba's first tangent is
    horizontal around the solid's axis, as Blender's default tangent.
    """
    return _written()[1]


def _write_ply(
    path: pathlib.Path, vertices: np.ndarray, normals: np.ndarray, faces: np.ndarray, oriented: bool = False
) -> None:
    """Write a mesh as binary PLY; ``faces``, (F, 3), are indices of vertices, counter-clockwise seen from outside.

    If ``oriented``, texture coordinates are written: the angle around the vertical axis, and the height, or the radius
    where the surface is nearer to horizontal than to vertical.
    """
    columns = {"x": vertices[:, 0], "y": vertices[:, 1], "z": vertices[:, 2]}
    columns |= {"nx": normals[:, 0], "ny": normals[:, 1], "nz": normals[:, 2]}
    if oriented:
        level = np.abs(normals[:, 2]) > 0.5**0.5
        columns["u"] = np.arctan2(vertices[:, 1], vertices[:, 0]) / (2 * np.pi)
        columns["v"] = np.where(level, np.hypot(vertices[:, 0], vertices[:, 1]), vertices[:, 2])
    header = "\n".join(
        [
            "ply",
            "format binary_little_endian 1.0",
            f"element vertex {len(vertices)}",
            *(f"property float {name}" for name in columns),
            f"element face {len(faces)}",
            "property list uchar int vertex_indices",
            "end_header\n",
        ]
    )
    rows = np.empty(len(faces), [("count", "u1"), ("indices", "<i4", 3)])
    rows["count"], rows["indices"] = 3, faces
    body = np.stack(list(columns.values()), axis=1).astype("<f4").tobytes() + rows.tobytes()
    path.write_bytes(header.encode("ascii") + body)


def backdrop_mesh() -> Mesh:
    """Return vertices (V, 3), normals (V, 3) and faces (F, 3) of the backdrop, the ground curved upwards behind."""
    profile = np.array(_BACKDROP, float)
    steps = np.diff(profile, axis=0)
    steps /= np.linalg.norm(steps, axis=1, keepdims=True)
    tangents = np.vstack([steps[:1], steps[:-1] + steps[1:], steps[-1:]])
    normals = np.stack([-tangents[:, 1], tangents[:, 0]], axis=1)
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    count = len(profile)
    edges = [np.stack([profile[:, 0], np.full(count, y)], axis=1) for y in (-_BACKDROP_WIDTH, 0.0)]
    vertices = np.column_stack([np.concatenate(edges) @ _BACKDROP_TURN.T + _BACKDROP_PLACE, np.tile(profile[:, 1], 2)])
    across = np.stack([normals[:, 0], np.zeros(count)], axis=1) @ _BACKDROP_TURN.T
    here = np.arange(count - 1)
    faces = np.concatenate(
        [
            np.stack([here, here + 1, here + count], axis=1),
            np.stack([here + 1, here + count + 1, here + count], axis=1),
        ]
    )
    return vertices, np.tile(np.column_stack([across, normals[:, 1]]), (2, 1)), faces


def cube_mesh(cells: int = 1) -> Mesh:
    """Return vertices (V, 3), normals (V, 3) and faces (F, 3) of the cube of half side 1.

    ``cells`` is the number of cells along each side of a face's flat part.
    """
    bevel = scenes.BEVEL["cube"]
    angles = np.linspace(0, np.pi / 4, _ARC + 1)
    # Along each axis of a face: the flat part's two ends, and beyond each the bevel up to its middle.
    core = np.r_[-np.ones(_ARC), np.linspace(-1, 1, cells + 1), np.ones(_ARC)] * (1 - bevel)
    slope = np.r_[-np.tan(angles[::-1]), np.zeros(cells - 1), np.tan(angles)]
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


@dataclasses.dataclass(frozen=True)
class Look:
    """Lights, ground and materials.

    Attributes
    ----------
    watts
        Of the lamps "key", "fill" and "back".
    push
        Factor of each lamp's distance and side; radiance does not change with it.
    sun
        Direction of the sun, and its irradiance on a surface that faces it, in the lamps' watts a unit of area.
    sun_shape
        "rectangle" or "disk".
    ambient
        Radiance of the constant environment; 0 for none.
    ground
        "rectangle": flat; "backdrop": curved upwards behind the objects.
    prefix
        Of the names of the solids' mesh files in ``files``.
    rubber, metal
        Materials of a color.
    """

    watts: dict[str, float]
    push: dict[str, float]
    sun: tuple[tuple[float, float, float], float]
    sun_shape: str
    ambient: float
    ground: str
    prefix: str
    rubber: Callable[[Color], dict]
    metal: Callable[[Color], dict]


_LAMPS = {  # color and side
    "key": ((1.0, 0.932, 0.817), 0.5),
    "fill": ((0.762, 0.818, 1.0), 0.5),
    "back": ((1.0, 1.0, 1.0), 1.0),
}
_SUN_ANGLE = 0.2  # diameter in radians, which softens its shadows
_SUN_DISTANCE = 300.0  # far enough that it lights the whole ground alike
_GROUND = 0.8
_GROUND_SIZE = 60.0


def world(scene: dict, look: Look, transform) -> dict:
    """Return a scene of ``scenes.sample_scene`` without its lamps and its camera, for ``mitsuba.load_dict``.

    ``transform`` is Mitsuba's class ``ScalarTransform4f``. The objects' names are ``object_0``, ``object_1``, ...
    """
    found: dict[str, dict] = {
        "integrator": {"type": "volpath", "max_depth": 9}  # the only integrator that sees lamps through lamps
    }
    for index, item in enumerate(scene["objects"]):
        size = scenes.solid_scale(item["shape"], vocabulary.SIZES[item["size"]])
        place = transform().translate(item["3d_coords"]).rotate([0, 0, 1], item["rotation"]).scale(size)
        if item["shape"] == "sphere":
            solid = {"type": "sphere"}
        else:
            solid = {"type": "ply", "filename": files()[look.prefix + item["shape"]]}
        material = look.metal if item["material"] == "metal" else look.rubber
        color = [component / 255 for component in vocabulary.COLORS[item["color"]]]
        found[f"object_{index}"] = {**solid, "to_world": place, "bsdf": material(color)}
    ground = {"type": "diffuse", "reflectance": {"type": "rgb", "value": _GROUND}}
    if look.ground == "backdrop":
        found["ground"] = {"type": "ply", "filename": files()["backdrop"], "bsdf": ground}
    else:
        flat = transform().scale([_GROUND_SIZE, _GROUND_SIZE, 1])
        found["ground"] = {"type": "rectangle", "to_world": flat, "bsdf": ground}
    if look.ambient:
        found["ambient"] = {"type": "constant", "radiance": {"type": "rgb", "value": look.ambient}}
    return found


def lights(scene: dict, look: Look, transform) -> dict:
    """Return the lamps and the sun: surfaces that emit light on one side and are transparent from both.

    Parameters and result are those of ``world``.
    """
    found = {}
    for name, (color, side) in _LAMPS.items():
        radiance = look.watts[name] / (math.pi * side**2)  # of a Lambertian lamp of that power
        push = look.push[name]
        at = [component * push for component in scene["lights"][name]]
        scale = side * push / 2
        found[name] = _lamp("rectangle", at, scale, [radiance * component for component in color], transform)
    direction, irradiance = look.sun
    length = math.hypot(*direction)
    at = [component * _SUN_DISTANCE / length for component in direction]
    solid_angle = math.pi * (_SUN_ANGLE / 2) ** 2
    area = {"rectangle": 4.0, "disk": math.pi}[look.sun_shape]  # of the shape of scale 1
    scale = _SUN_DISTANCE * math.sqrt(solid_angle / area)
    found["sun"] = _lamp(look.sun_shape, at, scale, [irradiance / solid_angle] * 3, transform)
    return found


def _lamp(shape: str, at: Color, scale: float, radiance: Color, transform) -> dict:
    """Return a surface that emits light towards the origin and casts no shadow."""
    return {
        "type": shape,
        "to_world": transform().look_at(origin=at, target=[0, 0, 0], up=[0, 0, 1]) @ transform().scale(scale),
        "bsdf": {"type": "null"},
        "emitter": {"type": "area", "radiance": {"type": "rgb", "value": radiance}},
    }


def _conductor(color: Color, **roughness: float) -> dict:
    return {
        "type": "roughconductor",
        "distribution": "ggx",
        "material": "none",
        "specular_reflectance": {"type": "rgb", "value": color},
        **roughness,
    }


def _kubric_rubber(color: Color) -> dict:
    return {
        "type": "principled",
        "base_color": {"type": "rgb", "value": color},
        "roughness": 0.7,
        "specular": 0.33,
    }


def _kubric_metal(color: Color) -> dict:
    return {
        "type": "blendbsdf",
        "weight": 0.4,
        "rough": _conductor(color, alpha=0.2),
        "smooth": _conductor(color, alpha=0.06),
    }


def _matched_rubber(color: Color) -> dict:
    """Return a diffuse surface under a thin gray gloss.

    The authors' rubber mixes a diffuse and a velvet surface under a Beckmann gloss of this roughness, by Fresnel's
    weights. A constant weight and a higher index of refraction, both fitted, replace them.
    """
    return {
        "type": "blendbsdf",
        "weight": 0.06,
        "diffuse": {"type": "diffuse", "reflectance": {"type": "rgb", "value": color}},
        # With k = 0, Fresnel's reflection at a dielectric.
        "gloss": {"type": "roughconductor", "distribution": "beckmann", "alpha": 0.35, "eta": 3.2, "k": 0.0},
    }


def _matched_metal(color: Color) -> dict:
    """Return the authors' metal; roughness is longer across the horizontal tangent, by Cycles' formula."""
    anisotropy = 0.25
    rough, smooth = (
        _conductor(color, alpha_u=alpha * (1 - anisotropy), alpha_v=alpha / (1 - anisotropy)) for alpha in (0.2, 0.01)
    )
    return {"type": "blendbsdf", "weight": 0.6, "rough": rough, "smooth": smooth}


LOOKS = {
    "kubric": Look(
        watts={"key": 78.5, "fill": 23.6, "back": 39.3},
        push={"key": 1.25, "fill": 1.5, "back": 1.0},  # no lamp is visible from its bright side in 200,000 scenes
        sun=((11.6608, -6.62799, 25.8232), 0.45),
        sun_shape="rectangle",
        ambient=0.03,  # with it every row of the ground is within 8 gray levels of the two real pictures measured
        ground="rectangle",
        prefix="",
        rubber=_kubric_rubber,
        metal=_kubric_metal,
    ),
    "matched": Look(
        watts={"key": 75.85, "fill": 23.1, "back": 37.7},  # 78.54, 23.56 and 39.27 in the authors' scene
        push={"key": 1.0, "fill": 1.0, "back": 1.0},
        sun=((0.4145, -0.1946, 0.8890), 0.4615),  # 0.45 in the authors' scene
        sun_shape="disk",
        ambient=0.0,
        ground="backdrop",
        prefix="oriented_",
        rubber=_matched_rubber,
        metal=_matched_metal,
    ),
}


def render(
    scene: dict, width: int, height: int, samples: int = SAMPLES, look: str = LOOK
) -> tuple[np.ndarray, np.ndarray]:
    """Render a scene.

    Parameters
    ----------
    scene
        As ``scenes.sample_scene`` returns it.
    width, height
        Of the image in pixels, 3 to 2 as the original's 480 x 320.
    samples
        Light paths a pixel, a square number.
    look
        Lights and materials, a name in ``LOOKS``. Indices do not depend on it.

    Returns
    -------
    image : (height, width, 3) uint8
        sRGB.
    indices : (height, width) int16
        The object that each pixel's centre sees, -1 for the background.

    Raises
    ------
    BadInput
        For an unknown look, or without the extra ``render``.
    """
    if look not in LOOKS:
        raise BadInput(f"no look {look!r}; these exist: {listed(LOOKS)}")
    return _isolated(_render, scene, width, height, samples, look)


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


def _render(scene, width, height, samples, look):
    world = _load(_lit_world(scene, LOOKS[look]), _sensor(scene, width, height, samples))
    light = _rendered(world, world.integrator(), spp=samples, seed=scene["image_index"])[..., :3]
    image = np.round(_srgb(_denoise(light)) * 255).astype(np.uint8)
    return image, _render_indices(scene, width, height)


def _lit_world(scene, look: Look) -> dict:
    transform = _mitsuba().ScalarTransform4f
    return {**world(scene, look, transform), **lights(scene, look, transform)}


def _load(world: dict, sensor: dict):
    """Return a scene of Mitsuba."""
    return _mitsuba().load_dict(
        {"type": "scene", **world, "sensor": sensor},
        parallel=False,
        optimize=False,  # merging meshes of one material would lose objects and their order
    )


def _render_indices(scene, width, height) -> np.ndarray:
    """Trace one ray through each pixel's centre, without lamps, which would hide objects; -1 for the background."""
    mitsuba = _mitsuba()
    traced = _load(world(scene, LOOKS[LOOK], mitsuba.ScalarTransform4f), _sensor(scene, width, height, 1))
    sensor = mitsuba.load_dict(
        {
            **_sensor(scene, width, height, 1),
            "sampler": {"type": "stratified", "sample_count": 1, "jitter": False},
        }
    )
    integrator = mitsuba.load_dict({"type": "aov", "aovs": "index:shape_index"})
    position = _rendered(traced, integrator, sensor=sensor, spp=1)[..., -1]
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
    palette = np.array([scenes.BACKGROUND, *scenes.MASK_COLORS], np.uint8)
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
        _load_threading_library()
        for package in ("mitsuba", "oidn"):
            importlib.import_module(package)
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


def _load_threading_library() -> None:
    """Load the threading library in the denoiser's folder, where Linux' loader does not search."""
    package = importlib.util.find_spec("oidn")
    for folder in package.submodule_search_locations if package else ():
        for library in sorted(pathlib.Path(folder).glob("lib.linux.x64/libtbb.so*")):
            ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


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


def _srgb(light: np.ndarray) -> np.ndarray:
    """Return linear light as sRGB in [0, 1] (IEC 61966-2-1)."""
    light = np.clip(light, 0.0, 1.0)
    return np.where(light <= 0.0031308, light * 12.92, 1.055 * light ** (1 / 2.4) - 0.055)


def check_available() -> None:
    """Raise ``BadInput`` in one line when the extra ``render`` is not installed."""
    for package in ("mitsuba", "oidn"):
        if importlib.util.find_spec(package) is None:
            raise BadInput(_needed(f"no module named '{package}'"))
