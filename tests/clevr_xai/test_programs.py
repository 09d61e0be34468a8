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


def run(*nodes):
    return programs.execute(list(nodes), SCENE)


def test_every_kind_of_node():
    assert run(node("scene")) == [[0, 1, 2]]
    spheres = (node("scene"), node("filter_shape", 0, value="sphere"))
    assert run(*spheres, node("count", 1)) == [[0, 1, 2], [1, 2], 2]
    assert run(*spheres, node("filter_color", 1, value="red"), node("unique", 2), node("query_size", 3))[-2:] == [
        1,
        "small",
    ]
    blue = (node("scene"), node("filter_color", 0, value="blue"), node("unique", 1))
    assert run(*blue, node("relate", 2, value="left"))[-1] == [0, 1]
    assert run(*blue, node("relate", 2, value="front"), node("exist", 3))[-1] is False
    assert run(*blue, node("same_shape", 2))[-1] == [1]
    assert run(*blue, node("same_material", 2))[-1] == [0]
    red = (node("scene"), node("filter_color", 3, value="red"))
    assert run(
        node("scene"),
        node("scene"),
        *spheres[:1],
        node("scene"),
        node("filter_color", 3, value="red"),
        node("filter_shape", 0, value="sphere"),
        node("union", 4, 5),
        node("intersect", 4, 5),
    )[-2:] == [[0, 1, 2], [1]]
    assert len(red) == 2
    for kind, expected in (("equal_integer", False), ("less_than", True), ("greater_than", False)):
        counts = [
            node("scene"),
            node("filter_color", 0, value="blue"),
            node("count", 1),
            node("filter_color", 0, value="red"),
            node("count", 3),
        ]
        assert run(*counts, node(kind, 2, 4))[-1] is expected
    colors = [
        *blue,
        node("query_color", 2),
        node("relate", 2, value="left"),
        node("filter_shape", 4, value="cube"),
        node("unique", 5),
        node("query_color", 6),
    ]
    assert run(*colors, node("equal_color", 3, 7))[-1] is False


def test_the_names_of_public_clevr_are_read():
    program = [
        {"function": "scene", "inputs": [], "value_inputs": []},
        {"function": "count", "inputs": [0], "value_inputs": []},
    ]
    assert programs.answer(program, SCENE) == 3


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ([node("scene"), node("unique", 0)], "'unique' of 3 objects"),
        ([node("scene"), node("filter_color", 0, value="green"), node("unique", 1)], "'unique' of 0 objects"),
        ([node("scene"), node("sum", 0)], "unknown node type 'sum'"),
        ([node("scene"), node("count", 1)], "come after it"),
    ],
)
def test_what_has_no_answer_says_why(program, message):
    with pytest.raises(programs.InvalidProgram, match=message):
        programs.execute(program, SCENE)


def test_degenerate_means_that_a_relation_does_not_matter():
    red_cube = [node("scene"), node("filter_shape", 0, value="cube"), node("unique", 1)]
    # Right of the cube stand all spheres there are: the relation adds nothing.
    idle = [*red_cube, node("relate", 2, value="right"), node("filter_shape", 3, value="sphere"), node("count", 4)]
    assert programs.is_degenerate(idle, SCENE)
    useful = [*red_cube, node("relate", 2, value="front"), node("filter_shape", 3, value="sphere"), node("count", 4)]
    assert not programs.is_degenerate(useful, SCENE)
    # Without the relation the sphere is no longer unique, which is no answer and so another one.
    unique = [*useful[:-1], node("unique", 4), node("query_color", 5)]
    assert not programs.is_degenerate(unique, SCENE)


def test_unused_nodes_are_removed_and_inputs_follow():
    program = [node("scene"), node("filter_color", 0, value="red"), node("scene"), node("count", 2)]
    assert programs.unused_nodes_removed(program) == [node("scene"), node("count", 0)]
