"""Measure with Mitsuba itself what pictures alone do not show, in a process without TensorFlow; prints JSON.

Mitsuba and TensorFlow in one process crash.
"""

import json

import numpy as np

from clevr_xai.generation import _render, scenes


def light(shapes: dict, camera: list[float], max_depth: int, samples: int = 64) -> list[float]:
    """Return the linear light that the middle 16 pixels of a picture see, (3,)."""
    mitsuba = _render._mitsuba()
    integrator = {"type": "volpath", "max_depth": max_depth, "rr_depth": 1000}
    sensor = _render._sensor({"camera": camera}, 96, 64, samples)
    world = mitsuba.load_dict({"type": "scene", **shapes, "integrator": integrator, "sensor": sensor})
    return np.array(mitsuba.render(world, spp=samples))[30:34, 46:50, :3].mean(axis=(0, 1)).tolist()


def lamp(scene: dict, look: str, name: str) -> list[float]:
    """Return the light of the ground in the picture's middle, lit by one lamp."""
    shapes = _render._lit_world(scene, _render.LOOKS[look])
    return light({"ground": shapes["ground"], name: shapes[name]}, scene["camera"], max_depth=2)


def furnace(material: str) -> list[float]:
    """Return the light of a white sphere of the look ``matched`` in light of radiance 1 from everywhere."""
    shapes = {
        "ball": {"type": "sphere", "bsdf": getattr(_render.LOOKS["matched"], material)([1.0, 1.0, 1.0])},
        "furnace": {"type": "constant", "radiance": {"type": "rgb", "value": 1.0}},
    }
    return light(shapes, [0.0, -6.0, 1.0], max_depth=3, samples=256)


def frames(shape: str) -> dict:
    """Return tangents and normals of an oriented solid, (50, 3) each, where rays meet its cap and its side."""
    mitsuba = _render._mitsuba()
    solid = {"type": "ply", "filename": _render.files()[f"oriented_{shape}"]}
    world = mitsuba.load_dict({"type": "scene", "solid": solid})
    found: dict = {part: {"tangents": [], "normals": []} for part in ("cap", "side")}
    for turn in np.linspace(0, 2 * np.pi, 50):
        outward = np.array([np.cos(turn), np.sin(turn), 0.0])
        rays = {"cap": (0.6 * outward + [0, 0, 3], [0, 0, -1]), "side": (3 * outward + [0, 0, 0.3], -outward)}
        for part, (origin, direction) in rays.items():
            seen = world.ray_intersect(mitsuba.Ray3f(list(origin), list(direction)))
            found[part]["tangents"].append(np.array(seen.sh_frame.s).tolist())
            found[part]["normals"].append(np.array(seen.sh_frame.n).tolist())
    return found


if __name__ == "__main__":
    empty = scenes.sample_scene(3, 0) | {"objects": []}
    measured = {
        "lamps": {
            look: {name: lamp(empty, look, name) for name in ("key", "fill", "back", "sun")} for look in _render.LOOKS
        },
        "furnace": {material: furnace(material) for material in ("rubber", "metal")},
        "frames": {shape: frames(shape) for shape in ("cube", "cylinder")},
    }
    print(json.dumps(measured))
