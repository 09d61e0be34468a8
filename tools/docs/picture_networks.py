"""Explain networks from the command line, one picture each, and write docs/network_pictures.md.

python tools/docs/picture_networks.py

Every network of keras.applications in the zoo explains one drawing, with random weights: the picture shows that it can
be explained, and where its layers look. Two small networks are trained for a minute on BIM's drawings, so that their
maps have something to point at: which of four objects is in a scene? Each object is in each scene, so a network that
has learnt to answer looks at the object.

A stopped run resumes: what is drawn is kept in the work folder; remove a file there to draw it again.

Cost: --seconds of training, 60 by default, for each network that is trained, and 19 CPU seconds for a picture of one
like EfficientNetB0.
"""

from __future__ import annotations

import io
import json
import pathlib
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import keras  # noqa: E402
import numpy as np  # noqa: E402
from absl import flags  # noqa: E402
from PIL import Image  # noqa: E402

from attribution import cli  # noqa: E402
from attribution.errors import BadInput, listed  # noqa: E402
from attribution.files import atomic_write  # noqa: E402
from tools.model_zoo import convolutional, transformers  # noqa: E402
from tools.model_zoo.families import APPLICATIONS  # noqa: E402
from tools.model_zoo.family import run_python  # noqa: E402

FLAGS = flags.FlagValues()
flags.DEFINE_list("networks", [], "names of networks; all by default", flag_values=FLAGS)
flags.DEFINE_string("work_dir", str(ROOT / "data" / "pictures"), "folder of what is drawn", flag_values=FLAGS)
flags.DEFINE_string("output_dir", str(ROOT / "docs"), "where the page and its pictures go", flag_values=FLAGS)
flags.DEFINE_float("seconds", 60.0, "of training, for the networks that are trained", flag_values=FLAGS)

OBJECTS = ("dog", "kite", "stop_sign", "zebra")
SCENES = ("bedroom", "bamboo_forest", "runway", "track")
SIDE = 64
_SHAPE = (SIDE, SIDE, 3)
_BOX = (28, 44)  # least and greatest side of an object
METHODS = ("gradient_x_input", "lrp_epsilon_plus", "lrp_alpha1beta0", "layer_cam")
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


def drawings(number: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw objects, which take turns, in scenes.

    Returns
    -------
    pixels : np.ndarray
        ``(number, 64, 64, 3)`` uint8.
    labels : np.ndarray
        ``(number,)`` int32, places in ``OBJECTS``.
    """
    from bim.construct import paste
    from bim.synthetic.draw_objects import draw_object
    from bim.synthetic.draw_scenes import draw_scene

    generator = np.random.default_rng(seed)
    scenes = [draw_scene(SCENES[i % len(SCENES)], generator, SIDE) for i in range(max(4, number // 8))]
    cutouts = [draw_object(OBJECTS[i % len(OBJECTS)], generator, 2 * SIDE) for i in range(max(4, number // 4))]
    labels = (np.arange(number) % len(OBJECTS)).astype(np.int32)
    pixels = np.empty((number, *_SHAPE), np.uint8)
    for row, label in enumerate(labels):
        image, silhouette = cutouts[label + len(OBJECTS) * generator.integers(len(cutouts) // len(OBJECTS))]
        side = generator.integers(*_BOX)
        top, left = generator.integers(0, SIDE - side, 2)
        scene = scenes[generator.integers(len(scenes))]
        pixels[row] = paste(scene, image, silhouette, (top, left, top + side, left + side))
    return pixels, labels


def efficient():
    """Build blocks of EfficientNet: swish, depthwise convolutions, gates."""
    inputs = keras.Input(_SHAPE)
    x = keras.layers.Rescaling(1 / 127.5, -1)(inputs)
    x = keras.layers.Activation("silu")(convolutional.normalized(x, 8, strides=2))
    x = convolutional.inverted_residual(x)
    x = keras.layers.Activation("silu")(convolutional.normalized(x, 24, strides=2))
    x = keras.layers.Activation("silu")(convolutional.normalized(x, 48, strides=2))
    return convolutional.classifier(inputs, x, classes=len(OBJECTS))


def transformer():
    """Build a vision transformer: patches of 8 pixels, three blocks, mean over tokens."""
    layers = keras.layers
    inputs = keras.Input(_SHAPE)
    x = layers.Rescaling(1 / 127.5, -1)(inputs)
    x = layers.Reshape((-1, 48))(layers.Conv2D(48, 8, 8)(x))
    x = transformers.Positions()(x)
    for _ in range(3):
        x = transformers.encoder(x, heads=4)
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x))
    return keras.Model(inputs, layers.Dense(len(OBJECTS))(x))


def train(build, path: pathlib.Path, seconds: float = 60.0, images: int = 2000, steps: int = 0) -> float:
    """Train ``efficient`` or ``transformer`` for some seconds of processor time, and export it.

    Parameters
    ----------
    build
        One of the two functions.
    path
        Where the SavedModel is written.
    seconds, steps
        How long to train: so many steps or, if they are 0, as many as the seconds allow.
    images
        How many pictures to train on, again and again, mirrored at random.

    Returns
    -------
    float
        Accuracy on 200 pictures of drawings that had no part in the training.
    """
    keras.utils.set_random_seed(0)
    pixels, labels = drawings(images, seed=1)
    network = build()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    network.compile(keras.optimizers.AdamW(2e-3, weight_decay=1e-3), loss)
    generator, end, taken = np.random.default_rng(0), time.process_time() + seconds, 0
    while taken < steps if steps else time.process_time() < end:
        taken += 1
        rows = generator.integers(len(pixels), size=64)
        batch = np.where(generator.random((64, 1, 1, 1)) < 0.5, pixels[rows], pixels[rows, :, ::-1])
        network.train_on_batch(batch.astype(np.float32), labels[rows])
    network.export(path, verbose=False)
    unseen, right = drawings(200, seed=2)
    return float((np.asarray(network(unseen.astype(np.float32))).argmax(axis=1) == right).mean())


TRAINED = {  # name: builder, what it is, methods
    "efficient": (
        efficient, "blocks of EfficientNet: swish, depthwise convolutions, gates",
        ("integrated_gradients", "lrp_epsilon_plus", "lrp_alpha1beta0", "grad_cam"),
    ),
    "transformer": (
        transformer, "a vision transformer: patches of 8 pixels, three blocks",
        ("integrated_gradients", "lrp_attn", "lrp_epsilon_plus", "gradient_rollout"),
    ),
}  # fmt: skip
NETWORKS = (*TRAINED, *(family.name for family in APPLICATIONS))


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
    objects = ", ".join(name.replace("_", " ") for name in OBJECTS)
    parts = [_HEAD]
    for title, trained in ((_TRAINED.format(objects=objects), True), (_APPLICATIONS, False)):
        present = [name for name in found if (name in TRAINED) == trained]
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
    model, classes = place / "network", place / "objects.txt"
    pixels, labels = drawings(12, seed=3)
    command = ["python", "-m", "attribution.explain", "--model=network"]
    if name in TRAINED:
        build, about, methods = TRAINED[name]
        accuracy = train(build, model, seconds)
        rows = [OBJECTS.index(one) for one in ("dog", "stop_sign", "zebra")]
        about = (
            f"{about[0].upper()}{about[1:]}; {seconds:g} seconds of training; {100 * accuracy:.0f} % of 200 pictures "
            "that it never saw are classified correctly."
        )
        classes.write_text("\n".join(OBJECTS), encoding="utf-8")
        command += ["--preprocessing=0..255", "--class_names=objects.txt"]
    else:
        family = next(family for family in APPLICATIONS if family.name == name)
        family.write(model)
        rows, methods, about = [OBJECTS.index("zebra")], METHODS, f"At {family.about}, random weights."
        command.append(f"--preprocessing={'0..255' if family.inputs(1).max() > 1 else '-1..1'}")
    files = [f"{OBJECTS[labels[row]]}.png" for row in rows]
    for row, file in zip(rows, files, strict=True):
        Image.fromarray(pixels[row]).save(place / file)
    command += [f"--image={','.join(files)}", f"--methods={','.join(methods)}", f"--output={name}.png"]
    run_python(command[1:], cwd=place)
    atomic_write(folder / f"{name}.png", _small(place / f"{name}.png"))
    said = {"about": about, "command": shlex.join(command)}
    atomic_write(folder / f"{name}.json", json.dumps(said, indent=1))


def _small(path: pathlib.Path) -> bytes:
    """Return a picture as PNG of few pixels and colors."""
    stream = io.BytesIO()
    with Image.open(path) as whole:
        size = _WIDTH, round(whole.height * _WIDTH / whole.width)
        picture = whole.convert("RGB").resize(size, Image.Resampling.LANCZOS)
        picture.quantize(_COLOURS, dither=Image.Dither.NONE).save(stream, format="PNG", optimize=True)
    return stream.getvalue()


def main(values):
    """Draw what is missing and write the page of what is there."""
    work, output = pathlib.Path(values.work_dir), pathlib.Path(values.output_dir)
    make(values.networks or NETWORKS, work, lambda name: print(name, file=sys.stderr), values.seconds)
    text, names = page(work)
    shown = output / "pictures" / "networks"
    shown.mkdir(parents=True, exist_ok=True)
    for name in names:
        shutil.copyfile(work / f"{name}.png", shown / f"{name}.png")
    (output / "network_pictures.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
