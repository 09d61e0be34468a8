"""The functional language on a scene small enough to answer by hand."""

import pytest

from clevr_xai import programs

SCENE = {
    "objects": [
        {"size": "large", "color": "red", "material": "metal", "shape": "cube"},
        {"size": "small", "color": "red", "material": "rubber", "shape": "sphere"},
        {"size": "small", "color": "blue", "material": "metal", "shape": "sphere"},
    ],
    "relationships": {  # from left to right: 0, 1, 2; from front to behind: 2, 0, 1
        "left": [[], [0], [0, 1]],
        "right": [[1, 2], [2], []],
        "behind": [[1], [], [0, 1]],
        "front": [[2], [0, 2], []],
    },
}


def node(kind, *inputs, value=None):
    return {"type": kind, "inputs": list(inputs), "value_inputs": [] if value is None else [value]}


SCENE_NODE = node("scene")
BLUE = [SCENE_NODE, node("filter_color", 0, value="blue"), node("unique", 1)]
SPHERES = [SCENE_NODE, node("filter_shape", 0, value="sphere")]
RED_AND_SPHERES = [SCENE_NODE, node("filter_color", 0, value="red"), node("filter_shape", 0, value="sphere")]
COUNTS = [
    *(SCENE_NODE, node("filter_color", 0, value="blue"), node("count", 1)),
    *(node("filter_color", 0, value="red"), node("count", 3)),
]
SHAPES = [
    *(*BLUE, node("query_shape", 2)),
    *(node("filter_color", 0, value="red"), node("filter_size", 4, value="small"), node("unique", 5)),
    node("query_shape", 6),
]


@pytest.mark.parametrize(
    ("program", "output"),
    [
        ([SCENE_NODE], [0, 1, 2]),
        (SPHERES, [1, 2]),
        ([*SPHERES, node("filter_material", 1, value="metal")], [2]),
        ([*SPHERES, node("filter_size", 1, value="large")], []),
        ([*SPHERES, node("count", 1)], 2),
        ([*SPHERES, node("exist", 1)], True),
        (BLUE, 2),
        ([*BLUE, node("query_size", 2)], "small"),
        ([*BLUE, node("query_color", 2)], "blue"),
        ([*BLUE, node("query_material", 2)], "metal"),
        ([*BLUE, node("relate", 2, value="left")], [0, 1]),
        ([*BLUE, node("relate", 2, value="front")], []),
        ([*BLUE, node("relate", 2, value="front"), node("exist", 3)], False),
        ([*BLUE, node("same_size", 2)], [1]),
        ([*BLUE, node("same_color", 2)], []),
        ([*BLUE, node("same_shape", 2)], [1]),
        ([*BLUE, node("same_material", 2)], [0]),
        ([*RED_AND_SPHERES, node("union", 1, 2)], [0, 1, 2]),
        ([*RED_AND_SPHERES, node("intersect", 1, 2)], [1]),
        ([*COUNTS, node("equal_integer", 2, 4)], False),
        ([*COUNTS, node("less_than", 2, 4)], True),
        ([*COUNTS, node("greater_than", 2, 4)], False),
        ([*SHAPES, node("equal_shape", 3, 7)], True),
    ],
)
def test_every_kind_of_node(program, output):
    found = programs.execute(program, SCENE)[-1]
    assert found == output and type(found) is type(output)


def test_the_output_of_every_node_is_kept():
    assert programs.execute([*SPHERES, node("count", 1)], SCENE) == [[0, 1, 2], [1, 2], 2]


def test_the_names_of_public_clevr_are_read():
    program = [
        {"function": "scene", "inputs": [], "value_inputs": []},
        {"function": "count", "inputs": [0], "value_inputs": []},
    ]
    assert programs.execute(program, SCENE)[-1] == 3


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ([node("scene"), node("unique", 0)], "'unique' of 3 objects"),
        ([node("scene"), node("filter_color", 0, value="green"), node("unique", 1)], "'unique' of 0 objects"),
    ],
)
def test_what_has_no_answer_says_why(program, message):
    with pytest.raises(programs.InvalidProgram, match=message):
        programs.execute(program, SCENE)
