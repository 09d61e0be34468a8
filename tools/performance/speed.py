"""CPU time of every method, ours and other libraries', interleaved in one process.

    python3 -m venv .venv-benchmarks
    .venv-benchmarks/bin/pip install -e . saliency tensorflow-probability deprecated 'torch>=2.4'
    .venv-benchmarks/bin/pip install --no-deps xplique==2.0.2 'captum>=0.8,<0.10' 'tf-keras>=2.20,<2.22'
    .venv-benchmarks/bin/python tools/performance/speed.py

prints a Markdown table and writes it to tools/performance/RESULTS.md. xplique pins an older TensorFlow and captum an
older NumPy than they run on. Numbers are ratios of CPU times of the same work on the same machine in the same minutes,
on one thread. ``floor`` is the time of the method's passes alone: F, a compiled forward pass of the live Keras network,
and G, a compiled gradient with respect to the input, both in full batches.
"""

import pathlib
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import competitors
import networks
import numpy as np
import tensorflow as tf
from absl import flags

import attribution
from attribution import cli
from attribution.errors import BadInput, listed

FLAGS = flags.FlagValues()
cli.define_common_flags(FLAGS, batch_size=16, output=str(pathlib.Path(__file__).with_name("RESULTS.md")))
flags.DEFINE_integer("repeats", 3, "rounds through all libraries", lower_bound=1, flag_values=FLAGS)
flags.DEFINE_list("networks", list(networks.NETWORKS), "networks to time", flag_values=FLAGS)
flags.DEFINE_list("libraries", list(competitors.LIBRARIES), "libraries to time beside ours", flag_values=FLAGS)
flags.DEFINE_list("only", [], "methods to time, as the table calls them; by default all", flag_values=FLAGS)


def floors(network, model, size, work):
    """Return, by method, a function that runs the method's passes and nothing else."""

    @tf.function(reduce_retracing=True)
    def forward(x):
        return network(x, training=False)

    def passes(function, count):
        def run(x, _):
            rows = np.arange(count * len(x)) % len(x)
            for start in range(0, len(rows), size):
                function(tf.constant(x[rows[start : start + size]])).numpy()

        return run

    gradient = networks.compiled_gradient(network)
    relus = [name for name in model.layers() if model.graph.nodes[name].op == "Relu"]
    backward, many = passes(gradient, 1), passes(gradient, work.samples)
    return {
        "gradient": backward,
        "Guided Backprop": backward,
        "LRP-α1β0": backward,
        "Grad-CAM": passes(forward, 1),
        "Grad-CAM++": passes(forward, 1),
        "SmoothGrad": many,
        "VarGrad": many,
        "Integrated Gradients": many,
        "Score-CAM": passes(forward, model.graph.shape(relus[work.relu])[-1]),
        "RISE": passes(forward, work.masks),
        "occlusion": passes(forward, work.patches**2),
    }


def images_of(method, work):
    return work.few if method in ("Score-CAM", "occlusion") else work.images


def warming(method, work, size):
    """Return how many images make passes of the size that is timed: a first call traces and compiles."""
    if method in ("SmoothGrad", "VarGrad", "Integrated Gradients"):
        return max(1, size // work.samples)
    return 2 if method in ("Score-CAM", "RISE", "occlusion") else size


def measure(name, values):
    """Time a network round by round through all libraries; return method -> library -> CPU seconds of each round."""
    spec = networks.NETWORKS[name]
    network, work, size = spec.build(), spec.work, values.batch_size
    with tempfile.TemporaryDirectory() as directory:
        network.export(directory, verbose=False)
        model = attribution.load_model(directory)
    side = network.input_shape[1]
    images = np.random.default_rng(0).random((work.images, side, side, 3), dtype=np.float32)
    targets = np.zeros(len(images), np.int64)
    runs = {"floor": floors(network, model, size, work), "ours": competitors.ours(model, size, work)}
    runs |= {library: competitors.LIBRARIES[library](network, size, work) for library in values.libraries}
    times = {}
    for method in [one for one in runs["ours"] if not values.only or one in values.only]:
        named = {library: methods[method] for library, methods in runs.items() if method in methods}
        rows, first = slice(images_of(method, work)), warming(method, work, size)
        for run in named.values():
            run(images[:first], targets[:first])
        times[method] = {library: [] for library in named}
        for _ in range(values.repeats):
            for library, run in named.items():
                start = time.process_time()
                run(images[rows], targets[rows])
                times[method][library].append(time.process_time() - start)
        print(f"{name}: {method} {ratios(times[method])}", file=sys.stderr)
    return times


def ratios(seconds):
    """Return library -> median over rounds of its CPU time divided by ours."""
    return {
        library: statistics.median(theirs / own for theirs, own in zip(rounds, seconds["ours"], strict=True))
        for library, rounds in seconds.items()
    }


def spread(times):
    """Return the largest difference between two rounds of the same work, as a share of their mean."""
    return max(
        (max(rounds) - min(rounds)) / statistics.mean(rounds)
        for by_library in times.values()
        for rounds in by_library.values()
    )


def table(name, times, libraries):
    """Return a network's measurements as a Markdown table."""
    work = networks.NETWORKS[name].work
    lines = [
        f"## {name}",
        "",
        f"{work.images} images, {work.few} for Score-CAM, on the {'last' if work.relu else 'first'} ReLU's channels, "
        f"and for occlusion, with {work.patches**2} patches; SmoothGrad, VarGrad and Integrated Gradients with "
        f"{work.samples} gradients, RISE with {work.masks} masks.",
    ]
    lines[-1] += f" Two rounds of the same work differ by {100 * spread(times):.0f} % at most."
    lines += [
        "",
        f"| method | CPU ms an image | multiple of the floor | {' | '.join(libraries)} |",
        "|---|---|---|" + "---|" * len(libraries),
    ]
    for method, seconds in times.items():
        found = ratios(seconds)
        cells = [
            (f"{found[library]:.2f}" + (" *" if (library, method) in competitors.NOT_THE_METHOD else ""))
            if library in found
            else ""
            for library in libraries
        ]
        own = 1000 * statistics.median(seconds["ours"]) / images_of(method, work)
        lines.append(f"| {method} | {own:.0f} | {1 / found['floor']:.2f} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(values):
    """Measure every network and write the tables."""
    unknown = set(values.networks) - set(networks.NETWORKS)
    if unknown:
        raise BadInput(f"no network {min(unknown)!r}; there are {listed(networks.NETWORKS)}")
    networks.use_one_thread()
    parts = [table(name, measure(name, values), values.libraries) for name in values.networks]
    text = "\n\n".join(
        [
            "# Speed",
            f"TensorFlow {tf.__version__}, CPU, one thread. Columns of libraries: their CPU time by ours on the same "
            f"work, above 1 where we are faster. Batches of {values.batch_size}. A ratio hardly depends on the number "
            "of samples, masks, patches or channels, so that there are few of them. `*`: the same number of passes, "
            "not the method. The floor of Grad-CAM is its forward pass alone, that of LRP one gradient.",
            "No method can be much cheaper than its passes, and these are the same arithmetic in every library. What "
            "can be saved is what a library does around them: for each image (saliency takes one at a time, but puts "
            "the points of Integrated Gradients into batches) and for each call. The larger the network, the less that "
            "is, and the nearer all ratios are to 1.",
            *parts,
        ]
    )
    print(text)
    networks.write_part(pathlib.Path(values.output), text)


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
