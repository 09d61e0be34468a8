"""Meshes of the bevelled cube and cylinder, in the form that ``shapes.distance`` describes, as PLY files.

A bevelled solid is a smaller one with a ball rolled over it: every surface point is a point of the smaller
solid plus the bevel's radius along the normal. So positions follow from normals, and normals are exact.
"""

from __future__ import annotations

import pathlib

import numpy as np

from clevr_xai.generation.shapes import BEVEL

_ARC = 8  # segments of a bevel's quarter circle
_TURN = 96  # segments around the cylinder


def write_ply(path: pathlib.Path, vertices: np.ndarray, normals: np.ndarray, faces: np.ndarray) -> None:
    """Write a mesh as binary PLY.

    Parameters
    ----------
    path
        File to write.
    vertices, normals : (V, 3) float
    faces : (F, 3) int
        Indices of vertices, counter-clockwise seen from outside.
    """
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


def cube() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return vertices (V, 3), normals (V, 3) and faces (F, 3) of the cube of half side 1."""
    bevel = BEVEL["cube"]
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
            turn = np.zeros((3, 3))  # a rotation: it keeps the faces' orientation
            turn[(axis + 1) % 3, 0], turn[(axis + 2) % 3, 1], turn[axis, 2] = sign, 1, sign
            sides.append((vertices @ turn.T, normals @ turn.T))
    count = len(vertices)
    return (
        np.concatenate([side[0] for side in sides]),
        np.concatenate([side[1] for side in sides]),
        np.concatenate([grid + count * number for number in range(6)]),
    )


def cylinder() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return vertices (V, 3), normals (V, 3) and faces (F, 3) of the cylinder of radius and half height 1."""
    bevel = BEVEL["cylinder"]
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
