"""Meshes of a scene: the bevelled cube and cylinder, and the curved backdrop.

The solids have the form of ``geometry.distance``. A bevelled solid is a smaller one with a ball rolled over it: every
surface point is a point of the smaller solid plus the bevel's radius along the normal. So positions follow from
normals, and normals are exact.
"""

from __future__ import annotations

import functools
import pathlib
import tempfile

import numpy as np

from attribution.file_io.files import temporary_directory
from clevr_xai.generation import geometry

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
    folder = temporary_directory("meshes")
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
    """Write a mesh as binary PLY.

    Parameters
    ----------
    path
        File to write.
    vertices, normals : (V, 3) float
    faces : (F, 3) int
        Indices of vertices, counter-clockwise seen from outside.
    oriented
        Whether to write texture coordinates: the angle around the vertical axis, and the height, or the radius where
        the surface is nearer to horizontal than to vertical.
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
    bevel = geometry.BEVEL["cube"]
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
    bevel = geometry.BEVEL["cylinder"]
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
