"""Looks: the lights and materials of a scene's picture, in the dictionary form of Mitsuba.

Both follow CLEVR's Blender scene: a sun, three square lamps, a pale ground, rubber and metal. Colors are linear,
CLEVR's 8-bit values over 255.

``kubric`` has the sun and the materials of Kubric's rendition (Greff et al. 2022) on a flat ground with a constant
ambient light. ``matched`` has the lamps at their places in the authors' scene, its curved backdrop and its metal: two
anisotropic GGX lobes. Its four powers and the two free parameters of its rubber were fitted to Blender's renders of
20 scenes; docs/clevr_xai_data.md has its distance from Blender's and the networks' accuracy on it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from clevr_xai import vocabulary
from clevr_xai.generation import geometry, meshes

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
        Of the names of the solids' mesh files in ``meshes.files``.
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
    """Return a scene without its lamps and its camera.

    Parameters
    ----------
    scene
        As ``scenes.sample_scene`` returns it.
    look
    transform
        Mitsuba's class ``ScalarTransform4f``.

    Returns
    -------
    dict
        Of ``mitsuba.load_dict``. The objects' names are ``object_0``, ``object_1``, ...
    """
    found: dict[str, dict] = {
        "integrator": {"type": "volpath", "max_depth": 9}  # the only integrator that sees lamps through lamps
    }
    for index, item in enumerate(scene["objects"]):
        size = geometry.solid_scale(item["shape"], vocabulary.SIZES[item["size"]])
        place = transform().translate(item["3d_coords"]).rotate([0, 0, 1], item["rotation"]).scale(size)
        if item["shape"] == "sphere":
            solid = {"type": "sphere"}
        else:
            solid = {"type": "ply", "filename": meshes.files()[look.prefix + item["shape"]]}
        material = look.metal if item["material"] == "metal" else look.rubber
        color = [component / 255 for component in vocabulary.COLORS[item["color"]]]
        found[f"object_{index}"] = {**solid, "to_world": place, "bsdf": material(color)}
    ground = {"type": "diffuse", "reflectance": {"type": "rgb", "value": _GROUND}}
    if look.ground == "backdrop":
        found["ground"] = {"type": "ply", "filename": meshes.files()["backdrop"], "bsdf": ground}
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
