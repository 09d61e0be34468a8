"""BIM's classifiers: residual networks and a vision transformer, their training, export and model cards.

The authors use ResNet-50 (He et al. 2016) on 224-pixel photographs, with endpoints that they name. ``small_resnet`` is
the same idea at the native 128 pixels with nine 3x3 or 5x5 convolutions and some 200,000 parameters, for drawn data and
CPUs, and ``small_vit`` a transformer of that size. All take RGB of 0 to 255 minus ``CHANNEL_MEANS``, unscaled, and give
logits.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import sys
from collections.abc import Mapping

import numpy as np

from attribution.errors import BadInput, listed, print_line
from attribution.files import check_directory
from attribution.reading import read_json
from attribution_benchmarks.core import keras_export
from bim import layout
from bim.data import load_set, load_train
from bim.layout import CHANNEL_MEANS, RECORD

NUM_CLASSES = 10


def small_resnet(side: int = 128, normalized: bool = True, widths=(16, 32, 64, 96)):
    """Build the small residual network: a stem of stride 4, then one basic block a stage.

    From (N, side, side, 3) float32 to (N, 10) float32 logits. ``normalized`` is with batch normalization, for training;
    the exported network is without (see ``folded``). The last of the four stages keeps the third's resolution, so that
    Grad-CAM has 8 x 8 cells; ``widths`` are their channels.
    """
    import keras

    image = keras.Input((side, side, 3), name="image")
    x = _convolution(image, widths[0], 5, 2, "stem", normalized, relu=True)
    x = keras.layers.MaxPooling2D(3, 2, padding="same", name="stem_pool")(x)
    for stage, width in enumerate(widths, start=1):
        stride = 2 if stage in (2, 3) else 1
        shortcut = x
        if stride > 1 or x.shape[-1] != width:
            shortcut = _convolution(x, width, 1, stride, f"stage{stage}_shortcut", normalized)
        x = _convolution(x, width, 3, stride, f"stage{stage}_1", normalized, relu=True)
        x = _convolution(x, width, 3, 1, f"stage{stage}_2", normalized)
        x = keras.layers.Add(name=f"stage{stage}_sum")([x, shortcut])
        x = _relu(x, f"block_layer{stage}")
    x = keras.layers.GlobalAveragePooling2D(name="pool")(x)
    return keras.Model(image, _final_dense(x), name="resnet_model")


def resnet50(side: int = 224, normalized: bool = True, width: int = 64, blocks=(3, 4, 6, 3)):
    """Build ResNet-50 (He et al. 2016; strides on the 3x3 convolutions) with BIM's endpoints; see ``small_resnet``.

    ``width`` is the number of channels of the stem, 64 in the paper; less makes a test quick. ``blocks`` are the
    bottleneck blocks of each of the four stages.
    """
    import keras

    image = keras.Input((side, side, 3), name="image")
    x = _convolution(image, width, 7, 2, "stem", normalized, relu=True)
    x = keras.layers.MaxPooling2D(3, 2, padding="same", name="stem_pool")(x)
    for stage, count in enumerate(blocks, start=1):
        inner = width * 2 ** (stage - 1)
        for block in range(1, count + 1):
            stride = 2 if stage > 1 and block == 1 else 1
            name = f"stage{stage}_block{block}"
            shortcut = x if block > 1 else _convolution(x, 4 * inner, 1, stride, f"{name}_shortcut", normalized)
            x = _convolution(x, inner, 1, 1, f"{name}_1", normalized, relu=True)
            x = _convolution(x, inner, 3, stride, f"{name}_2", normalized, relu=True)
            x = _convolution(x, 4 * inner, 1, 1, f"{name}_3", normalized)
            x = keras.layers.Add(name=f"{name}_sum")([x, shortcut])
            last = f"block_layer{stage}" if block == count else f"{name}_relu"
            x = _relu(x, last)
    x = keras.layers.GlobalAveragePooling2D(name="pool")(x)
    return keras.Model(image, _final_dense(x), name="resnet_model")


def _convolution(x, width: int, size: int, stride: int, name: str, normalized: bool, relu: bool = False):
    """Return a convolution with normalization or bias, and, on request, ReLU."""
    import keras

    x = keras.layers.Conv2D(
        width, size, stride, padding="same", use_bias=not normalized, kernel_initializer="he_normal", name=name
    )(x)
    if normalized:
        x = keras.layers.BatchNormalization(momentum=0.9, epsilon=1e-3, name=f"{name}_norm")(x)
    return _relu(x, f"{name}_relu") if relu else x


def small_vit(side: int = 128, normalized: bool = True, **sizes):
    """Build the small vision transformer, see ``vision_transformer.build``."""
    from bim import vision_transformer

    return vision_transformer.build(side, normalized, NUM_CLASSES, **sizes)


def _relu(x, name: str):
    """Return ReLU as a node of exactly this name below ``resnet_model``: Keras would append numbers."""
    import keras
    import tensorflow as tf

    class Relu(keras.layers.Layer):
        def call(self, inputs):
            with tf.name_scope("resnet_model/"):
                return tf.nn.relu(inputs, name=self.name)

    return Relu(name=name)(x)


def _final_dense(x):
    """Return the logits as a node called ``resnet_model/final_dense``."""
    import keras
    import tensorflow as tf

    class FinalDense(keras.layers.Dense):
        def call(self, inputs):
            with tf.name_scope("resnet_model/"):
                return tf.nn.bias_add(tf.matmul(inputs, self.kernel), self.bias, name=self.name)

    return FinalDense(NUM_CLASSES, name="final_dense")(x)


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How a network of an architecture is trained; the rate falls to 0 along half a cosine."""

    weight_decay: float = 1e-4  # of AdamW
    warm_up: float = 0.0  # share of the steps in which the rate rises from 0
    clip: float | None = None  # largest norm of a step's gradient
    mirrored: float = 0.0  # share of the images
    images: Mapping[str, int] = dataclasses.field(default_factory=dict)  # seen in training, where they differ

    def optimizer(self) -> str:
        """Return the recipe of the optimizer for a model card."""
        clip = f", gradient norm at most {self.clip:g}" if self.clip else ""
        warm_up = f"warm-up of {self.warm_up:.0%} of the steps, " if self.warm_up else ""
        decay = "1e-4" if self.weight_decay == 1e-4 else f"{self.weight_decay:g}"
        return f"AdamW, weight decay {decay}{clip}, {warm_up}cosine schedule to 0"


ARCHITECTURES = {"small_resnet": small_resnet, "resnet50": resnet50, "small_vit": small_vit}
RECIPES = {"small_vit": Recipe(0.02, 0.05, 1.0, 0.5, {"obj": 192_000, "scene": 16_000, "scene_only": 16_000})}


def train(
    model,
    images,
    labels,
    epochs: float,
    batch_size: int = 64,
    learning_rate: float = 2e-3,
    seed: int = 0,
    windows: float = 0.0,
    name: str = "",
    recipe: Recipe = Recipe(),
) -> None:
    """Train a network of this file in place, with AdamW and a cosine schedule.

    Parameters
    ----------
    images, labels
        (N, H, W, 3) uint8 RGB, an array or ``TrainingImages``; (N,) integers.
    epochs
        Passes over the images; may be a fraction.
    batch_size, learning_rate
        Of Adam; the rate falls to 0 along half a cosine.
    seed
        Seed of the order of the images, and of the windows.
    windows
        Share of the images of which the network sees a random window only (see ``through_window``).
    name
        Printed with the progress on standard error; no progress when empty.
    recipe
        Of the architecture.
    """
    import keras
    import tensorflow as tf

    batch_size = min(batch_size, len(images))
    steps = max(1, int(epochs * len(images) / batch_size))
    side = model.input_shape[1]
    rng = np.random.default_rng(seed)
    rate = keras.optimizers.schedules.CosineDecay(learning_rate, steps)
    if warm_up := int(recipe.warm_up * steps):
        rate = keras.optimizers.schedules.CosineDecay(
            0.0, steps - warm_up, warmup_target=learning_rate, warmup_steps=warm_up
        )
    model.compile(
        keras.optimizers.AdamW(rate, weight_decay=recipe.weight_decay, global_clipnorm=recipe.clip),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
    )

    def batches():
        """Yield the images in a new random order every epoch."""
        while True:
            order = rng.permutation(len(images))
            for start in range(0, len(order) - batch_size + 1, batch_size):
                rows = np.sort(order[start : start + batch_size])
                seen = images[rows]
                if recipe.mirrored:
                    turned = rng.random(len(rows)) < recipe.mirrored
                    seen[turned] = seen[turned, :, ::-1]
                if windows:
                    for place in np.flatnonzero(rng.random(len(rows)) < windows):
                        seen[place] = through_window(seen[place], rng)
                yield seen, labels[rows].astype(np.int32)

    shapes = (
        tf.TensorSpec((batch_size, *images.shape[1:]), tf.uint8),
        tf.TensorSpec((batch_size,), tf.int32),
    )
    data = tf.data.Dataset.from_generator(batches, output_signature=shapes)
    data = data.map(lambda image, label: (network_input(image, side), label)).take(steps).prefetch(2)

    def report(batch, logs):
        if name and (batch % 50 == 49 or batch == steps - 1):
            print_line(f"{name}: step {batch + 1} of {steps}, loss {logs['loss']:.3f}", file=sys.stderr, flush=True)

    callbacks = [keras.callbacks.LambdaCallback(on_train_batch_end=report)]
    model.fit(data, steps_per_epoch=steps, epochs=1, shuffle=False, verbose=0, callbacks=callbacks)


def through_window(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return an image, (H, W, 3) uint8, seen through a random window, the channel means around it.

    The network then has to learn all evidence of the class, not the easiest alone: a dog that occurs in one scene
    only is evidence, although the scene can be recognized without it. The window's sides are U[0.3, 0.8] of the
    image's, its place is uniform. Chosen by looking at the score of the contrast models: see classifier_card.md.
    """
    covered = np.empty_like(image)
    covered[:] = np.rint(CHANNEL_MEANS)
    height, width = (max(1, int(size * rng.uniform(0.3, 0.8))) for size in image.shape[:2])
    row, column = (
        int(rng.integers(0, size - part + 1)) for size, part in zip(image.shape, (height, width), strict=False)
    )
    covered[row : row + height, column : column + width] = image[row : row + height, column : column + width]
    return covered


def network_input(images, side: int):
    """Return RGB of 0 to 255 as the float input of a network, which may have another side: bilinear, minus the means.

    It can be differentiated, and resizes as Pillow does in ``evaluate.network_inputs``, but for rounding.
    """
    import tensorflow as tf

    images = tf.cast(images, tf.float32)
    if images.shape[1] != side:
        images = tf.image.resize(images, (side, side), antialias=True)
    return images - CHANNEL_MEANS


def folded(model, build):
    """Return the network without batch normalization that computes the same as a trained one in inference.

    ``build()`` returns the same network with ``normalized=False``.
    """
    plain = build()
    names = {layer.name for layer in model.layers}
    for layer in plain.layers:
        if not layer.weights:
            continue
        weights = model.get_layer(layer.name).get_weights()
        if f"{layer.name}_norm" in names:
            norm = model.get_layer(f"{layer.name}_norm")
            gamma, beta, mean, variance = norm.get_weights()
            scale = gamma / np.sqrt(variance + norm.epsilon)
            weights = [weights[0] * scale, beta - mean * scale]
        layer.set_weights(weights)
    return plain


def export(model, directory: str | os.PathLike[str], card: str) -> None:
    """Export logits as ``directory/1`` and the model card as ``directory/MODEL_CARD.md``, or nothing at all.

    The default signature takes ``rgb_minus_channel_means``, as the authors' models do; the signature
    ``from_rgb`` takes uint8 RGB and subtracts the means itself. Raises ``BadInput`` as ``keras_export.export``.
    """
    import tensorflow as tf

    side = model.input_shape[1]
    functions = {
        "serving_default": (
            lambda rgb_minus_channel_means: {"final_dense": model(rgb_minus_channel_means, training=False)},
            [tf.TensorSpec((None, side, side, 3), tf.float32, "rgb_minus_channel_means")],
        ),
        "from_rgb": (
            lambda rgb: {"final_dense": model(network_input(rgb, side), training=False)},
            [tf.TensorSpec((None, side, side, 3), tf.uint8, "rgb")],
        ),
    }
    keras_export.export(model, pathlib.Path(directory), card, functions)


def live_network(model):
    """Return the live network behind a SavedModel of one of these architectures, for the methods of other libraries.

    It is without batch normalization, its variables in the order of the exported file's. Its ReLUs are Keras
    activations: tf-keras-vis replaces the activations it finds by their guided form, and in a layer of another kind it
    finds none, so that its Guided Backprop would be a plain gradient without a word. Raises ``BadInput`` if the file
    was exported from another architecture, so that no live network is known.
    """
    import keras

    from attribution.methods import third_party

    def in_kerass_own_layers(layer):
        if type(layer).__name__ == "Relu":
            return keras.layers.Activation("relu", name=layer.name)
        return type(layer).from_config(layer.get_config())

    side = int(model.inputs[model.explained_input()].shape[1])
    for build in ARCHITECTURES.values():
        with contextlib.suppress(BadInput):
            live = keras.models.clone_model(build(side, normalized=False), clone_function=in_kerass_own_layers)
            return third_party.with_weights(live, model)
    raise BadInput(
        f"other libraries' methods need the live network behind '{model.path}'; it was exported from none of "
        f"{listed(ARCHITECTURES)}"
    )


PAIR_SET_IMAGES = 60_000  # training images seen, for obj, scene and scene_only
CONTRAST_SET_IMAGES = 40_000  # for scene1 .. scene10, which have a tenth of the distinct images
# Share of the contrast sets' images seen through a window: drawn scenes are too easy without the dog. Chosen
# after looking at RMCS: see classifier_card.md.
CONTRAST_SET_WINDOWS = 0.75
CARD = pathlib.Path(__file__).with_name("classifier_card.md")


def train_models(
    data_dir: str,
    output_dir: str,
    names,
    architecture: str = "small_resnet",
    epochs: float = 0.0,
    batch_size: int = 64,
    learning_rate: float = 2e-3,
    seed: int = 0,
    threads: int = 2,
) -> None:
    """Train and export the models that are not yet in ``output_dir``.

    Parameters
    ----------
    data_dir
        Folder of the constructed sets, with training images.
    output_dir
        Each model goes to ``output_dir/<name>/1`` with ``MODEL_CARD.md`` beside it.
    names
        Sets to train on, of ``layout.MODEL_NAMES``.
    architecture
        ``small_resnet``, ``resnet50`` or ``small_vit``.
    epochs
        Passes over the images; 0 for the recipe of the committed models.
    batch_size, learning_rate, seed, threads
        Of the training; ``threads`` of one operation.
    """
    import keras
    import tensorflow as tf

    if unknown := [name for name in names if name not in layout.MODEL_NAMES]:
        raise BadInput(f"no model '{unknown[0]}'; the models are {listed(layout.MODEL_NAMES)}")
    if architecture not in ARCHITECTURES:
        raise BadInput(f"no architecture '{architecture}'; there are {listed(ARCHITECTURES)}")
    build, of_architecture = ARCHITECTURES[architecture], RECIPES.get(architecture, Recipe())
    check_directory("output_dir", output_dir)
    path = os.path.join(data_dir, RECORD)
    try:
        record = {key: read_json(path)[key] for key in ("seed", "num_train", "num_val")}
    except (BadInput, KeyError, TypeError) as error:
        raise BadInput(f"no {path} as scripts/construct_bim_dataset.py writes it; construct the sets first") from error
    with contextlib.suppress(RuntimeError):  # another command of this process may have begun already
        tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.experimental.enable_op_determinism()
    for name in names:
        directory = os.path.join(output_dir, name)
        if os.path.isdir(os.path.join(directory, "1")):
            continue
        images, labels = load_train(data_dir, name)
        validation = load_set(data_dir, name)  # before the training, which would be lost without it
        usual = CONTRAST_SET_IMAGES if name in layout.CONTRAST_SETS else PAIR_SET_IMAGES
        wanted = of_architecture.images.get(name, usual)
        passes = epochs or wanted / len(images)
        windows = CONTRAST_SET_WINDOWS if name in layout.CONTRAST_SETS else 0.0
        keras.utils.set_random_seed(seed)
        network = build()
        train(network, images, labels, passes, batch_size, learning_rate, seed, windows, name, of_architecture)
        plain = folded(network, lambda: build(normalized=False))
        correct = 0
        for rows in np.array_split(np.arange(len(validation)), -(-len(validation) // 100)):
            logits = plain(network_input(validation.images(rows), plain.input_shape[1]), training=False)
            correct += int((np.argmax(logits, axis=1) == validation.labels[rows]).sum())
        accuracy = correct / len(validation)
        print_line(f"{name}: validation accuracy {100 * accuracy:.1f} %", flush=True)
        recipe = {
            "architecture": architecture,
            "parameters": int(plain.count_params()),
            "training images": len(images),
            "passes over them": round(passes, 2),
            "optimizer": of_architecture.optimizer(),
            "first learning rate": learning_rate,
            "batch size": batch_size,
            "share of the images seen through a random window": windows,
            "share of them mirrored": of_architecture.mirrored,
            "seed": seed,
            "TensorFlow": tf.__version__,
            "Keras": keras.__version__,
        }
        export(plain, directory, _model_card(name, data_dir, record, recipe, accuracy))
        keras.backend.clear_session()


def _model_card(name: str, data_dir: str, record: dict, recipe: dict, accuracy: float) -> str:
    """Return the text of a model's card; ``record`` is what the sets were constructed with."""
    import jinja2

    drawn = os.path.isdir(os.path.join(data_dir, "corpora"))
    template = jinja2.Template(CARD.read_text("utf-8"), trim_blocks=True, keep_trailing_newline=True)
    return template.render(
        record,
        name=name,
        classes=layout.OBJECTS if name == "obj" else layout.SCENES,
        with_dog=layout.scenes_with_dog(name) if name in layout.CONTRAST_SETS else (),
        drawn=drawn,
        chosen=drawn and recipe["share of the images seen through a random window"] > 0,
        recipe=recipe,
        accuracy=f"{100 * accuracy:.1f}",
    )
