"""CPU time of every method, ours and other libraries', interleaved in one process.

    python tools/performance/environment.py && .venv-benchmarks/bin/python tools/performance/speed.py

prints a Markdown table and writes it to tools/performance/RESULTS.md. Every figure is a ratio of CPU times of the same
work on the same machine in the same minutes, on one thread; absolute times would say more about the machine. ``floor``
is what the method's passes cost alone: F, a compiled forward pass of the live Keras network, and G, a compiled gradient
with respect to the input, both in full batches. With ``--times=FILE`` each time is kept as soon as it was taken, and
not taken again.
"""

import json
import pathlib
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import contenders
import keras
import networks
import numpy as np
import results
import tensorflow as tf
from absl import flags

import attribution
from attribution import cli
from attribution.errors import BadInput, listed

FLAGS = flags.FlagValues()
cli.define_common_flags(FLAGS, batch_size=16, output=str(pathlib.Path(__file__).with_name("RESULTS.md")))
flags.DEFINE_integer("repeats", 3, "rounds through all libraries", lower_bound=1, flag_values=FLAGS)
flags.DEFINE_list("networks", list(networks.NETWORKS), "networks to time", flag_values=FLAGS)
flags.DEFINE_list("libraries", list(contenders.LIBRARIES), "libraries to time beside ours", flag_values=FLAGS)
flags.DEFINE_list("only", [], "methods to time, as the table calls them; by default all", flag_values=FLAGS)
flags.DEFINE_string("times", "", "file of JSON lines to keep times in and take up again", flag_values=FLAGS)


class Times:
    """CPU seconds by network, method, library and round, kept on file."""

    def __init__(self, path, setting):
        self._path = pathlib.Path(path) if path else None
        self._setting = setting
        self._seconds = {}
        if self._path and self._path.exists():
            for line in self._path.read_text().splitlines():
                entry = json.loads(line)
                if entry["setting"] == setting:
                    self._seconds[tuple(entry["of"])] = entry["seconds"]

    def missing(self, *of):
        return of not in self._seconds

    def add(self, seconds, *of):
        self._seconds[of] = seconds
        if self._path:
            with self._path.open("a") as file:
                file.write(json.dumps({"setting": self._setting, "of": of, "seconds": seconds}) + "\n")

    def of(self, network):
        """Return method -> library -> round -> CPU seconds."""
        found = {}
        for (name, method, library, number), seconds in self._seconds.items():
            if name == network:
                found.setdefault(method, {}).setdefault(library, {})[number] = seconds
        return found


def floors(network, model, size, work):
    """Return, by method, a function that runs the method's passes and nothing else."""

    @tf.function(reduce_retracing=True)
    def forward(x):
        return network(x, training=False)

    @tf.function(reduce_retracing=True)
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            score = network(x, training=False)[:, 0]
        return tape.gradient(score, x)

    def passes(function, count):
        def run(x, _):
            rows = np.arange(count * len(x)) % len(x)
            for start in range(0, len(rows), size):
                function(tf.constant(x[rows[start : start + size]])).numpy()

        return run

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


def measure(name, values, times):
    """Take the times of a network that are missing, round by round through all libraries."""
    spec = networks.NETWORKS[name]
    network, work, size = spec.build(), spec.work, values.batch_size
    with tempfile.TemporaryDirectory() as directory:
        network.export(directory, verbose=False)
        model = attribution.load_model(directory)
    side = network.input_shape[1]
    images = np.random.default_rng(0).random((work.images, side, side, 3), dtype=np.float32)
    targets = np.zeros(len(images), np.int64)
    runs = {"floor": floors(network, model, size, work), "ours": contenders.ours(model, size, work)}
    runs |= {library: contenders.LIBRARIES[library](network, size, work) for library in values.libraries}
    for method in runs["ours"]:
        if values.only and method not in values.only:
            continue
        named = {library: methods[method] for library, methods in runs.items() if method in methods}
        rows = slice(images_of(method, work))
        warm, first = set(), warming(method, work, size)
        for number in range(values.repeats):
            for library, run in named.items():
                if times.missing(name, method, library, number):
                    if library not in warm:
                        run(images[:first], targets[:first])
                        warm.add(library)
                    start = time.process_time()
                    run(images[rows], targets[rows])
                    times.add(time.process_time() - start, name, method, library, number)
        print(f"{name}: {method} {ratios(times.of(name)[method])}", file=sys.stderr)


def ratios(seconds):
    """Return library -> median over rounds of its CPU time by ours."""
    own = seconds["ours"]
    return {
        library: statistics.median(theirs[number] / own[number] for number in theirs if number in own)
        for library, theirs in seconds.items()
        if set(theirs) & set(own)
    }


def spread(times):
    """Return the largest difference between two rounds of the same work, as a share of their mean."""
    found = [
        (max(rounds.values()) - min(rounds.values())) / statistics.mean(rounds.values())
        for by_library in times.values()
        for rounds in by_library.values()
        if len(rounds) > 1
    ]
    return max(found, default=None)


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
    apart = spread(times)
    if apart is not None:
        lines[-1] += f" Two rounds of the same work differ by {100 * apart:.0f} % at most."
    lines += [
        "",
        f"| method | CPU ms an image | multiple of the floor | {' | '.join(libraries)} |",
        "|---|---|---|" + "---|" * len(libraries),
    ]
    for method, seconds in times.items():
        found = ratios(seconds)
        cells = [
            (f"{found[library]:.2f}" + (" *" if (library, method) in contenders.NOT_THE_METHOD else ""))
            if library in found
            else ""
            for library in libraries
        ]
        own = 1000 * statistics.median(seconds["ours"].values()) / images_of(method, work)
        lines.append(f"| {method} | {own:.0f} | {1 / found['floor']:.2f} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(values):
    """Measure every network and write the tables."""
    unknown = set(values.networks) - set(networks.NETWORKS)
    if unknown:
        raise BadInput(f"no network {min(unknown)!r}; there are {listed(networks.NETWORKS)}")
    keras.utils.disable_interactive_logging()  # tf-explain's occlusion shows Keras's progress bar
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    parts = []
    for name in values.networks:
        times = Times(values.times, [values.batch_size, *networks.NETWORKS[name].work])
        measure(name, values, times)
        parts.append(table(name, times.of(name), values.libraries))
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
    results.write(pathlib.Path(values.output), text + "\n")


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
