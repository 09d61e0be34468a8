"""Print the linear light of the ground in the picture's middle, lit by the lamp that is named, as JSON.

Mitsuba and TensorFlow in one process crash, so this is a process without TensorFlow.
"""

import json
import sys

import numpy as np

from clevr_xai.generation import _render, scenes

if __name__ == "__main__":
    mitsuba = _render._mitsuba()
    scene = scenes.sample_scene(3, 0) | {"objects": []}
    shapes = _render.world(scene)
    integrator = {"type": "volpath", "max_depth": 2, "rr_depth": 1000}
    lit = {"ground": shapes["ground"], "lamp": shapes[sys.argv[1]], "integrator": integrator}
    world = mitsuba.load_dict({"type": "scene", **lit, "sensor": _render._sensor(scene, 96, 64, 64)})
    print(json.dumps(np.array(mitsuba.render(world, spp=64))[30:34, 46:50, :3].mean(axis=(0, 1)).tolist()))
