"""What a CLEVR world consists of: attributes, relations, their words, and the 28 possible answers.

Johnson et al., "CLEVR: A Diagnostic Dataset for Compositional Language and Elementary Visual Reasoning",
CVPR 2017. JSON keys and values keep CLEVR's spelling ("color", "gray").
"""

from __future__ import annotations

SIZES = {"large": 0.7, "small": 0.35}  # radius in scene units
COLORS = {  # red, green, blue in 0..255, used linear by the renderer
    "gray": (87, 87, 87),
    "red": (173, 35, 35),
    "blue": (42, 75, 215),
    "green": (29, 105, 20),
    "brown": (129, 74, 25),
    "purple": (129, 38, 192),
    "cyan": (41, 208, 208),
    "yellow": (255, 238, 51),
}
MATERIALS = ("rubber", "metal")
SHAPES = ("cube", "sphere", "cylinder")
RELATIONS = ("left", "right", "behind", "front")

# In the order in which a noun phrase names them and a program filters by them.
ATTRIBUTES = {
    "size": tuple(SIZES),
    "color": tuple(COLORS),
    "material": MATERIALS,
    "shape": SHAPES,
}
INTEGERS = tuple(range(11))

# Every way a question may put a value; the first is the value's plain name.
SYNONYMS = {
    "thing": ("thing", "object"),  # the noun of a phrase that names no shape
    "cube": ("cube", "block"),
    "sphere": ("sphere", "ball"),
    "cylinder": ("cylinder",),
    "large": ("large", "big"),
    "small": ("small", "tiny"),
    "metal": ("metal", "metallic", "shiny"),
    "rubber": ("rubber", "matte"),
    "left": ("left of", "to the left of", "on the left side of"),
    "right": ("right of", "to the right of", "on the right side of"),
    "behind": ("behind",),
    "front": ("in front of",),
}

# The 80 words of CLEVR's questions, in both wordings.
QUESTION_WORDS = tuple(
    """
    a an another any anything are as and ball balls behind big block blocks blue both brown color cube cubes
    cyan cylinder cylinders do does either else equal fewer front gray greater green has have how in is it its
    large left less made many material matte metal metallic more number object objects of on or other purple
    red right rubber same shape shiny side size small sphere spheres than that the there thing things tiny to
    visible what yellow
    """.split()
)

ANSWERS = (
    "yes",
    "no",
    *map(str, INTEGERS),
    *SHAPES,
    *COLORS,
    *SIZES,
    *MATERIALS,
)


def answer_text(answer: bool | int | str) -> str:
    """Return an answer as one of the 28 words of ``ANSWERS``.

    Parameters
    ----------
    answer
        As the questions' JSON holds it: true or false, an integer, or a word.

    Raises
    ------
    ValueError
        If it is none of the 28.
    """
    text = {True: "yes", False: "no"}[answer] if isinstance(answer, bool) else str(answer)
    if text not in ANSWERS:
        raise ValueError(f"{answer!r} is no answer of CLEVR; these are: {', '.join(ANSWERS)}")
    return text
