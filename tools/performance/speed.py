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

Each library is called the way its documentation shows. The function of a library takes a network, ``batch_size`` and
``networks.Work``, and returns its contenders by method. A contender is a function of images and targets. What a
library lacks, or computes under the same name with another meaning, is left out; ``NOT_THE_METHOD`` names what is
timed all the same because the work is the same.
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

import networks
import numpy as np
import tensorflow as tf
from absl import flags

import attribution
from attribution import cli
from attribution.errors import BadInput, listed
from attribution_benchmarks.core.tables import markdown_table

NOT_THE_METHOD = {("tf-explain", "SmoothGrad"), ("tf-explain", "Integrated Gradients")}


def ours(model, batch_size, work):
    relus = [name for name in model.layers() if model.graph.nodes[name].op == "Relu"] or [None]

    def run(name, **options):
        return lambda images, targets: attribution.explain(
            name, model, images, targets, batch_size=batch_size, **options
        )

    (shape,) = (spec.shape for spec in model.inputs.values())
    return {
        "gradient": run("gradient"),
        "Guided Backprop": run("guided_backprop"),
        "Grad-CAM": run("grad_cam"),
        "Grad-CAM++": run("grad_cam_plus_plus"),
        "SmoothGrad": run("smoothgrad", samples=work.samples),
        "VarGrad": run("vargrad", samples=work.samples),
        "Integrated Gradients": run("integrated_gradients", points=work.samples),
        "Expected Gradients": run("expected_gradients", samples=work.samples, references=references(*shape)),
        "Score-CAM": run("score_cam", layer=relus[work.relu]),
        "RISE": run("rise", masks=work.masks),
        "occlusion": run("occlusion", patch=patch_side(work, *model.inputs.values())),
        "LRP-ε+": run("lrp_epsilon_plus"),
        "LRP-α1β0": run("lrp_alpha1beta0"),
        "Excitation Backprop": run("excitation_backprop"),
    }


def xplique(network, batch_size, work):
    from xplique import attributions as library

    patch = patch_side(work, network.inputs[0])

    def run(kind, **options):
        explainer = kind(network, batch_size=batch_size, **options)
        classes = network.output_shape[-1]
        return lambda images, targets: explainer(images, tf.one_hot(targets, classes)).numpy()

    return {
        "gradient": run(library.Saliency),
        "Guided Backprop": run(library.GuidedBackprop),
        "Grad-CAM": run(library.GradCAM),
        "Grad-CAM++": run(library.GradCAMPP),
        "SmoothGrad": run(library.SmoothGrad, nb_samples=work.samples),
        "VarGrad": run(library.VarGrad, nb_samples=work.samples),
        "Integrated Gradients": run(library.IntegratedGradients, steps=work.samples),
        "RISE": run(library.Rise, nb_samples=work.masks),
        "occlusion": run(library.Occlusion, patch_size=patch, patch_stride=patch),
    }


def tf_keras_vis(network, batch_size, work):
    from tf_keras_vis.gradcam import Gradcam
    from tf_keras_vis.gradcam_plus_plus import GradcamPlusPlus
    from tf_keras_vis.saliency import Saliency
    from tf_keras_vis.scorecam import Scorecam
    from tf_keras_vis.utils.model_modifiers import GuidedBackpropagation
    from tf_keras_vis.utils.scores import CategoricalScore

    def run(explainer, **options):
        return in_batches(lambda x, t: explainer(CategoricalScore(t.tolist()), x, **options), batch_size)

    relus = [layer.name for layer in network.layers if type(layer).__name__ in ("ReLU", "Activation")] or [None]
    saliency = Saliency(network, clone=True)
    return {
        "gradient": run(saliency),
        "Guided Backprop": run(Saliency(network, model_modifier=GuidedBackpropagation(), clone=True)),
        "SmoothGrad": run(saliency, smooth_samples=work.samples, smooth_noise=0.15),
        "Grad-CAM": run(Gradcam(network, clone=True)),
        "Grad-CAM++": run(GradcamPlusPlus(network, clone=True)),
        "Score-CAM": run(Scorecam(network, clone=True), penultimate_layer=relus[work.relu]),
    }


def saliency(network, batch_size, work):
    """One image at a time, with the eager call function of the library's notebook."""
    import keras
    import saliency.core as library

    layer = [layer for layer in network.layers if len(layer.output.shape) > 2][-1]
    both = keras.Model(network.inputs, [layer.output, network.outputs[0]])

    def call(images, call_model_args=None, expected_keys=None):
        images = tf.convert_to_tensor(images, tf.float32)
        with tf.GradientTape() as tape:
            tape.watch(images)
            values, scores = both(images)
            score = scores[:, call_model_args["target"]]
            if expected_keys == [library.INPUT_OUTPUT_GRADIENTS]:
                return {library.INPUT_OUTPUT_GRADIENTS: tape.gradient(score, images).numpy()}
        return {
            library.CONVOLUTION_LAYER_VALUES: values.numpy(),
            library.CONVOLUTION_OUTPUT_GRADIENTS: tape.gradient(score, values).numpy(),
        }

    def run(method, **options):
        return in_batches(lambda x, t: method(x[0], call, {"target": int(t[0])}, **options), 1)

    return {
        "gradient": run(library.GradientSaliency().GetMask),
        "Grad-CAM": run(library.GradCam().GetMask),
        "SmoothGrad": run(library.GradientSaliency().GetSmoothedMask, nsamples=work.samples),
        "Integrated Gradients": run(library.IntegratedGradients().GetMask, x_steps=work.samples, batch_size=batch_size),
    }


def tf_explain(network, batch_size, work):
    from tf_explain.core.grad_cam import GradCAM
    from tf_explain.core.integrated_gradients import IntegratedGradients
    from tf_explain.core.occlusion_sensitivity import OcclusionSensitivity
    from tf_explain.core.smoothgrad import SmoothGrad
    from tf_explain.core.vanilla_gradients import VanillaGradients

    layer = [layer.name for layer in network.layers if len(layer.output.shape) > 2][-1]

    def run(explainer, size=batch_size, **options):  # one class a call
        return in_batches(lambda x, t: explainer.explain((x, None), network, int(t[0]), **options), size)

    few = max(1, batch_size // work.samples)
    return {
        "gradient": run(VanillaGradients()),
        "Grad-CAM": run(GradCAM(), layer_name=layer),
        "SmoothGrad": run(SmoothGrad(), few, num_samples=work.samples),
        "Integrated Gradients": run(IntegratedGradients(), few, n_steps=work.samples),
        "occlusion": run(OcclusionSensitivity(batch_size), patch_size=patch_side(work, network.inputs[0])),
    }


def captum(network, batch_size, work):
    """The same architecture in PyTorch; attributions of a whole batch, samples streamed by the batch size."""
    import torch
    import torch_networks
    from captum import attr as library

    module = torch_networks.build(network)
    last = module.features[-1] if hasattr(module, "features") else module[-4]

    def run(explain_batch, inner=batch_size):
        return in_batches(lambda x, t: explain_batch(torch_networks.tensor(x), torch.from_numpy(t)), inner)

    together = min(work.samples, batch_size)  # noisy copies of one image in one pass
    few = batch_size // together

    def noisy(kind):
        tunnel = library.NoiseTunnel(library.Saliency(module))
        options = {"nt_type": kind, "nt_samples": work.samples, "nt_samples_batch_size": together}
        return lambda x, t: tunnel.attribute(x, stdevs=0.15, target=t, abs=False, **options)

    gradient, guided = library.Saliency(module), library.GuidedBackprop(module)
    cam, path, cover = (
        library.LayerGradCam(module, last),
        library.IntegratedGradients(module),
        library.Occlusion(module),
    )
    window = (network.input_shape[-1], *[patch_side(work, network.inputs[0])] * (len(network.input_shape) - 2))
    return {
        "gradient": run(lambda x, t: gradient.attribute(x, target=t, abs=False)),
        "Guided Backprop": run(lambda x, t: guided.attribute(x, target=t)),
        "Grad-CAM": run(lambda x, t: cam.attribute(x, target=t)),
        "SmoothGrad": run(noisy("smoothgrad"), inner=few),
        "VarGrad": run(noisy("vargrad"), inner=few),
        "Integrated Gradients": run(
            lambda x, t: path.attribute(x, target=t, n_steps=work.samples, internal_batch_size=batch_size)
        ),
        "occlusion": run(lambda x, t: cover.attribute(x, window, strides=window, target=t)),
    }


def zennit(network, batch_size, work):
    """The composites whose maps are ours, as ``oracles_torch.py`` compares them; scores of one class a call."""
    import oracles_torch
    import torch_networks

    if network.name in ("efficientnetb0", "vit_tiny"):
        return {}  # no rules for gates and attention
    module = torch_networks.build(network, oracles_torch.Residual, work.same_weights)
    rules = oracles_torch.composites_of(1e-6)

    def run(name, start=None):
        def explain(x, t):
            return oracles_torch.by_zennit(module, torch_networks.tensor(x), int(t[0]), rules[name], start)

        return in_batches(lambda x, t: explain(x, t).movedim(1, -1).numpy(force=True), batch_size)

    found = {"LRP-ε+": run("epsilon_plus"), "LRP-α1β0": run("z_plus")}
    if network.name == "cnn1d":  # sums of positive and negative values are shared otherwise
        found["Excitation Backprop"] = run("excitation", 1.0)
    return found


def shap(network, batch_size, work):
    """Expected gradients of the live Keras network, of given classes and not of all."""
    import shap as library

    explainer = library.GradientExplainer(network, references(*network.input_shape), batch_size=batch_size)
    options = {"nsamples": work.samples, "output_rank_order": "custom"}
    return {"Expected Gradients": lambda x, t: explainer.shap_values(x, ranked_outputs=t[:, np.newaxis], **options)}


def references(_, *shape):
    """Return the references of Expected Gradients."""
    return np.random.default_rng(1).random((2, *shape), dtype=np.float32)


def in_batches(explain, size):
    """Return a contender that calls a function of a batch and its targets; the results are a list."""
    return lambda images, targets: [
        explain(images[start : start + size], targets[start : start + size]) for start in range(0, len(images), size)
    ]


def patch_side(work, images):
    """Return the side of occlusion's patches in pixels."""
    return images.shape[1] // work.patches


LIBRARIES = {
    "xplique": xplique,
    "tf-keras-vis": tf_keras_vis,
    "saliency": saliency,
    "tf-explain": tf_explain,
    "captum": captum,
    "zennit": zennit,
    "shap": shap,
}


FLAGS = flags.FlagValues()
cli.define_common_flags(FLAGS, batch_size=16, output=str(pathlib.Path(__file__).with_name("RESULTS.md")))
flags.DEFINE_integer("repeats", 3, "rounds through all libraries", lower_bound=1, flag_values=FLAGS)
flags.DEFINE_list("networks", list(networks.NETWORKS), "networks to time", flag_values=FLAGS)
flags.DEFINE_list("libraries", list(LIBRARIES), "libraries to time beside ours", flag_values=FLAGS)
flags.DEFINE_list("only", [], "methods to time, as the table calls them; by default all", flag_values=FLAGS)

APART = "zennit's map"
COLUMNS = ("method", "inputs", "CPU ms an input", "rounds, %", "multiple of the floor", *LIBRARIES, APART)
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
    runs = {"floor": floors(network, model, size, work), "ours": ours(model, size, work)}
    runs |= {library: LIBRARIES[library](network, size, work) for library in libraries}
    inputs = np.random.default_rng(0).random((work.images, *network.input_shape[1:]), dtype=np.float32)
    return runs, inputs, np.zeros(len(inputs), np.int64)


def first_maps(title, runs, inputs, targets):
    """Return library -> maps of its first call, which traces and compiles; a library that fails is skipped."""
    maps = {}
    for library, run in runs.items():
        try:
            maps[library] = run(inputs, targets)
        except Exception as error:  # left blank
            print(f"{title} of {library}: {error!r}"[:200], file=sys.stderr)
    return maps


def measure(name, values, saved_model):
    """Time a network round by round through all libraries; return a row of cells by column for each method."""
    work, size, rows = networks.NETWORKS[name][1], values.batch_size, {}
    runs, inputs, targets = contenders(name, size, values.libraries, saved_model)
    for method in [one for one in runs["ours"] if one not in work.skip and (not values.only or one in values.only)]:
        count = work.few if method in ("Score-CAM", "occlusion") else work.images
        own = {library: methods[method] for library, methods in runs.items() if method in methods}
        maps = first_maps(f"{name}: {method}", own, inputs[:count], targets[:count])
        times = {library: [] for library in maps}
        for _ in range(values.repeats):
            for library, seconds in times.items():
                seconds.append(networks.seconds_of(own[library], inputs[:count], targets[:count]))
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
        row[library] = f"{ratios[library]:.2f}" + " *" * ((library, method) in NOT_THE_METHOD)
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
    return (
        text + markdown_table(COLUMNS, [[row.get(column, "") for column in COLUMNS] for row in rows.values()]).strip()
    )


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
