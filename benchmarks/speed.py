"""CPU time of every method, ours and other libraries', interleaved in one process.

    python benchmarks/environment.py && .venv-benchmarks/bin/python benchmarks/speed.py

prints a Markdown table and writes it to benchmarks/RESULTS.md. Every figure is a ratio of CPU times of the same
work on the same machine in the same minutes; absolute times would say more about the machine. ``floor`` is what the
method's passes cost alone: F, a compiled forward pass of the live Keras network, and G, a compiled gradient with
respect to the input, both in full batches.
"""

import pathlib
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import contenders
import keras
import networks
import numpy as np
import tensorflow as tf
from absl import flags

import attribution
import command_line

FLAGS = flags.FlagValues()
command_line.define_common_flags(FLAGS, batch_size=16, output=str(pathlib.Path(__file__).with_name("RESULTS.md")))
flags.DEFINE_integer("masks", 100, "masks of RISE", lower_bound=1, flag_values=FLAGS)
flags.DEFINE_integer("repeats", 3, "rounds through all libraries", lower_bound=1, flag_values=FLAGS)
flags.DEFINE_list("networks", list(networks.NETWORKS), "networks to time", flag_values=FLAGS)
flags.DEFINE_list("libraries", list(contenders.LIBRARIES), "libraries to time beside ours", flag_values=FLAGS)

ONE_PASS = ("gradient", "Guided Backprop", "Grad-CAM", "Grad-CAM++", "LRP-α1β0")


def cpu_time(run, *arguments):
    start = time.process_time()
    run(*arguments)
    return time.process_time() - start


def floors(network, model, images, values):
    """Return, by method, a function that runs the method's passes and nothing else."""
    size = values.batch_size

    @tf.function(reduce_retracing=True)
    def forward(x):
        return network(x, training=False)

    @tf.function(reduce_retracing=True)
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            score = network(x, training=False)[:, 0]
        return tape.gradient(score, x)

    channels = model.graph.shape(model.layer())[-1]
    side = images.shape[1] // 8
    patches = (images.shape[1] // side) ** 2

    def passes(function, count):
        def run(x, _):
            rows = np.arange(count * len(x)) % len(x)
            for start in range(0, len(rows), size):
                function(tf.constant(x[rows[start : start + size]])).numpy()

        return run

    backward = passes(gradient, 1)
    many = passes(gradient, contenders.SAMPLES)
    return {
        "gradient": backward,
        "Guided Backprop": backward,
        "LRP-α1β0": backward,
        "Grad-CAM": passes(forward, 1),
        "Grad-CAM++": passes(forward, 1),
        "SmoothGrad": many,
        "VarGrad": many,
        "Integrated Gradients": many,
        "Score-CAM": passes(forward, channels),
        "RISE": passes(forward, values.masks),
        "occlusion": passes(forward, patches),
    }


def measure(name, values):
    """Return method -> library -> median CPU seconds, ``floor`` and ``ours`` among the libraries."""
    spec = networks.NETWORKS[name]
    network = spec.build()
    with tempfile.TemporaryDirectory() as directory:
        network.export(directory, verbose=False)
        model = attribution.load_model(directory)
    side = network.input_shape[1]
    images = np.random.default_rng(0).random((spec.images, side, side, 3), dtype=np.float32)
    targets = np.zeros(len(images), np.int64)
    arguments = (values.batch_size, values.masks, side // 8)
    runs = {"floor": floors(network, model, images, values), "ours": contenders.ours(model, *arguments)}
    runs |= {library: contenders.LIBRARIES[library](network, *arguments) for library in values.libraries}
    times = {}
    for method in runs["ours"]:
        if method in spec.without:
            continue
        count = spec.images if method in ONE_PASS else spec.few
        named = {library: methods[method] for library, methods in runs.items() if method in methods}
        data = images[:count], targets[:count]
        for run in named.values():  # traces and compiles
            run(*data) if method in ONE_PASS else run(data[0][:2], data[1][:2])
        rounds = [{library: cpu_time(run, *data) for library, run in named.items()} for _ in range(values.repeats)]
        times[method] = {library: [one[library] for one in rounds] for library in named}
        print(f"{name}: {method} {ratios(times[method])}", file=sys.stderr)
    return times


def ratios(times):
    """Return library -> median over rounds of its CPU time by ours."""
    return {
        library: statistics.median(theirs / own for theirs, own in zip(seconds, times["ours"], strict=True))
        for library, seconds in times.items()
    }


def table(name, times, values):
    """Return a network's measurements as a Markdown table."""
    libraries, spec = values.libraries, networks.NETWORKS[name]
    lines = [
        f"## {name}",
        "",
        f"{spec.images} images for methods of one pass, {spec.few} for the others."
        + (f" Left out for its time: {', '.join(spec.without)}." if spec.without else ""),
        "",
        f"| method | CPU ms an image | multiple of the floor | {' | '.join(libraries)} |",
        "|---|---|---|" + "---|" * len(libraries),
    ]
    for method, by_library in times.items():
        count = spec.images if method in ONE_PASS else spec.few
        found = ratios(by_library)
        cells = [
            (f"{found[library]:.2f}" + (" *" if (library, method) in contenders.NOT_THE_METHOD else ""))
            if library in found
            else ""
            for library in libraries
        ]
        own = 1000 * statistics.median(by_library["ours"]) / count
        lines.append(f"| {method} | {own:.0f} | {1 / found['floor']:.2f} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(values):
    """Measure every network and write the tables."""
    unknown = set(values.networks) - set(networks.NETWORKS)
    if unknown:
        raise command_line.BadInput(f"no network {min(unknown)!r}; there are {command_line.listed(networks.NETWORKS)}")
    keras.utils.disable_interactive_logging()  # tf-explain's occlusion shows Keras's progress bar
    parts = [table(name, measure(name, values), values) for name in values.networks]
    text = "\n\n".join(
        [
            "# Speed",
            f"TensorFlow {tf.__version__}, CPU. Columns of libraries: their CPU time by ours on the same work, above 1 "
            "where we are faster. "
            f"Batches of {values.batch_size}; SmoothGrad, VarGrad and Integrated Gradients with {contenders.SAMPLES} "
            f"gradients, RISE with {values.masks} masks, occlusion with 64 patches; median of {values.repeats} "
            "interleaved rounds. `*`: the same number of passes, not the method. The floor of Grad-CAM is its forward "
            "pass alone, that of LRP one gradient.",
            *parts,
        ]
    )
    print(text)
    pathlib.Path(values.output).write_text(text + "\n")


if __name__ == "__main__":
    command_line.run(main, FLAGS, __doc__)
