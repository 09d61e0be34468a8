"""The solids as distance functions, and the meshes that follow them."""

import numpy as np
import pytest

from clevr_xai.generation import meshes, shapes


@pytest.mark.parametrize("shape", ["sphere", "cube", "cylinder"])
def test_a_distance_changes_as_fast_as_the_point_moves(shape):
    points = np.random.default_rng(0).uniform(-2, 2, (500, 3))
    distance = shapes.distance(shape, points)
    gradient = np.stack(
        [(shapes.distance(shape, points + step) - distance) / 1e-6 for step in np.eye(3) * 1e-6], axis=1
    )
    outside = distance > 0.01
    np.testing.assert_allclose(np.linalg.norm(gradient[outside], axis=1), 1, atol=1e-4)
    assert (distance >= np.linalg.norm(points, axis=1) - shapes.BOUNDING_RADIUS[shape] - 1e-12).all()


def test_known_distances():
    bevel = shapes.BEVEL["cube"]
    points = np.array([[2.0, 0, 0], [0, 0, 0], [1, 0.5, -0.3], [2, 2, 0]])
    edge = np.sqrt(2) * (1 + bevel) - bevel
    np.testing.assert_allclose(shapes.distance("cube", points), [1, -1, 0, edge], atol=1e-15)
    np.testing.assert_allclose(shapes.distance("cylinder", points[:2]), [1, -1])
    np.testing.assert_allclose(shapes.distance("sphere", points[:2]), [1, -1])


@pytest.mark.parametrize("shape", ["cube", "cylinder"])
def test_a_mesh_lies_on_the_surface_with_its_normals(shape):
    vertices, normals, _ = getattr(meshes, shape)()
    np.testing.assert_allclose(shapes.distance(shape, vertices), 0, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1)
    np.testing.assert_allclose(shapes.distance(shape, vertices + 0.1 * normals), 0.1, atol=1e-12)


@pytest.mark.parametrize("shape", ["cube", "cylinder"])
def test_a_mesh_is_closed_and_turned_outward(shape):
    vertices, normals, faces = getattr(meshes, shape)()
    corners = vertices[faces]
    area = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    np.testing.assert_allclose(area.sum(axis=0), 0, atol=1e-9)  # a closed surface has no net area
    real = np.linalg.norm(area, axis=1) > 1e-9
    assert (np.einsum("fi,fi->f", area, normals[faces].mean(axis=1))[real] > 0).all()
    # Steiner's formula: a solid widened by a ball has the volume V + A b + M b^2 + 4/3 pi b^3.
    bevel = shapes.BEVEL[shape]
    core = 1 - bevel
    if shape == "cube":
        volume, surface, curvature = 8 * core**3, 24 * core**2, 6 * np.pi * core
    else:
        volume, surface = 2 * np.pi * core**3, 6 * np.pi * core**2
        curvature = np.pi**2 * core + 2 * np.pi * core
    expected = volume + surface * bevel + curvature * bevel**2 + 4 / 3 * np.pi * bevel**3
    measured = np.einsum("fi,fi->", corners[:, 0], area) / 6
    assert expected * 0.995 < measured <= expected  # flat faces stay inside the round surface
