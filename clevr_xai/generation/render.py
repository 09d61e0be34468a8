"""Images of scenes and pixel-exact masks, with Mitsuba 3 and Open Image Denoise.

Needs the extra ``render``. One process renders with one thread; the same scene gives the same bytes in every
process. Light and materials are those of a look (``looks``). Masks do not depend on it.
"""

from __future__ import annotations

import concurrent.futures
import ctypes
import functools
import importlib
import importlib.util
import multiprocessing
import pathlib
import sys

import numpy as np
from PIL import Image

from attribution.errors import BadInput, listed
from clevr_xai.generation import looks, scenes

SAMPLES = 16  # a pixel; four scenes of 192 x 128 came within 41 to 46 dB of their renders with 256
LOOK = "kubric"  # of the embedded images


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
        Lights and materials, a name in ``looks.LOOKS``. Indices do not depend on it.

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
    if look not in looks.LOOKS:
        raise BadInput(f"no look {look!r}; these exist: {listed(looks.LOOKS)}")
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
    world = _load(_lit_world(scene, looks.LOOKS[look]), _sensor(scene, width, height, samples))
    light = _rendered(world, world.integrator(), spp=samples, seed=scene["image_index"])[..., :3]
    image = np.round(_srgb(_denoise(light)) * 255).astype(np.uint8)
    return image, _render_indices(scene, width, height)


def _lit_world(scene, look: looks.Look) -> dict:
    transform = _mitsuba().ScalarTransform4f
    return {**looks.world(scene, look, transform), **looks.lights(scene, look, transform)}


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
    world = _load(looks.world(scene, looks.LOOKS[LOOK], mitsuba.ScalarTransform4f), _sensor(scene, width, height, 1))
    sensor = mitsuba.load_dict(
        {
            **_sensor(scene, width, height, 1),
            "sampler": {"type": "stratified", "sample_count": 1, "jitter": False},
        }
    )
    integrator = mitsuba.load_dict({"type": "aov", "aovs": "index:shape_index"})
    position = _rendered(world, integrator, sensor=sensor, spp=1)[..., -1]
    # Positions count from 1, in the order of the scene's shapes; 0 is the background.
    objects = {f"object_{index}": index for index in range(len(scene["objects"]))}
    index_of = np.array([-1] + [objects.get(shape.id(), -1) for shape in world.shapes()], np.int16)
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
    return (
        f"rendering needs Mitsuba and Open Image Denoise ({reason}); install the extra 'render': "
        "pip install 'attribution-benchmarks[render]', or pip install -e '.[render]' in a checkout"
    )


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
