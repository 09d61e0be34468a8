"""What gradients and relevance cost beside the passes they are made of, and how much memory they take.

    python tools/performance/cost.py

writes its part of RESULTS.md. F is a compiled forward pass of the live Keras network, G a compiled gradient
with respect to its input. Each method runs beside the passes that it cannot do without, round by round in one process
on one thread; a figure is the median over rounds of the ratio of two CPU times taken one after the other. Memory is the
peak of a process of its own, over one that only calls the file's signature (``memory.py``).
"""

import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import typing

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from absl import flags  # noqa: E402

from attribution import cli  # noqa: E402

FLAGS = flags.FlagValues()
cli.define_common_flags(FLAGS, batch_size=4, output=str(pathlib.Path(__file__).with_name("RESULTS.md")))
flags.DEFINE_integer("repeats", 3, "rounds", lower_bound=1, flag_values=FLAGS)
flags.DEFINE_integer("num_imgs", 4, "images to explain", lower_bound=1, flag_values=FLAGS)
flags.DEFINE_string("child", "", "explain by this method from --saved_model and print the peak", flag_values=FLAGS)
flags.DEFINE_string("saved_model", "", "SavedModel of the child", flag_values=FLAGS)

SAMPLES = 2
# Method, its parameters, and how many gradients it cannot do without.
METHODS = {
    "gradient": ({}, 1),
    "integrated_gradients": ({"points": SAMPLES}, SAMPLES),
    "smoothgrad": ({"samples": SAMPLES}, SAMPLES),
    "lrp_epsilon": ({}, 1),
    "lrp_cp": ({}, 1),
    "lrp_attn": ({}, 1),
    "lrp_alpha1beta0": ({}, 1),
}
SIGNATURE = "the signature"
GOALS = {"gradients": 1.15, "relevance": 2.5, "megabytes": 300}


class Network(typing.NamedTuple):
    """A network, how the table calls it, and the methods of ``METHODS`` that say nothing new of it."""

    title: str
    build: str
    left_out: tuple = ()


NETWORKS = (
    Network("EfficientNetB0, 224x224", "efficientnet", left_out=("lrp_attn",)),  # without attention it is lrp_epsilon
    Network("ViT, 2.8 million parameters, 112x112", "small_vit"),
)


def passes(network):
    """Return the compiled gradient of a live network's first score."""
    import tensorflow as tf

    @tf.function(reduce_retracing=True)
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            score = network(x, training=False)[:, 0]
        return tape.gradient(score, x)

    return gradient


def times(network, directory, methods, values):
    """Return method -> (ratios of its CPU time to that of its passes, its CPU seconds), one of each a round."""
    import numpy as np
    import tensorflow as tf

    import attribution

    images = np.random.default_rng(0).random((values.num_imgs, *network.input_shape[1:]), dtype=np.float32)
    model, gradient = attribution.load_model(directory), passes(network)

    def floor():
        for start in range(0, len(images), values.batch_size):
            gradient(tf.constant(images[start : start + values.batch_size])).numpy()

    def ours(name):
        attribution.explain(name, model, images, 0, batch_size=values.batch_size, **METHODS[name][0])

    def seconds(function, *arguments):
        start = time.process_time()
        function(*arguments)
        return time.process_time() - start

    found = {name: ([], []) for name in methods}
    for number in range(values.repeats + 1):  # a first round traces and compiles
        for name in methods:
            own, below = seconds(ours, name), seconds(floor)
            if number:
                found[name][0].append(own / (METHODS[name][1] * below))
                found[name][1].append(own)
            print(f"round {number}: {name} {own:.2f} s, G {below:.2f} s", file=sys.stderr, flush=True)
    return found


def peaks(directory, methods, values):
    """Return what runs -> peak of its process in MB."""
    found = {}
    for label in (SIGNATURE, *methods):
        command = [sys.executable, __file__, f"--child={label}", f"--saved_model={directory}"]
        command += [f"--batch_size={values.batch_size}", f"--num_imgs={values.num_imgs}"]
        found[label] = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        print(f"{label}: {found[label]:.0f} MB", file=sys.stderr, flush=True)
    return found


def child(values):
    """Explain by one method and print the peak in MB."""
    from memory import Peak

    peak = Peak()
    peak.start()
    import numpy as np
    import tensorflow as tf

    import attribution

    if values.child == SIGNATURE:
        call = tf.saved_model.load(values.saved_model).signatures["serving_default"]
        (spec,) = call.structured_input_signature[1].values()
        images = np.random.default_rng(0).random((values.num_imgs, *spec.shape[1:]), dtype=np.float32)
        for start in range(0, len(images), values.batch_size):
            call(tf.constant(images[start : start + values.batch_size]))
    else:
        model = attribution.load_model(values.saved_model)
        (spec,) = model.inputs.values()
        images = np.random.default_rng(0).random((values.num_imgs, *spec.shape[1:]), dtype=np.float32)
        options = METHODS[values.child][0]
        attribution.explain(values.child, model, images, 0, batch_size=values.batch_size, **options)
    print(peak.stop())


def table(name, found, megabytes):
    """Return a network's measurements as Markdown."""
    lines = [
        f"## {name}",
        "",
        "| method | passes | times its passes | rounds | CPU s | MB above the signature |",
        "|---|---|---|---|---|---|",
    ]
    for method, (ratios, seconds) in found.items():
        count = METHODS[method][1]
        lines.append(
            f"| `{method}` | {'G' if count == 1 else f'{count} G'} | {statistics.median(ratios):.2f} | "
            f"{min(ratios):.2f} to {max(ratios):.2f} | {statistics.median(seconds):.1f} | "
            f"{megabytes[method] - megabytes[SIGNATURE]:+.0f} |"
        )
    return "\n".join(lines)


def main(values):
    """Measure both networks and write the tables."""
    if values.child:
        return child(values)
    import keras
    import networks
    import results
    import tensorflow as tf

    keras.utils.disable_interactive_logging()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    parts = [
        "# Cost beside the passes",
        f"TensorFlow {tf.__version__}, CPU, one thread, {values.num_imgs} images in batches of {values.batch_size}, "
        f"{values.repeats} rounds. G is one compiled gradient of the live Keras network; SmoothGrad and Integrated "
        f"Gradients take {SAMPLES}. Goals: {GOALS['gradients']} for gradients, {GOALS['relevance']} for relevance "
        f"and {GOALS['megabytes']} MB above a forward pass by the file's signature.",
    ]
    for chosen in NETWORKS:
        network = getattr(networks, chosen.build)()
        methods = [name for name in METHODS if name not in chosen.left_out]
        with tempfile.TemporaryDirectory() as directory:
            network.export(directory, verbose=False)
            found = times(network, directory, methods, values)
            parts.append(table(chosen.title, found, peaks(directory, methods, values)))
    text = "\n\n".join(parts)
    print(text)
    results.write(pathlib.Path(values.output), text)


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
