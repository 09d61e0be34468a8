"""docs/network_pictures.md: networks explained from the command line, one picture each.

Every network of keras.applications in the zoo explains one drawing, with random weights: what is seen is that it can be
explained, and where its layers look. Two networks that were trained on such drawings show what the maps are for.
"""

from __future__ import annotations

import io
import json
import pathlib
import shlex
import tempfile
from collections.abc import Callable, Iterable

from attribution.errors import BadInput, listed
from attribution.file_io.files import atomic_write
from tools.model_zoo import applications, drawn_scenes
from tools.model_zoo.family import run_python

METHODS = ("gradient_x_input", "lrp_epsilon_plus", "lrp_alpha1beta0", "layer_cam")
METHODS_OF_TRAINED = {
    "efficient": ("integrated_gradients", "lrp_epsilon_plus", "lrp_alpha1beta0", "grad_cam"),
    "transformer": ("integrated_gradients", "lrp_attn", "lrp_epsilon_plus", "gradient_rollout"),
}
NETWORKS = (*drawn_scenes.TRAINED, *(family.name for family in applications.FAMILIES))
_WIDTH, _COLOURS = 760, 256  # of the pictures, small enough for a repository
_HEAD = """# Pictures of networks

Made by `python tools/docs/picture_networks.py`; do not edit. Each picture comes from the command above it, run on a
SavedModel alone: first the input, then a panel a method with its color scale.
"""
_TRAINED = """
## Trained on drawings

Which of four objects ({objects}) stands in a drawn scene? Each object stands in each scene, so the answer is in the
object alone. Maps of a network that has learnt that much point at it.
"""
_APPLICATIONS = """
## keras.applications

Random weights, so that there is nothing to find: what is seen is that each family is explained from its file alone, and
how finely. `layer_cam` stands on the last layer ahead of pooling, which has few positions at so small an input.
"""


def make(names: Iterable[str], folder: pathlib.Path, told: Callable[[str], None], seconds: float = 60.0) -> None:
    """Draw networks that are not drawn yet.

    Parameters
    ----------
    names
        Of ``NETWORKS``; ``BadInput`` for any other.
    folder
        Where pictures and what is said of them are kept, two files a network.
    told
        Is called with each name before it is drawn.
    seconds
        Processor time for which the first two are trained.
    """
    unknown = [name for name in names if name not in NETWORKS]
    if unknown:
        raise BadInput(f"no network '{unknown[0]}'; the networks are {listed(NETWORKS)}")
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        if not (folder / f"{name}.json").exists():
            told(name)
            with tempfile.TemporaryDirectory() as place:
                _draw(name, folder, pathlib.Path(place), seconds)


def page(folder: pathlib.Path) -> tuple[str, list[str]]:
    """Return the page as Markdown, and the names of the networks on it, whose pictures it shows from beside it."""
    files = {name: folder / f"{name}.json" for name in NETWORKS}
    found = {name: json.loads(file.read_text(encoding="utf-8")) for name, file in files.items() if file.exists()}
    objects = ", ".join(name.replace("_", " ") for name in drawn_scenes.OBJECTS)
    parts = [_HEAD]
    for title, trained in ((_TRAINED.format(objects=objects), True), (_APPLICATIONS, False)):
        present = [name for name in found if (name in drawn_scenes.TRAINED) == trained]
        parts += [title] if present else []
        for name in present:
            parts.append(f"\n### {name}\n\n{found[name]['about']}\n\n```text\n{found[name]['command']}\n```\n")
            parts.append(f"\n![{name}](pictures/networks/{name}.png)\n")
    missing = [name for name in NETWORKS if name not in found]
    if missing:
        parts.append(f"\nNot drawn in this run: {', '.join(missing)}.\n")
    return "".join(parts), list(found)


def _draw(name, folder, place, seconds):
    """Write a network and a picture, run the command, keep what it draws."""
    from PIL import Image

    model, classes = place / "network", place / "objects.txt"
    pixels, labels = drawn_scenes.pictures(12, seed=3)
    command = ["python", "-m", "attribution.explain", "--model=network"]
    if name in drawn_scenes.TRAINED:
        build, about = drawn_scenes.TRAINED[name]
        accuracy = drawn_scenes.train(build, model, seconds)
        rows = [drawn_scenes.OBJECTS.index(one) for one in ("dog", "stop_sign", "zebra")]
        about = (
            f"{about[0].upper()}{about[1:]}; {seconds:g} seconds of training; {100 * accuracy:.0f} % of 200 pictures "
            "that it never saw are classified correctly."
        )
        classes.write_text("\n".join(drawn_scenes.OBJECTS), encoding="utf-8")
        command += ["--preprocessing=0..255", "--class_names=objects.txt"]
        methods = METHODS_OF_TRAINED[name]
    else:
        family = next(family for family in applications.FAMILIES if family.name == name)
        family.write(model)
        rows, methods, about = [drawn_scenes.OBJECTS.index("zebra")], METHODS, f"At {family.about}, random weights."
        command.append(f"--preprocessing={'0..255' if family.inputs(1).max() > 1 else '-1..1'}")
    files = [f"{drawn_scenes.OBJECTS[labels[row]]}.png" for row in rows]
    for row, file in zip(rows, files, strict=True):
        Image.fromarray(pixels[row]).save(place / file)
    command += [f"--image={','.join(files)}", f"--methods={','.join(methods)}", f"--output={name}.png"]
    run_python(command[1:], cwd=place)
    atomic_write(folder / f"{name}.png", _small(place / f"{name}.png"))
    said = {"about": about, "command": shlex.join(command)}
    atomic_write(folder / f"{name}.json", json.dumps(said, indent=1))


def _small(path: pathlib.Path) -> bytes:
    """Return a picture as PNG of few pixels and colors."""
    from PIL import Image

    stream = io.BytesIO()
    with Image.open(path) as whole:
        size = _WIDTH, round(whole.height * _WIDTH / whole.width)
        picture = whole.convert("RGB").resize(size, Image.Resampling.LANCZOS)
        picture.quantize(_COLOURS, dither=Image.Dither.NONE).save(stream, format="PNG", optimize=True)
    return stream.getvalue()
