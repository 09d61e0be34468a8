"""CPU time of gradients and relevance beside the passes that they need, of a process's first map, and peak memory.

    python tools/performance/cost.py

writes three parts of RESULTS.md, or those of ``--parts``. The first divides each method's CPU time by that of the
gradients G that it cannot do without, compiled from the live Keras network: medians over rounds in one process on one
thread. Memory is the peak of anonymous resident memory of a process for each run (Linux), compared with a process that
only calls the file's signature; pages of libraries, which the system's cache keeps or drops, are not in it.
"""

import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import types

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from absl import flags  # noqa: E402

from attribution import cli  # noqa: E402
from attribution_benchmarks.core.tables import markdown_table  # noqa: E402

FLAGS = flags.FlagValues()
cli.define_common_flags(FLAGS, batch_size=4, output=str(pathlib.Path(__file__).with_name("RESULTS.md")))
flags.DEFINE_integer("repeats", 3, "rounds", lower_bound=1, flag_values=FLAGS)
flags.DEFINE_integer("num_imgs", 4, "images to explain", lower_bound=1, flag_values=FLAGS)
flags.DEFINE_list("parts", ["passes", "first", "memory"], "what to measure", flag_values=FLAGS)
flags.DEFINE_string("child", "", "run this on --saved_model and print the peak", flag_values=FLAGS)
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
FIRST = ("gradient", "grad_cam", "lrp_alpha1beta0")
GROWING, BATCHES = ("gradient", "integrated_gradients", "lrp_alpha1beta0"), (1, 8, 32)  # memory by batch size
SIGNATURE, SCORES = "the file's signature, by TensorFlow", "scores, by this project"
# Few samples, masks and channels: memory does not grow with them, as pairs of lines show.
MEMORY_RUNS = {
    SIGNATURE: {},
    SCORES: {},
    "Integrated Gradients, 10 points": {"integrated_gradients": {"points": 10}},
    "Integrated Gradients, 30 points": {"integrated_gradients": {"points": 30}},
    "SmoothGrad, 10 samples": {"smoothgrad": {"samples": 10}},
    "RISE, 20 masks": {"rise": {"masks": 20}},
    "RISE, 100 masks": {"rise": {"masks": 100}},
    "Score-CAM, 64 channels": {"score_cam": {"layer": "conv1_relu_1"}},
    "Score-CAM, 256 channels": {"score_cam": {"layer": "conv2_block3_out_1"}},
    "SISE, 64 channels": {"sise": {"layer": "conv1_relu_1"}},
    "LRP-α1β0": {"lrp_alpha1beta0": {}},
    "seven methods of one pass together": {
        name: {}
        for name in ("gradient", "gradient_x_input", "grad_cam", "grad_cam_plus_plus", "xgrad_cam")
        + ("guided_backprop", "deconvnet")
    },
}


# Title in the table -> network, and methods of METHODS that equal another one on it.
NETWORKS = {
    "EfficientNetB0, 224x224": ("efficientnet", ["lrp_attn"]),  # without attention it is lrp_epsilon
    "ViT, 2.8 million parameters, 112x112": ("small_vit", []),
}


class Peak(threading.Thread):
    """Peak of this process's anonymous resident memory in MB, read every few milliseconds."""

    def __init__(self):
        super().__init__(daemon=True)
        self.value = 0.0
        self._ended = threading.Event()

    def run(self):
        while not self._ended.wait(0.005):
            self.read()

    def read(self):
        status = pathlib.Path("/proc/self/status").read_text()
        self.value = max(self.value, int(re.search(r"RssAnon:\s*(\d+) kB", status)[1]) / 1024)

    def stop(self):
        self._ended.set()
        self.join()
        self.read()
        return self.value


def measure_times(network, directory, methods, values):
    """Return method -> (ratios of its CPU time to that of its passes, its CPU seconds), one of each a round."""
    import networks
    import numpy as np
    import tensorflow as tf

    import attribution

    images = np.random.default_rng(0).random((values.num_imgs, *network.input_shape[1:]), dtype=np.float32)
    model, gradient = attribution.load_model(directory), networks.compiled_gradient(network)

    def floor():
        for start in range(0, len(images), values.batch_size):
            gradient(tf.constant(images[start : start + values.batch_size])).numpy()

    def ours(name):
        attribution.explain(name, model, images, 0, batch_size=values.batch_size, **METHODS[name][0])

    measured = {name: ([], []) for name in methods}
    for number in range(values.repeats + 1):  # a first round traces and compiles
        for name in methods:
            own, below = networks.seconds_of(ours, name), networks.seconds_of(floor)
            if number:
                measured[name][0].append(own / (METHODS[name][1] * below))
                measured[name][1].append(own)
            print(f"round {number}: {name} {own:.2f} s, G {below:.2f} s", file=sys.stderr, flush=True)
    return measured


def peaks(directory, runs, values):
    """Return run -> peak of its process in MB."""
    found = {}
    for run in runs:
        command = [sys.executable, __file__, f"--child={run}", f"--saved_model={directory}"]
        command += [f"--batch_size={values.batch_size}", f"--num_imgs={values.num_imgs}"]
        found[run] = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        print(f"{run}: {found[run]:.0f} MB", file=sys.stderr, flush=True)
    return found


def first_map(directory, method):
    """Print CPU seconds of loading a model, of the first map of one image and of the second, without the imports."""
    import numpy as np
    import tensorflow as tf

    import attribution

    image = np.random.default_rng(0).random((1, 224, 224, 3), dtype=np.float32)
    times = [time.process_time()]
    model = tf.saved_model.load(directory) if method == "load" else attribution.load_model(directory)
    times.append(time.process_time())
    for _ in range(2 if method != "load" else 0):
        attribution.explain(method, model, image, 0)
        times.append(time.process_time())
    print(*np.diff(times))


def first_map_part(directory, values):
    """Return the part on a process's first map as Markdown: medians over rounds of processes."""
    found = {method: [] for method in ("load", *FIRST)}
    for method in list(found) * values.repeats:
        command = [sys.executable, __file__, f"--child=first {method}", f"--saved_model={directory}"]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found[method].append([float(word) for word in printed.split()])
    medians = {method: [statistics.median(one) for one in zip(*found[method], strict=True)] for method in found}
    loading = medians.pop("load")[0]
    more = max(load + first - loading for load, first, _ in medians.values())
    return (
        f"# First map\n\nCPU seconds of a process with one ResNet-50 and one image, without imports: medians of "
        f"{values.repeats} processes. `tf.saved_model.load` alone takes {loading:.2f}; a new process's first map takes "
        f"at most {more:.2f} CPU seconds more.\n\n"
        + markdown_table(
            ["method", "load_model", "first map", "second map"],
            [[f"`{method}`", *(f"{one:.2f}" for one in row)] for method, row in medians.items()],
        )
    )


def child(values):
    """Run one method, or one of ``MEMORY_RUNS``, and print the peak in MB."""
    if values.child.startswith("first "):
        return first_map(values.saved_model, values.child.removeprefix("first "))
    peak = Peak()
    peak.start()
    import numpy as np

    import attribution

    def images(shape):
        return np.random.default_rng(0).random((values.num_imgs, *shape[1:]), dtype=np.float32)

    if values.child == SIGNATURE:
        import tensorflow as tf

        call = tf.saved_model.load(values.saved_model).signatures["serving_default"]
        (spec,) = call.structured_input_signature[1].values()
        pixels = images(spec.shape)
        for start in range(0, len(pixels), values.batch_size):
            call(tf.constant(pixels[start : start + values.batch_size]))
    else:
        model = attribution.load_model(values.saved_model)
        (spec,) = model.inputs.values()
        pixels = images(spec.shape)
        if values.child == SCORES:
            model.scores(pixels, values.batch_size)
        else:
            chosen = MEMORY_RUNS.get(values.child) or {values.child: METHODS[values.child][0]}
            methods = {name: (name, options) for name, options in chosen.items()}
            attribution.explain_many(methods, model, pixels, 0, batch_size=values.batch_size)
    print(peak.stop())


def cost_table(title, measured, megabytes):
    """Return a network's measurements as Markdown."""
    body = []
    for method, (ratios, seconds) in measured.items():
        count = METHODS[method][1]
        body.append(
            [f"`{method}`", "G" if count == 1 else f"{count} G", f"{statistics.median(ratios):.2f}",
             f"{min(ratios):.2f} to {max(ratios):.2f}", f"{statistics.median(seconds):.1f}",
             f"{megabytes[method] - megabytes[SIGNATURE]:+.0f}"]
        )  # fmt: skip
    header = ["method", "passes", "times its passes", "rounds", "CPU s", "MB above the signature"]
    return f"## {title}\n\n{markdown_table(header, body)}".rstrip("\n")


def memory_part(directory, values):
    """Return the part on ResNet-50's memory as Markdown."""
    found = peaks(directory, MEMORY_RUNS, values)
    by_batch = {
        size: peaks(directory, (SIGNATURE, *GROWING), types.SimpleNamespace(batch_size=size, num_imgs=size))
        for size in BATCHES
    }
    runs = [[label, f"{peak:.0f}", f"{peak - found[SIGNATURE]:+.0f}"] for label, peak in found.items()]
    growing = [[SIGNATURE, *(f"{one[SIGNATURE]:.0f}" for one in by_batch.values())]]
    growing += [[f"`{run}`", *(f"{one[run] - one[SIGNATURE]:+.0f}" for one in by_batch.values())] for run in GROWING]
    return (
        f"# Memory\n\nResNet-50 at 224x224 (102 MB of weights), {values.num_imgs} images, batches of "
        f"{values.batch_size}; peak of a process's anonymous memory, including TensorFlow. Methods share one copy of "
        "the weights, and a second one in which batch normalization is folded into the layers.\n\n"
        f"{markdown_table(['run', 'peak, MB', 'above the signature, MB'], runs)}\n"
        "Peak of the signature and MB above it, by the number of images in one batch:\n\n"
        f"{markdown_table(['run', *map(str, BATCHES)], growing)}"
    )


def main(values):
    """Measure the networks and write the parts."""
    if values.child:
        return child(values)
    import networks

    version = networks.use_one_thread()
    texts = [passes_part(version, values)] if "passes" in values.parts else []
    with tempfile.TemporaryDirectory() as directory:
        if {"first", "memory"} & set(values.parts):
            networks.resnet50().export(directory, verbose=False)
        texts += [first_map_part(directory, values)] if "first" in values.parts else []
        texts += [memory_part(directory, values)] if "memory" in values.parts else []
    for text in texts:
        print(text)
        networks.write_part(pathlib.Path(values.output), text)


def passes_part(version, values):
    """Return the part on CPU time beside the passes as Markdown."""
    import networks

    parts = [
        "# Cost beside the passes",
        f"TensorFlow {version}, CPU, one thread, {values.num_imgs} images in batches of {values.batch_size}, "
        f"{values.repeats} rounds. G is one compiled gradient of the live Keras network; SmoothGrad and Integrated "
        f"Gradients take {SAMPLES}. Goals: 1.15 for gradients, 2.5 for relevance and 300 MB above a forward pass by "
        "the file's signature.",
    ]
    for title, (build, dropped) in NETWORKS.items():
        network = getattr(networks, build)()
        methods = [name for name in METHODS if name not in dropped]
        with tempfile.TemporaryDirectory() as directory:
            network.export(directory, verbose=False)
            measured = measure_times(network, directory, methods, values)
            parts.append(cost_table(title, measured, peaks(directory, [SIGNATURE, *methods], values)))
    return "\n\n".join(parts)


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
