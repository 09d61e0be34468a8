"""CPU time of every method, ours and other libraries', interleaved in one process.

    python3 -m venv .venv-benchmarks
    .venv-benchmarks/bin/pip install -e '.[third-party]' captum==0.9.0 saliency==0.2.1 shap==0.51.0 zennit==0.5.1 \
        torch==2.14.1 torchvision==0.29.1 tf-keras==2.21.0 tensorflow-probability==0.25.0 deprecated einops
    .venv-benchmarks/bin/pip install --no-deps xplique==2.0.2
    .venv-benchmarks/bin/python tools/performance/speed.py

writes tables to tools/performance/RESULTS.md. xplique pins an older TensorFlow than it runs on. A row that is not
measured again stays. Numbers are ratios of CPU times of the same work on the same machine in the same minutes,
on one thread. ``floor`` is the time of the method's passes alone: F, a compiled forward pass of the live Keras network,
and G, a compiled gradient with respect to the input, both in full batches.
"""

import contextlib
import pathlib
import re
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

with contextlib.suppress(ImportError):
    import torchvision  # noqa: F401  after TensorFlow its import may crash

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

APART = "zennit's map"
COLUMNS = ("method", "inputs", "CPU ms an input", "rounds, %", "multiple of the floor", *competitors.LIBRARIES, APART)
PATHS = ("SmoothGrad", "VarGrad", "Integrated Gradients", "Expected Gradients")
RELEVANCE = ("LRP-ε+", "LRP-α1β0", "Excitation Backprop")


def floors(network, model, size, work):
    """Return, by method, a function that runs the method's passes and nothing else."""

    def passes(function, count):
        def run(x, _):
            rows = np.arange(count * len(x)) % len(x)
            for start in range(0, len(rows), size):
                function(tf.constant(x[rows[start : start + size]])).numpy()

        return run

    gradient = networks.compiled_gradient(network)
    forward = tf.function(lambda x: network(x, training=False), reduce_retracing=True)
    relus = [name for name in model.layers() if model.graph.nodes[name].op == "Relu"]
    counts = {"Grad-CAM": 1, "Grad-CAM++": 1, "RISE": work.masks}
    counts["occlusion"] = work.patches ** (len(network.input_shape) - 2)
    counts["Score-CAM"] = model.graph.shape(relus[work.relu])[-1] if relus else 0
    return {
        **dict.fromkeys(("gradient", "Guided Backprop", *RELEVANCE), passes(gradient, 1)),
        **dict.fromkeys(PATHS, passes(gradient, work.samples)),
        **{method: passes(forward, count) for method, count in counts.items()},
    }


def contenders(name, size, libraries, saved_model):
    """Return a network's contenders, library -> method -> function, and its inputs and targets."""
    network, work = networks.NETWORKS[name]
    network, model = network(), attribution.load_model(saved_model)
    runs = {"floor": floors(network, model, size, work), "ours": competitors.ours(model, size, work)}
    runs |= {library: competitors.LIBRARIES[library](network, size, work) for library in libraries}
    inputs = np.random.default_rng(0).random((work.images, *network.input_shape[1:]), dtype=np.float32)
    return runs, inputs, np.zeros(len(inputs), np.int64)


def measure(name, values, saved_model):
    """Time a network round by round through all libraries; return a row of cells by column for each method."""
    work, size, rows = networks.NETWORKS[name][1], values.batch_size, {}
    runs, inputs, targets = contenders(name, size, values.libraries, saved_model)
    for method in [one for one in runs["ours"] if one not in work.skip and (not values.only or one in values.only)]:
        maps, count = {}, work.few if method in ("Score-CAM", "occlusion") else work.images
        for library in [library for library, methods in runs.items() if method in methods]:
            try:
                maps[library] = runs[library][method](inputs[:count], targets[:count])  # traces, compiles
            except Exception as error:  # left blank
                print(f"{name}: {method} of {library}: {error!r}"[:200], file=sys.stderr)
        times = {library: [] for library in maps}
        for _ in range(values.repeats):
            for library, seconds in times.items():
                seconds.append(networks.seconds_of(runs[library][method], inputs[:count], targets[:count]))
        rows[method] = cells(method, count, times)
        if "zennit" in maps and work.same_weights:
            theirs = np.concatenate(maps["zennit"])
            rows[method][APART] = f"{abs(maps['ours'] - theirs).max() / abs(theirs).max():.0e}"
        print(f"{name}: {rows[method]}", file=sys.stderr, flush=True)
    return rows


def cells(method, count, times):
    """Return a row: ratios are medians over rounds of a library's CPU time divided by ours."""
    ratios = {
        library: statistics.median(theirs / own for theirs, own in zip(rounds, times["ours"], strict=True))
        for library, rounds in times.items()
    }
    spread = max((max(rounds) - min(rounds)) / statistics.mean(rounds) for rounds in times.values())
    own = 1000 * statistics.median(times["ours"]) / count
    own = np.format_float_positional(own, 2, unique=False, fractional=False, trim="-")
    shown = method, str(count), own, f"{100 * spread:.0f}", f"{1 / ratios['floor']:.2f}"
    row = dict(zip(COLUMNS, shown, strict=False))
    for library in set(ratios) & set(COLUMNS):
        row[library] = f"{ratios[library]:.2f}" + " *" * ((library, method) in competitors.NOT_THE_METHOD)
    return row


def known_rows(path, name):
    """Return the rows of a network's table in the file, method -> column -> cell."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    part = re.search(rf"(?ms)^## {name}$(.*?)(?=^#|\Z)", text)
    lines = re.findall(r"(?m)^\|(.*)\|$", part[1]) if part else []
    head, _, *rows = [[cell.strip() for cell in line.split("|")] for line in lines] or [[], []]
    return {row[0]: dict(zip(head, row, strict=True)) for row in rows}


def table(name, values):
    """Return a network's rows as Markdown; those that are not measured this time are the file's."""
    (build, work), rows = networks.NETWORKS[name], known_rows(pathlib.Path(values.output), name)
    if name in values.networks:
        with tempfile.TemporaryDirectory() as directory:
            build().export(directory, verbose=False)
            rows |= {method: rows.get(method, {}) | row for method, row in measure(name, values, directory).items()}
    text = (
        f"## {name}\n\nScore-CAM on the {'last' if work.relu else 'first'} ReLU's channels, occlusion with "
        f"{work.patches} patches along each axis, {work.samples} gradients for methods of samples or points, "
        f"{work.masks} masks for RISE.\n\n"
    )
    lines = [COLUMNS, ["---"] * len(COLUMNS), *([row.get(column, "") for column in COLUMNS] for row in rows.values())]
    return text + "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(values):
    """Measure every network and write the tables."""
    unknown = set(values.networks) - set(networks.NETWORKS)
    if unknown:
        raise BadInput(f"no network {min(unknown)!r}; there are {listed(networks.NETWORKS)}")
    networks.use_one_thread()
    text = "\n\n".join(
        [
            "# Speed",
            f"TensorFlow {tf.__version__}, CPU, one thread. Columns of libraries: their CPU time by ours on the same "
            f"work, above 1 where we are faster; medians of {values.repeats} or more rounds. Blank: the library lacks "
            "the method or fails on the network. Rounds: the largest difference between two rounds of the same work by "
            "their mean, over all libraries; rows without it are older. Batches of at most "
            f"{values.batch_size}. A ratio hardly depends on the number of samples, masks, patches or channels, so "
            "that there are few of them. `*`: the same number of passes, not the method. The floor of Grad-CAM is its "
            "forward pass alone, that of LRP one gradient. zennit's map: the largest difference from ours with the "
            "same weights by its largest value.",
            "No method can be much cheaper than its passes, and these are the same arithmetic in every library. What "
            "can be saved is what a library does around them: for each input (saliency takes one at a time, but puts "
            "the points of Integrated Gradients into batches) and for each call. The larger the network, the less that "
            "is, and the nearer all ratios are to 1.",
            *(table(name, values) for name in networks.NETWORKS),
        ]
    )
    print(text)
    networks.write_part(pathlib.Path(values.output), text)


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
