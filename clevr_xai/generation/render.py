"""Images of scenes and the masks that fit them to the pixel, with Mitsuba 3 and Open Image Denoise.

Needs the extra ``render``. One process renders with one thread; the same scene gives the same bytes in every
process. Light and materials follow CLEVR's Blender scene: a sun, three area lamps of so many watts, a pale ground,
dull rubber and metal that mirrors its surroundings. Positions, colours and watts are CLEVR's; the sun and the
materials are as Kubric (Greff et al. 2022) gives them in its own rendition of that scene.
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

from attribution.errors import BadInput
from attribution.file_io.files import temporary_directory
from clevr_xai import vocabulary
from clevr_xai.generation import camera, meshes, scenes, shapes

SAMPLES = 16  # a pixel; four scenes of 192 x 128 came within 41 to 46 dB of their renders with 256
# CLEVR's area lamps: watts, colour, side of the square, and how much further away it stands and larger it is here,
# so that none is seen from its bright side (none in 200,000 scenes).
_LAMPS = {
    "key": (78.5, (1.0, 0.932, 0.817), 0.5, 1.25),
    "fill": (23.6, (0.762, 0.818, 1.0), 0.5, 1.5),
    "back": (39.3, (1.0, 1.0, 1.0), 1.0, 1.0),
}
_SUN = (11.6608, -6.62799, 25.8232)  # where it shines from
_SUN_IRRADIANCE = 0.45  # on a surface that faces it; it alone reaches the ground far behind
_SUN_ANGLE = 0.2  # radians from rim to rim, which softens its shadows
_SUN_DISTANCE = 300.0  # far enough that it lights the whole ground alike
_AMBIENT = 0.03  # with it every row of the ground is within 8 gray levels of the two real pictures measured
_GROUND = 0.8
_GROUND_SIZE = 60.0


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
    return _apart(_render, scene, width, height, samples)


def render_indices(scene: dict, width: int, height: int) -> np.ndarray:
    """Return which object each pixel sees, as ``render`` does, without the image."""
    return _apart(_render_indices, scene, width, height)


def _apart(function, *arguments):
    """Call a function, in a process of its own where TensorFlow is loaded.

    A process that loads TensorFlow first and Mitsuba after it renders well, and aborts when it exits.
    """
    if "tensorflow" not in sys.modules:
        return function(*arguments)
    return _process().submit(function, *arguments).result()


@functools.cache
def _process() -> concurrent.futures.Executor:
    """Return a process without TensorFlow; it ends with this one."""
    return concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


def _render(scene, width, height, samples):
    world = _load({**_world(scene), **_lights(scene)}, _sensor(scene, width, height, samples))
    light = _rendered(world, world.integrator(), spp=samples, seed=scene["image_index"])[..., :3]
    image = np.round(_srgb(denoise(light)) * 255).astype(np.uint8)
    return image, _render_indices(scene, width, height)


def _load(world: dict, sensor: dict):
    """Return a scene as Mitsuba holds it."""
    return _mitsuba().load_dict(
        {"type": "scene", **world, "sensor": sensor},
        parallel=False,
        optimize=False,  # merging meshes of one material would lose objects and their order
    )


def _render_indices(scene, width, height) -> np.ndarray:
    """Trace one ray through each pixel's centre; -1 where it meets no object. A lamp would hide what is behind it."""
    mitsuba, world = _mitsuba(), _load(_world(scene), _sensor(scene, width, height, 1))
    sensor = mitsuba.load_dict(
        {
            **_sensor(scene, width, height, 1),
            "sampler": {"type": "stratified", "sample_count": 1, "jitter": False},
        }
    )
    integrator = mitsuba.load_dict({"type": "aov", "aovs": "index:shape_index"})
    position = _rendered(world, integrator, sensor=sensor, spp=1)[..., -1]
    # Positions count from 1, in the order of the scene's shapes; 0 is nothing at all.
    objects = {f"object_{index}": index for index in range(len(scene["objects"]))}
    index_of = np.array([-1] + [objects.get(shape.id(), -1) for shape in world.shapes()], np.int16)
    return index_of[np.round(position).astype(int)]


def _rendered(world, integrator, **settings) -> np.ndarray:
    """Return what Mitsuba renders, (height, width, channels) float32, whole or not at all.

    Mitsuba takes SIGINT for itself while it renders, even in a process that ignores it, and returns what it has.

    Raises
    ------
    KeyboardInterrupt
        If that happened.
    """
    light = np.array(_mitsuba().render(world, integrator=integrator, **settings), np.float32)
    if integrator.should_stop():
        raise KeyboardInterrupt
    return light


def mask_image(indices: np.ndarray) -> Image.Image:
    """Return an index image as an RGB picture of flat colours on gray, as the release's own readers expect."""
    palette = np.array([scenes.BACKGROUND, *scenes.MASK_COLORS], np.uint8)
    return Image.fromarray(palette[indices + 1])


def denoise(light: np.ndarray) -> np.ndarray:
    """Return an (H, W, 3) float32 image of linear light without its Monte Carlo noise, the same every time."""
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
    drjit.set_thread_count(0)  # none beside it: the calling thread does all the work
    mitsuba.set_log_level(mitsuba.LogLevel.Error)
    return mitsuba


def _needed(reason) -> str:
    return (
        f"rendering needs Mitsuba and Open Image Denoise ({reason}); install the extra 'render': "
        "pip install 'attribution-benchmarks[render]', or pip install -e '.[render]' in a checkout"
    )


def _load_threading_library() -> None:
    """Load the threading library that lies beside the denoiser: on Linux the loader does not look there."""
    package = importlib.util.find_spec("oidn")
    for folder in package.submodule_search_locations if package else ():
        for library in sorted(pathlib.Path(folder).glob("lib.linux.x64/libtbb.so*")):
            ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


@functools.cache
def _denoiser():
    """Return a device of one thread and the library itself, for the settings its Python binding leaves out."""
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


@functools.cache
def _mesh_files() -> tuple[tempfile.TemporaryDirectory, dict[str, str]]:
    """Write the meshes once a process; the directory goes when the process ends."""
    folder = temporary_directory("meshes")
    files = {}
    for name, build in (("cube", meshes.cube), ("cylinder", meshes.cylinder)):
        files[name] = str(pathlib.Path(folder.name) / f"{name}.ply")
        meshes.write_ply(pathlib.Path(files[name]), *build())
    return folder, files


def _sensor(scene, width, height, samples) -> dict:
    mitsuba = _mitsuba()
    return {
        "type": "perspective",
        "fov": camera.FIELD_OF_VIEW,
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


def _world(scene) -> dict:
    """Return the scene without its lamps and its camera, in the dictionary form of Mitsuba."""
    mitsuba = _mitsuba()
    transform = mitsuba.ScalarTransform4f
    world = {"integrator": {"type": "volpath", "max_depth": 9}}  # of all, it sees lamps through lamps
    for index, item in enumerate(scene["objects"]):
        size = shapes.scale(item["shape"], vocabulary.SIZES[item["size"]])
        place = transform().translate(item["3d_coords"]).rotate([0, 0, 1], item["rotation"]).scale(size)
        if item["shape"] == "sphere":
            solid = {"type": "sphere"}
        else:
            solid = {"type": "ply", "filename": _mesh_files()[1][item["shape"]]}
        world[f"object_{index}"] = {**solid, "to_world": place, "bsdf": _material(item)}
    world["ground"] = {
        "type": "rectangle",
        "to_world": transform().scale([_GROUND_SIZE, _GROUND_SIZE, 1]),
        "bsdf": {"type": "diffuse", "reflectance": {"type": "rgb", "value": _GROUND}},
    }
    world["ambient"] = {"type": "constant", "radiance": {"type": "rgb", "value": _AMBIENT}}
    return world


def _lights(scene) -> dict:
    """Return the scene's lamps and the sun: squares that shine on one side and are transparent from both."""
    lights = {}
    for name, (watts, color, side, push) in _LAMPS.items():
        radiance = watts / (math.pi * side**2)  # of a lamp that gives off so many watts by Lambert's law
        at = [component * push for component in scene["lights"][name]]
        lights[name] = _lamp(at, side * push, [radiance * component for component in color])
    length = math.hypot(*_SUN)
    at = [component * _SUN_DISTANCE / length for component in _SUN]
    solid_angle = math.pi * (_SUN_ANGLE / 2) ** 2
    lights["sun"] = _lamp(at, _SUN_DISTANCE * math.sqrt(solid_angle), [_SUN_IRRADIANCE / solid_angle] * 3)
    return lights


def _lamp(at, side: float, radiance) -> dict:
    """Return a square that shines towards the origin and throws no shadow."""
    transform = _mitsuba().ScalarTransform4f
    return {
        "type": "rectangle",
        "to_world": transform().look_at(origin=at, target=[0, 0, 0], up=[0, 0, 1]) @ transform().scale(side / 2),
        "bsdf": {"type": "null"},
        "emitter": {"type": "area", "radiance": {"type": "rgb", "value": radiance}},
    }


def _material(item) -> dict:
    color = [component / 255 for component in vocabulary.COLORS[item["color"]]]
    reflectance = {"type": "rgb", "value": color}
    if item["material"] == "rubber":
        return {
            "type": "principled",
            "base_color": reflectance,
            "roughness": 0.7,
            "specular": 0.33,
        }
    conductor = {
        "type": "roughconductor",
        "distribution": "ggx",
        "material": "none",
        "specular_reflectance": reflectance,
    }
    return {
        "type": "blendbsdf",
        "weight": 0.4,
        "rough": {**conductor, "alpha": 0.2},
        "smooth": {**conductor, "alpha": 0.06},
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
